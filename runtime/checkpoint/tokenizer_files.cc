#include "runtime/checkpoint/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "runtime/checkpoint/adapters.h"
#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/sentence_transformers.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kPrompts = "config_sentence_transformers.json";

/// Names in transformers of the files of all kinds of tokenizers. The first ones have the ids.
constexpr std::array kNames = {
    "tokenizer.json", "tokenizer.model", "spiece.model", "spm.model", "sentencepiece.bpe.model", "vocab.txt",
    "vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "chat_template.jinja",
    "generation_config.json",  // has the ids that end a text
    // Sentence Transformers: maximum length of texts, and their prompts.
    "sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
    "sentence_camembert_config.json", "sentence_albert_config.json", "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json", kPrompts};
constexpr size_t kWithIds = 7;

// Keys of config.json by which AutoTokenizer selects the tokenizer's class. A folder with only a tokenizer has no
// others.
constexpr std::array kClassKeys = {"model_type", "model_name", "tokenizer_class", "transformers_version"};

constexpr const char* kTokenizerConfig = "tokenizer_config.json";

json read_object(const fs::path& path) {
  json object = parse_config_json(read_file(path));
  if (!object.is_object()) throw std::runtime_error(fmt::format("{} is not a JSON object", path.string()));
  return object;
}

}  // namespace

std::map<std::string, std::string> tokenizer_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : kNames)
    if (is_there(folder / name)) files[name] = read_file(folder / name);
  // Older folders of Sentence Transformers have their prompts in the folder around the tokenizer's.
  if (const fs::path prompts = prompts_file(folder); is_there(prompts)) files[kPrompts] = read_file(prompts);
  return files;
}

std::map<std::string, std::string> tokenizer_with_class(const fs::path& folder) {
  auto files = tokenizer_files(folder);
  if (!files.contains("tokenizer.json") || !is_there(folder / "config.json")) return files;
  const json config = read_object(folder / "config.json");
  json kept = json::object();
  for (const char* key : kClassKeys)
    if (const auto value = config.find(key); value != config.end() && value->is_string()) kept[key] = *value;
  if (const auto encoder = config.find("encoder"); encoder != config.end() && encoder->is_object())
    kept["encoder"] = {{"model_type", encoder->value("model_type", json())}};
  if (!kept.empty()) files["config.json"] = kept.dump(2) + "\n";
  return files;
}

fs::path prompts_file(const fs::path& folder) {
  if (is_there(folder / kPrompts)) return folder / kPrompts;
  const fs::path around = sentence_folder_around(folder);
  return (around.empty() ? folder : around) / kPrompts;
}

bool has_tokenizer(const fs::path& folder) {
  return std::any_of(kNames.begin(), kNames.begin() + kWithIds,
                     [&](const char* name) { return is_there(folder / name); });
}

fs::path sentencepiece_model(const fs::path& folder) {
  for (const std::string name : kNames)
    if (name.ends_with(".model") && is_there(folder / name)) return folder / name;
  return {};
}

void check_tokenizer_files(const fs::path& folder) {
  for (const char* name : kNames)
    if (is_there(folder / name)) open_to_read(folder / name);
  if (const fs::path prompts = prompts_file(folder); is_there(prompts)) open_to_read(prompts);
  if (is_there(folder / "config.json")) open_to_read(folder / "config.json");
}

void copy_tokenizer(const fs::path& from, const fs::path& to) {
  auto files = tokenizer_files(from);
  if (files.contains("tokenizer.json") && !is_there(from / "config.json")) {
    auto config = nlohmann::ordered_json::parse(files.contains(kTokenizerConfig) ? files[kTokenizerConfig] : "{}",
                                                nullptr, /*allow_exceptions=*/false);
    if (config.is_object() && config.value("tokenizer_class", json()).is_null()) {
      config["tokenizer_class"] = "PreTrainedTokenizerFast";
      files[kTokenizerConfig] = config.dump(2) + "\n";
    }
  }
  for (const auto& [name, contents] : files) write_file(to / name, contents);
}

void copy_tokenizer_with_class(const fs::path& from, const fs::path& to) {
  for (const auto& [name, contents] : tokenizer_with_class(from)) write_file(to / name, contents);
}

fs::path tokenizer_of_weights(const fs::path& weights, const fs::path& base) {
  const fs::path found = find_checkpoint(weights), folder = found.empty() ? weights : found;
  std::vector<fs::path> candidates = {folder, folder / kTokenizerFolder};
  if (found.empty()) candidates.push_back(transformer_folder(folder));
  const fs::path run = fs::absolute(folder).lexically_normal().parent_path();
  if (!found.empty() && run.filename() == "checkpoints") candidates.push_back(run.parent_path() / kTokenizerFolder);
  for (const fs::path& candidate : candidates)
    if (has_tokenizer(candidate)) return candidate;
  if (is_peft_folder(folder))
    if (const fs::path base_folder = peft_base(folder, base); !is_peft_folder(base_folder))
      return tokenizer_of_weights(base_folder);
  return {};
}

int64_t tokenizer_vocabulary(const fs::path& folder) {
  const fs::path path = folder / "tokenizer.json";
  if (!is_there(path)) return 0;
  const json tokenizer = read_object(path);
  int64_t last = -1;
  const auto see = [&](const json& id) {
    if (id.is_number_integer()) last = std::max(last, id.get<int64_t>());
  };
  const json& words = tokenizer.value("/model/vocab"_json_pointer, json());
  if (!words.is_structured())
    throw std::runtime_error(fmt::format("{} has no vocabulary: it is not a tokenizer's file", path.string()));
  if (words.is_array()) last = static_cast<int64_t>(words.size()) - 1;  // Unigram: a word's index is its id
  if (words.is_object())
    for (const auto& [word, id] : words.items()) see(id);
  for (const json& added : tokenizer.value("added_tokens", json::array()))
    if (added.is_object() && added.contains("id")) see(added["id"]);
  if (is_there(folder / "tokenizer_config.json")) {
    const json by_id = read_object(folder / "tokenizer_config.json").value("added_tokens_decoder", json::object());
    for (const auto& [id, token] : by_id.items()) see(parse_json(id));
  }
  return last + 1;
}

}  // namespace modular
