// Files of events that TensorBoard shows.
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

/// Writes events one after another; each is in the file when the call returns. What a crash cuts off is the last one,
/// which readers leave out.
class EventFile {
 public:
  /// Begins a new file in `folder`, which is made where it is not there, after the files that are there in the order in
  /// which TensorBoard reads them. Says that `first_step` comes next, so that a reader forgets what earlier files say
  /// of that step and later ones. Throws std::runtime_error where it cannot be written, as the others
  /// do.
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  /// The run continues with `next_step`: a reader forgets what was said of that step and of later ones, in files before
  /// this one too.
  void restart(int64_t next_step);

  /// Numbers after `step`; TensorBoard holds them in 32 bits.
  void scalars(int64_t step, std::span<const Scalar> scalars);

  /// UTF-8, shown as it is, line by line.
  void text(int64_t step, std::string_view tag, std::string_view text);

 private:
  void write(int64_t step, std::string_view fields);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace modular
