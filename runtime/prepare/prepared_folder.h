// The folder that data is prepared in: creation, resumption and publication.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/data/files.h"

namespace modular {

class PreparedFolder {
 public:
  /// Resumes an interrupted preparation of `out`, or begins one, with the tokenizer's files. `manifest` describes the
  /// sources and options. Throws ConfigError if `out` holds something else, or if the preparation was begun with other
  /// options, sources or another tokenizer.
  PreparedFolder(std::filesystem::path out, const nlohmann::json& manifest, const std::filesystem::path& tokenizer);

  /// Throws ConfigError if the existing shards have ids from another `program`.
  void check_program(const std::string& program, const std::string& python) const;

  bool is_complete() const { return complete_; }
  std::filesystem::path tokenizer() const;
  /// Folder of shards that are not in their final form yet; not part of the published data.
  std::filesystem::path work() const { return folder() / kPrepareWork; }
  /// Path of a shard in its final form.
  std::filesystem::path part(size_t number, const std::string& suffix) const;

  /// Writes prepared.manifest for the parts and gives the folder its name.
  void publish(const std::vector<std::filesystem::path>& parts);

 private:
  std::filesystem::path folder() const;

  std::filesystem::path out_;
  bool complete_ = false;
};

/// Makes a complete file durable and gives it its name.
void publish_file(const std::filesystem::path& partial, const std::filesystem::path& path);

}  // namespace modular
