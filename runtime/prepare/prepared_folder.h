// The folder that data is prepared in: begun, taken up again, published.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/data/files.h"

namespace modular {

class PreparedFolder {
 public:
  /// Takes up what an interrupted program left of `out`, or begins it, with the files of the tokenizer. `manifest` says
  /// what it is prepared of and how. Throws ConfigError where `out` holds something else, or what was
  /// begun had other options, sources or another tokenizer.
  PreparedFolder(std::filesystem::path out, const nlohmann::json& manifest, const std::filesystem::path& tokenizer);

  /// Throws ConfigError where what was begun has ids that another `program` made.
  void check_program(const std::string& program, const std::string& python) const;

  bool is_complete() const { return complete_; }
  std::filesystem::path tokenizer() const;
  /// Where shards that are not in their last form yet lie; not part of what is published.
  std::filesystem::path work() const { return folder() / kPrepareWork; }
  /// The file of a shard in its last form.
  std::filesystem::path part(size_t number, const std::string& suffix) const;

  /// Writes prepared.manifest of the parts and gives the folder its name.
  void publish(const std::vector<std::filesystem::path>& parts);

 private:
  std::filesystem::path folder() const;

  std::filesystem::path out_;
  bool complete_ = false;
};

/// Gives a complete file its name, once it is stored.
void publish_file(const std::filesystem::path& partial, const std::filesystem::path& path);

}  // namespace modular
