// modrun-sentencepiece: serves a tokenizer with a SentencePiece model, in the protocol of tokenizer_helper.py. It is a
// separate program because libsentencepiece and libtorch define symbols of the same names.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "runtime/tokenizer/sentencepiece/texts.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Ids of one text or a pair, as they are built.
struct Encoded {
  std::vector<int32_t> ids, words;  // words: index of each id's word; -1 for none
  std::vector<uint8_t> types;

  void add(const std::vector<int32_t>& more, uint8_t type, int32_t word = -1) {
    ids.insert(ids.end(), more.begin(), more.end());
    words.insert(words.end(), more.size(), word);
    types.insert(types.end(), more.size(), type);
  }
  void add(const Encoded& more, uint8_t type) {
    ids.insert(ids.end(), more.ids.begin(), more.ids.end());
    words.insert(words.end(), more.words.begin(), more.words.end());
    types.insert(types.end(), more.ids.size(), type);
  }
  void truncate(size_t longest, bool at_begin) {
    if (ids.size() <= longest) return;
    const auto cut = [&](std::vector<int32_t>& values) {
      if (at_begin) values.erase(values.begin(), values.end() - static_cast<std::ptrdiff_t>(longest));
      values.resize(longest);
    };
    cut(ids), cut(words);
  }
};

/// Encodes a text, or a list of words.
Encoded encode_text(const Texts& texts, const json& text) {
  Encoded encoded;
  if (!text.is_array()) {
    encoded.add(texts.encode(text.get_ref<const std::string&>()), 0, 0);
    return encoded;
  }
  for (int32_t number = 0; const json& word : text)
    encoded.add(texts.encode(word.get_ref<const std::string&>()), 0, number++);
  return encoded;
}

/// Truncates both to `longest` ids together, the longer one first, like the package tokenizers.
void truncate_pair(Encoded& first, Encoded& second, size_t longest, bool at_begin) {
  const size_t first_size = first.ids.size(), second_size = second.ids.size();
  if (first_size + second_size <= longest) return;
  size_t shorter = std::min(first_size, second_size),
         longer = shorter > longest ? shorter : std::max(shorter, longest - shorter);
  if (shorter + longer > longest) shorter = longest / 2, longer = shorter + longest % 2;
  first.truncate(first_size > second_size ? longer : shorter, at_begin);
  second.truncate(first_size > second_size ? shorter : longer, at_begin);
}

Encoded encode(const Texts& texts, const json& request, size_t row) {
  const Definition& definition = texts.definition();
  const bool is_pair = !request.at("pairs").is_null(), special = request.at("special");
  Encoded first = encode_text(texts, request.at("texts").at(row)), second;
  if (is_pair) second = encode_text(texts, request.at("pairs").at(row));
  if (const json& longest = request.at("longest"); !longest.is_null()) {
    const size_t around =
        special ? definition.before.size() + definition.after.size() + (is_pair ? definition.between.size() : 0) : 0;
    if (longest.get<size_t>() < around) throw std::runtime_error("the ids around a text exceed the requested length");
    const size_t left = longest.get<size_t>() - around;
    if (is_pair)
      truncate_pair(first, second, left, definition.truncates_left);
    else
      first.truncate(left, definition.truncates_left);
  }
  const uint8_t second_type = definition.second_has_type ? 1 : 0;
  Encoded all;
  if (special) all.add(definition.before, 0);
  all.add(first, 0);
  if (is_pair) {
    // Of the ids between the texts, those that begin the second text have its type.
    const size_t ends = definition.after.size();
    if (special)
      for (size_t at = 0; at < definition.between.size(); ++at)
        all.add({definition.between[at]}, at < ends ? 0 : second_type);
    all.add(second, second_type);
  }
  if (special) all.add(definition.after, is_pair ? second_type : 0);
  return all;
}

template <class Number>
void write(const std::vector<Number>& numbers) {
  std::cout.write(reinterpret_cast<const char*>(numbers.data()),
                  static_cast<std::streamsize>(numbers.size() * sizeof(Number)));
}

void answer(const json& message) { std::cout << message.dump(-1, ' ', false, json::error_handler_t::replace) << '\n'; }

void answer_texts(const Texts& texts, const json& request) {
  Encoded all;
  json lengths = json::array();
  for (size_t row = 0; row < request.at("texts").size(); ++row) {
    const Encoded encoded = encode(texts, request, row);
    lengths.push_back(encoded.ids.size());
    all.ids.insert(all.ids.end(), encoded.ids.begin(), encoded.ids.end());
    all.types.insert(all.types.end(), encoded.types.begin(), encoded.types.end());
    all.words.insert(all.words.end(), encoded.words.begin(), encoded.words.end());
  }
  answer({{"lengths", lengths}});
  write(all.ids);
  const json& asks = request.at("asks");
  if (std::ranges::find(asks, json("types")) != asks.end()) write(all.types);
  if (std::ranges::find(asks, json("words")) != asks.end()) write(all.words);
}

json about(const Definition& definition) {
  const auto id = [](const std::optional<int32_t>& value) { return value ? json(*value) : json(); };
  return {{"vocabulary", definition.tokens.size()}, {"eos", id(definition.end_of_text)},
          {"pad", id(definition.padding)},          {"mask", id(definition.mask)},
          {"pads_left", definition.pads_left},      {"closing", definition.after.size()},
          {"gives_types", definition.gives_types}};
}

json read_object(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  std::ifstream in(path);
  json object = json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) throw std::runtime_error(path.string() + " is not a JSON object");
  return object;
}

/// tokenizer_config.json next to a model, completed from special_tokens_map.json in older folders.
json config_beside(const fs::path& model) {
  json config = read_object(model.parent_path() / "tokenizer_config.json");
  if (!config.contains("added_tokens_decoder")) {
    config.update(read_object(model.parent_path() / "special_tokens_map.json"));
    if (fs::exists(model.parent_path() / "added_tokens.json"))
      throw std::runtime_error(
          "its folder has an added_tokens.json, but no added_tokens_decoder in tokenizer_config.json, and "
          "added_tokens.json is not supported: "
          "let transformers write its tokenizer.json: AutoTokenizer.from_pretrained(…).save_pretrained(…)");
  }
  return config;
}

/// libsentencepiece does not validate the inner tables of a model: if they are damaged, it reads out of bounds.
extern "C" void answer_and_end(int) {
  constexpr std::string_view sentence =
      "{\"error\": \"libsentencepiece cannot continue with the tokenizer's model, which is damaged: write or copy the "
      "file "
      "again\"}\n";
  _exit(::write(STDOUT_FILENO, sentence.data(), sentence.size()) < 0 ? 1 : 0);
}

int serve() {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(signal, answer_and_end);
  std::ios::sync_with_stdio(false);
  std::string line;
  std::getline(std::cin, line);
  std::optional<Texts> texts;
  std::string error;
  const fs::path model = json::parse(line).at("model").get<std::string>();
  try {
    texts.emplace(define_tokenizer(model.string(), config_beside(model)));
  } catch (const json::exception&) {
    error = "a value in tokenizer_config.json or special_tokens_map.json has a type that transformers does not write";
  } catch (const std::exception& problem) {
    error = problem.what();
  }
  if (!texts) {
    answer({{"error", "the tokenizer in " + model.parent_path().string() + " cannot be read: " + error}});
    std::cout.flush();
    return 0;
  }
  answer(about(texts->definition()));
  std::cout.flush();
  while (std::getline(std::cin, line)) {
    try {
      const json request = json::parse(line);
      if (request.contains("chat"))
        answer({{"error",
                 "chat templates need a tokenizer.json, and the tokenizer is a SentencePiece model: let "
                 "transformers write its tokenizer.json: AutoTokenizer.from_pretrained(…).save_pretrained(…)"}});
      else if (request.contains("decode"))
        answer({{"text", texts->decode(request["decode"].get<std::vector<int64_t>>())}});
      else
        answer_texts(*texts, request);
    } catch (const std::exception& error) {
      answer({{"error", std::string("the tokenizer rejects a text: ") + error.what()}});
    }
    std::cout.flush();
  }
  return 0;
}

}  // namespace
}  // namespace modular

int main() { return modular::serve(); }
