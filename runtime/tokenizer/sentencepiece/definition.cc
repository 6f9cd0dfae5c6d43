#include "runtime/tokenizer/sentencepiece/definition.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

namespace modular {
namespace {

using nlohmann::json;
using Names = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kOtherwise =
    "let transformers write its tokenizer.json: AutoTokenizer.from_pretrained(…).save_pretrained(…)";
// In the order in which transformers adds them.
constexpr std::array kNamed = {"bos_token", "eos_token", "unk_token", "sep_token",
                               "pad_token", "cls_token", "mask_token"};

[[noreturn]] void reject(const std::string& what) { throw std::runtime_error(fmt::format("{}: {}", what, kOtherwise)); }

/// A tokenizer class of transformers.
struct Class {
  const char* name;
  const char* file;  // file name of its models
  ModelFile::Algorithm algorithm;
  std::vector<std::pair<const char*, const char*>> named;
  bool pads_left;
  void (*define)(Definition& definition, const json& config, const std::string& model);
};

void define_llama(Definition& definition, const json& config, const std::string& model);
void define_t5(Definition& definition, const json& config, const std::string& model);
void define_xlm_roberta(Definition& definition, const json& config, const std::string& model);

const std::vector<Class>& classes() {
  using enum ModelFile::Algorithm;
  static const std::vector<Class> all = {
      {"LlamaTokenizer",
       "tokenizer.model",
       bpe,
       {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}},
       /*pads_left=*/true,
       define_llama},
      {"T5Tokenizer",
       "spiece.model",
       unigram,
       {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}},
       /*pads_left=*/false,
       define_t5},
      {"XLMRobertaTokenizer",
       "sentencepiece.bpe.model",
       unigram,
       {{"bos_token", "<s>"},
        {"eos_token", "</s>"},
        {"unk_token", "<unk>"},
        {"sep_token", "</s>"},
        {"pad_token", "<pad>"},
        {"cls_token", "<s>"},
        {"mask_token", "<mask>"}},
       /*pads_left=*/false,
       define_xlm_roberta},
  };
  return all;
}

std::string text_of_token(const json& token) { return token.is_string() ? token : token.at("content"); }

/// The class that the config names; otherwise the class whose models have this file name; otherwise LlamaTokenizer for
/// BPE.
const Class& get_class(const std::string& model, const ModelFile& file, const json& config) {
  std::string name = config.value("tokenizer_class", "");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  for (const Class& entry : classes())
    if (name.empty() ? std::filesystem::path(model).filename() == entry.file && file.algorithm == entry.algorithm
                     : name == entry.name)
      return entry;
  if (name.empty() && file.algorithm == ModelFile::Algorithm::bpe) return classes().front();
  std::vector<std::string> known;
  for (const Class& entry : classes()) known.emplace_back(entry.name);
  if (name.empty())
    throw std::runtime_error(fmt::format(
        "the tokenizer class of {} does not follow from its name: write {{\"tokenizer_class\": NAME}}, one of {}, "
        "into a tokenizer_config.json next to it",
        model, fmt::join(known, ", ")));
  reject(
      fmt::format("{} is for {}, and SentencePiece models are supported for {}", model, name, fmt::join(known, ", ")));
}

/// Adds tokens that have no id yet to a definition.
class Adding {
 public:
  explicit Adding(Definition& definition) : definition_(definition) {
    for (size_t id = 0; id < definition.tokens.size(); ++id)
      ids_.emplace(definition.tokens[id], static_cast<int32_t>(id));
  }

  int32_t add(const json& token, bool special) {
    const std::string text = text_of_token(token);
    if (text.empty()) reject("the tokenizer has an added token without text");
    const auto [found, is_new] = ids_.emplace(text, static_cast<int32_t>(definition_.tokens.size()));
    if (is_new) definition_.tokens.push_back(text);
    if (!added_.insert(text).second) return found->second;
    const auto is = [&](const char* key) { return token.is_object() && token.value(key, false); };
    if (is("single_word")) reject(fmt::format("{:?} is a token for single words (single_word)", text));
    if (is("normalized") && !definition_.file.character_map.empty() && definition_.spaces == Spaces::one_a_word)
      reject(fmt::format("{:?} is a token that is matched in normalized text", text));
    definition_.added.push_back({text, found->second, special, is("lstrip"), is("rstrip")});
    return found->second;
  }

 private:
  Definition& definition_;
  std::unordered_map<std::string, int32_t> ids_;
  std::set<std::string> added_;
};

/// The named tokens, from the config or otherwise from the class.
std::vector<std::pair<std::string, json>> named_tokens(const Class& type, const json& config) {
  std::vector<std::pair<std::string, json>> tokens;
  for (const char* name : kNamed) {
    json token = config.value(name, json());
    if (!config.contains(name))
      for (const auto& [key, text] : type.named)
        if (std::string(key) == name) token = text;
    if (!token.is_null()) tokens.emplace_back(name, std::move(token));
  }
  return tokens;
}

json further_tokens(const json& config) {
  for (const char* key : {"extra_special_tokens", "additional_special_tokens"})
    if (config.contains(key) && !config[key].empty()) {
      if (!config[key].is_array()) reject(fmt::format("{} in tokenizer_config.json is not a list", key));
      return config[key];
    }
  return json();
}

/// T5's sentinel tokens, which mark gaps in a text, in the order of their ids.
std::vector<std::string> sentinels(const json& config) {
  std::vector<std::string> tokens;
  for (auto number = config.value("extra_ids", int64_t{100}) - 1; number >= 0; --number)
    tokens.push_back(fmt::format("<extra_id_{}>", number));
  return tokens;
}

/// Adds the tokens in the config's list; if it has none, those that the model marks, and T5's sentinels.
void add_further_tokens(Definition& definition, Adding& adding, const Class& type, const json& config) {
  const json listed = further_tokens(config);
  const std::vector<std::string> own = type.define == define_t5 ? sentinels(config) : std::vector<std::string>();
  for (const json& token : listed) adding.add(token, /*special=*/true);
  if (listed.empty()) {
    for (const Piece& piece : definition.file.pieces)
      if (piece.type == Piece::Type::control || piece.type == Piece::Type::user_defined)
        adding.add(json(piece.text), piece.type == Piece::Type::control);
    for (const std::string& token : own) adding.add(json(token), /*special=*/true);
  }
  const auto check = [&](const std::string& text) {
    if (std::ranges::find(definition.added, text, &AddedToken::text) == definition.added.end())
      reject(fmt::format("the special tokens of tokenizer_config.json lack the tokenizer's own {:?}", text));
  };
  std::ranges::for_each(own, check);
  for (const Piece& piece : definition.file.pieces)
    if (piece.type == Piece::Type::user_defined) check(piece.text);
}

void add_tokens(Definition& definition, const Class& type, const json& config) {
  Adding adding(definition);
  std::map<int64_t, json> decoder;
  const json by_id = config.value("added_tokens_decoder", json::object());
  for (const auto& [id, token] : by_id.items()) decoder[json::parse(id).get<int64_t>()] = token;
  for (const auto& [id, token] : decoder)
    if (const int32_t made = adding.add(token, token.value("special", false)); made != id)
      reject(
          fmt::format("added_tokens_decoder gives {:?} the id {}, but its id is {}", text_of_token(token), id, made));
  for (const auto& [name, token] : named_tokens(type, config)) {
    const int32_t id = adding.add(token, /*special=*/true);
    if (name == "eos_token") definition.end_of_text = id;
    if (name == "pad_token") definition.padding = id;
    if (name == "mask_token") definition.mask = id;
  }
  add_further_tokens(definition, adding, type, config);
}

int32_t id_for(const Definition& definition, const std::string& text) {
  const auto found = std::ranges::find(definition.tokens, text);
  if (found == definition.tokens.end()) reject(fmt::format("the tokenizer has no token {:?}", text));
  return static_cast<int32_t>(found - definition.tokens.begin());
}

std::string name_in(const json& config, const char* key, const char* fallback) {
  return config.contains(key) && !config[key].is_null() ? text_of_token(config[key]) : fallback;
}

void tokens_are_pieces(Definition& definition) {
  for (const Piece& piece : definition.file.pieces) {
    definition.ids.push_back(static_cast<int32_t>(definition.tokens.size()));
    definition.tokens.push_back(piece.text);
  }
}

void check_words(const Definition& definition, const std::string& model) {
  const ModelFile& file = definition.file;
  if (file.byte_fallback)
    reject(fmt::format("{} falls back to bytes, which Unigram models in transformers do not", model));
  for (const Piece& piece : file.pieces)
    if (piece.type == Piece::Type::normal && piece.text.find(kSpaceSign, 1) != std::string::npos)
      reject(fmt::format("{} has pieces of several words", model));
}

void define_llama(Definition& definition, const json& config, const std::string& model) {
  tokens_are_pieces(definition);
  definition.spaces = Spaces::as_given;
  definition.prefix = Prefix::at_the_beginning;
  if (config.contains("legacy") && config["legacy"] == true) definition.prefix = Prefix::every_part;
  if (config.contains("add_prefix_space") && config["add_prefix_space"] == false) definition.prefix = Prefix::never;
  if (std::ranges::count(definition.file.pieces, Piece::Type::byte, &Piece::type) != 256)
    reject(fmt::format("{} does not fall back to bytes, unlike Llama's models", model));
}

void define_t5(Definition& definition, const json& config, const std::string& model) {
  tokens_are_pieces(definition);
  for (std::string& token : sentinels(config)) definition.tokens.push_back(std::move(token));
  definition.spaces = Spaces::one_a_word;
  check_words(definition, model);
  const auto& pieces = definition.file.pieces;
  if (pieces.size() < 3 || pieces[2].type != Piece::Type::unknown)
    reject(fmt::format("the third piece of {} is not the unknown one, as in T5's models", model));
}

void define_xlm_roberta(Definition& definition, const json& config, const std::string& model) {
  const auto& pieces = definition.file.pieces;
  if (pieces.size() < 3 || pieces[0].type != Piece::Type::unknown || pieces[1].type != Piece::Type::control ||
      pieces[2].type != Piece::Type::control)
    reject(fmt::format("{} does not begin with the unknown piece and two marks, unlike XLM-RoBERTa's models", model));
  if (config.contains("add_prefix_space") && config["add_prefix_space"] == false)
    reject("add_prefix_space is false in tokenizer_config.json");
  definition.tokens = {name_in(config, "bos_token", "<s>"), name_in(config, "pad_token", "<pad>"),
                       name_in(config, "eos_token", "</s>"), name_in(config, "unk_token", "<unk>")};
  definition.ids = {3, 0, 2};
  for (size_t piece = 3; piece < pieces.size(); ++piece) {
    definition.ids.push_back(static_cast<int32_t>(definition.tokens.size()));
    definition.tokens.push_back(pieces[piece].text);
  }
  definition.tokens.push_back(name_in(config, "mask_token", "<mask>"));
  definition.spaces = Spaces::one_a_word;
  check_words(definition, model);
}

/// Sets the ids that are put around texts.
void define_around(Definition& definition, const Class& type, const json& config) {
  const std::string bos = name_in(config, "bos_token", "<s>"), eos = name_in(config, "eos_token", "</s>");
  if (type.define == define_llama) {
    const bool begins = config.value("add_bos_token", false), ends = config.value("add_eos_token", false);
    if (begins) definition.before = {id_for(definition, bos)};
    if (ends) definition.after = {id_for(definition, eos)};
    definition.between = definition.after;
    definition.between.insert(definition.between.end(), definition.before.begin(), definition.before.end());
    definition.second_has_type = true;
  } else if (type.define == define_t5) {
    definition.after = {*definition.end_of_text};
    definition.between = definition.after;
  } else {
    definition.before = {id_for(definition, bos)};
    definition.after = {id_for(definition, eos)};
    definition.between = {definition.after.front(), definition.after.front()};
  }
}

}  // namespace

bool Definition::is_special(int32_t id) const {
  return std::ranges::any_of(added, [&](const AddedToken& token) { return token.id == id && token.special; });
}

Definition define_tokenizer(const std::string& model, const json& config) {
  Definition definition;
  definition.file = read_model_file(model);
  const Class& type = get_class(model, definition.file, config);
  if (definition.file.algorithm != type.algorithm)
    reject(fmt::format("{} is not a {} model, which {} needs", model,
                       type.algorithm == ModelFile::Algorithm::bpe ? "BPE" : "Unigram", type.name));
  if (definition.file.space_is_suffix) reject(fmt::format("{} has spaces at the ends of words", model));
  if (std::ranges::count(definition.file.pieces, Piece::Type::unused, &Piece::type) > 0)
    reject(fmt::format("{} has pieces of type UNUSED", model));
  type.define(definition, config, model);
  add_tokens(definition, type, config);
  define_around(definition, type, config);
  definition.pads_left = config.value("padding_side", type.pads_left ? "left" : "right") == "left";
  definition.truncates_left = config.value("truncation_side", "right") == "left";
  definition.splits_special = config.value("split_special_tokens", false);
  const json inputs = config.value("model_input_names", json::array());
  definition.gives_types = std::ranges::find(inputs, json("token_type_ids")) != inputs.end();
  return definition;
}

}  // namespace modular
