#include "runtime/prepare/prepared_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/data/files.h"
#include "runtime/files/open_file.h"
#include "runtime/model/config.h"
#include "runtime/train/folder_lock.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A SentencePiece model and the files that say how to use it, without other vocabulary files.
std::map<std::string, std::string> with_model(const fs::path& model) {
  auto files = tokenizer_files(fs::absolute(model).parent_path());
  const std::string name = files.contains(model.filename().string()) ? model.filename().string() : "tokenizer.model";
  std::erase_if(files,
                [](const auto& file) { return file.first == "tokenizer.json" || file.first.ends_with(".model"); });
  files[name] = read_file(model, kMostTextBytes, Links::followed);
  return files;
}

/// The tokenizer's files as they should be in the folder.
std::map<std::string, std::string> wanted_tokenizer(const fs::path& tokenizer) {
  if (!fs::exists(tokenizer)) throw ConfigError(fmt::format("the tokenizer {} does not exist", tokenizer.string()));
  const bool is_folder = fs::is_directory(tokenizer);
  if (!is_folder && tokenizer.extension() == ".model") return with_model(tokenizer);
  if (!is_folder && tokenizer.extension() == ".json" && tokenizer.filename() != "tokenizer.json")
    return {{"tokenizer.json", read_file(tokenizer, kMostTextBytes, Links::followed)}};
  auto files = tokenizer_with_class(is_folder ? tokenizer : fs::absolute(tokenizer).parent_path());
  const bool is_read = files.contains("tokenizer.json") || (is_folder && !sentencepiece_model(tokenizer).empty());
  if (!is_read)
    throw ConfigError(
        fmt::format("{} holds neither tokenizer.json nor a SentencePiece model: transformers writes tokenizer.json "
                    "by AutoTokenizer.from_pretrained(…).save_pretrained(…)",
                    tokenizer.string()));
  return files;
}

/// Whether a folder has any shards.
bool has_shards(const fs::path& folder, const fs::path& work) {
  const auto is_shard = [](const auto& entry) {
    return entry.path().extension() == ".tokens" || entry.path().extension() == ".safetensors";
  };
  const auto has = [&](const fs::path& path) {
    return fs::exists(path) && std::any_of(fs::directory_iterator(path), fs::directory_iterator(), is_shard);
  };
  return has(folder) || has(work);
}

/// Describes the difference between two manifests; empty if there is none.
std::string difference(const json& was, const json& is) {
  for (const auto& [key, value] : is.items()) {
    if (key == "sources" || was.value(key, json()) == value) continue;
    return fmt::format("with {} = {}, which is now {}", key, shown(was.value(key, json())), shown(value));
  }
  const json before = was.value("sources", json::array()), now = is.at("sources");
  for (size_t source = 0; source < std::min(before.size(), now.size()); ++source)
    if (before[source] != now[source])
      return fmt::format("from other sources: {} is another file or has changed since",
                         now[source].at("path").get<std::string>());
  if (before.size() != now.size())
    return fmt::format("from {} sources, and there are now {}", before.size(), now.size());
  return {};
}

}  // namespace

PreparedFolder::PreparedFolder(fs::path out, const json& manifest, const fs::path& tokenizer) : out_(std::move(out)) {
  const auto wanted = wanted_tokenizer(tokenizer);
  complete_ = fs::exists(out_ / kPrepareOptions);
  if (!complete_ && fs::exists(out_) && !(fs::is_directory(out_) && fs::is_empty(out_)))
    throw ConfigError(fmt::format("{} exists already and is not prepared data: name a new folder", out_.string()));
  const fs::path current = folder();
  const auto begin = [&] {
    begin_folder(out_);
    fs::create_directory(current / kTokenizerFolder);
    fs::create_directory(work());
    for (const auto& [name, contents] : wanted) write_file(current / kTokenizerFolder / name, contents);
    write_file(current / kPrepareOptions, manifest.dump(2) + "\n");  // written last: marks the folder as begun
  };
  if (!fs::exists(current / kPrepareOptions)) {
    begin();
    return;
  }
  const json begun = parse_json(read_file(current / kPrepareOptions));
  std::string other = begun.is_object() ? difference(begun, manifest) : "by another program";
  if (other.empty() && tokenizer_with_class(current / kTokenizerFolder) != wanted) other = "with another tokenizer";
  if (!other.empty() && !complete_ && !has_shards(current, work())) {
    FolderLock::check(work());
    begin();  // it has no shards, because the data was rejected, for example
    return;
  }
  if (!other.empty())
    throw ConfigError(fmt::format(
        "{} was prepared {}: continue with the original command, remove the folder, or name a new one with --out",
        current.string(), other));
  if (complete_) fs::remove_all(work());  // left by a program that was killed at that point
}

void PreparedFolder::check_program(const std::string& program, const std::string& python) const {
  const fs::path path = work() / "program";
  const std::string before = fs::exists(path) ? read_file(path) : program;
  if (before != program && has_shards(folder(), work()))
    throw ConfigError(
        fmt::format("{} was begun with {}, and {} has {}, whose ids may differ: continue with the former's --python, "
                    "or remove the folder",
                    folder().string(), before, python, program));
  write_file(path, program);
}

fs::path PreparedFolder::folder() const { return complete_ ? out_ : partial_folder(out_); }

fs::path PreparedFolder::tokenizer() const { return folder() / kTokenizerFolder; }

fs::path PreparedFolder::part(size_t number, const std::string& suffix) const {
  return folder() / fmt::format("part-{:05}{}", number, suffix);
}

void PreparedFolder::publish(const std::vector<fs::path>& parts) {
  std::string sizes;
  for (const fs::path& part : parts) sizes += fmt::format("{} {}\n", fs::file_size(part), part.filename().string());
  write_file(folder() / kPreparedManifest, sizes);
  publish_folder(out_);
  complete_ = true;
  fs::remove_all(work());
}

void publish_file(const fs::path& partial, const fs::path& path) {
  const int file = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_system_error(partial, "opened");
  const int failed = ::fsync(file);
  ::close(file);
  if (failed != 0) throw_system_error(partial, "written");
  fs::rename(partial, path);
}

}  // namespace modular
