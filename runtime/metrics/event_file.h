// TensorBoard event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace modular {

struct Scalar {
  std::string_view tag;
  double value = 0.0;
};

/// Appends events, each of which is in the file when the call returns. A crash truncates at most the last event, which
/// readers skip.
class EventFile {
 public:
  /// Creates a new file in `folder`, creating the folder if needed. The file sorts after existing ones in the order in
  /// which TensorBoard reads them. Declares `first_step` as the next step, so that readers drop what earlier files hold
  /// for that step and later ones. Throws std::runtime_error if it cannot be written, as the other members do.
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  /// Continues the run at `next_step`: readers drop that step and later ones, in earlier files too.
  void restart(int64_t next_step);

  /// Logs numbers after `step`. TensorBoard stores float32.
  void scalars(int64_t step, std::span<const Scalar> scalars);

  /// Logs UTF-8 text, shown verbatim, line by line.
  void text(int64_t step, std::string_view tag, std::string_view text);

 private:
  void write(int64_t step, std::string_view fields);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace modular
