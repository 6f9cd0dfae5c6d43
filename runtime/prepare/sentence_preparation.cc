#include "runtime/prepare/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kNoLength = 1'000'000'000;  // transformers writes a larger number for "no maximum"

/// The file's JSON object, or an empty one if there is no such file.
json read_json_object(const fs::path& path) {
  if (!is_there(path)) return json::object();
  const json object = parse_json(read_config_text(path));
  if (!object.is_object()) throw ConfigError(fmt::format("{} is not a JSON object", path.string()));
  return object;
}

/// Older releases named the file after the model.
fs::path transformer_config(const fs::path& folder) {
  for (const char* model : {"bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"})
    if (fs::path file = folder / fmt::format("sentence_{}_config.json", model); is_there(file)) return file;
  return folder / "sentence_bert_config.json";
}

std::optional<int64_t> length_in(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number() || *found < 1 || *found >= kNoLength) return {};
  return found->get<int64_t>();
}

/// The prompts of a folder by name.
struct Prompts {
  fs::path file;
  json texts = json::object();
  std::string usual;  // default prompt name, or empty

  explicit Prompts(const fs::path& folder) : file(prompts_file(folder)) {
    const json config = read_json_object(file);
    if (config.contains("prompts") && !config["prompts"].is_null()) texts = config["prompts"];
    if (!texts.is_object() || !std::ranges::all_of(texts, [](const json& text) { return text.is_string(); }))
      throw ConfigError(
          fmt::format("{}: \"prompts\" is {}: write an object of texts by their names", file.string(), shown(texts)));
    const json name = config.value("default_prompt_name", json());
    if (!name.is_null() && !name.is_string())
      throw ConfigError(fmt::format("{}: \"default_prompt_name\" is {}: write a name of \"prompts\", or null",
                                    file.string(), shown(name)));
    if (name.is_string()) usual = name;
  }

  std::string text(const std::string& name) const {
    if (name.empty()) return {};
    if (texts.contains(name)) return texts[name];
    std::vector<std::string> known;
    for (const auto& [known_name, text] : texts.items()) known.push_back(known_name);
    throw ConfigError(fmt::format("{} has no prompt \"{}\": {}", file.string(), name,
                                  known.empty() ? "it has none" : fmt::format("it has {}", fmt::join(known, ", "))));
  }
};

std::string make_note(const std::vector<std::string>& prompts, const Prompts& known,
                      const SentencePreparation& options) {
  std::string note;
  const bool has_any = std::ranges::any_of(known.texts, [](const json& text) { return text != ""; });
  if (!std::ranges::all_of(prompts, &std::string::empty))
    note = fmt::format("prompts in front of the texts: {}", json(prompts).dump());
  else if (has_any)
    note = fmt::format("texts get no prompt; {} has prompts, which --prompt-names selects", known.file.string());
  if (options.longest)
    note += fmt::format("{}texts are truncated to {} ids", note.empty() ? "" : "; ", *options.longest);
  return note;
}

}  // namespace

SentencePreparation read_sentence_preparation(const fs::path& folder, const std::vector<std::string>& names,
                                              size_t columns, std::optional<int64_t> positions) {
  if (names.size() > 1 && names.size() != columns)
    throw ConfigError(
        fmt::format("--prompt-names has {} names, and --text names {} columns: write one name for all, or "
                    "one per column; \"\" means no prompt",
                    names.size(), columns));
  const Prompts known(folder);
  SentencePreparation options;
  for (size_t column = 0; column < columns; ++column)
    options.prompts.push_back(known.text(names.empty() ? known.usual : names[names.size() == 1 ? 0 : column]));
  const fs::path transformer_file = transformer_config(folder);
  const json transformer = read_json_object(transformer_file);
  if (is_there(known.file) || !transformer.empty()) {
    options.longest = length_in(transformer, "max_seq_length");
    if (!options.longest)
      options.longest = length_in(read_json_object(folder / "tokenizer_config.json"), "model_max_length");
    if (positions) options.longest = std::min(options.longest.value_or(*positions), *positions);
  }
  const json lowers = transformer.value("do_lower_case", json(false));
  if (lowers == true && !is_there(folder / "tokenizer.json"))
    throw ConfigError(
        fmt::format("{}: \"do_lower_case\" is true, which is supported only with tokenizer.json: write "
                    "it with AutoTokenizer.from_pretrained(…).save_pretrained(…)",
                    transformer_file.string()));
  options.note = make_note(options.prompts, known, options);
  if (std::ranges::all_of(options.prompts, &std::string::empty)) options.prompts.clear();
  return options;
}

}  // namespace modular
