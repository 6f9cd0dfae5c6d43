#include "runtime/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "runtime/checkpoint/tokenizer_files.h"
#include "runtime/files/open_file.h"
#include "runtime/launch/helper.h"
#include "runtime/mesh/libraries.h"
#include "runtime/model/config.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// In the order of their dependencies.
constexpr const char* kProgram =
#include "runtime/tokenizer/chat_template.inc"
#include "runtime/tokenizer/fast_parts.inc"
#include "runtime/tokenizer/fast_tokenizers.inc"
#include "runtime/tokenizer/open_tokenizer.inc"
#include "runtime/tokenizer/tokenizer_class.inc"
#include "runtime/tokenizer/tokenizer_helper.inc"
    ;

constexpr const char* kSentencePiece = "modrun-sentencepiece";

/// Path of the program next to this one, or its name for a lookup in PATH.
std::string sentencepiece_program() {
  const fs::path sibling = own_program().parent_path() / kSentencePiece;
  return fs::exists(sibling) ? sibling.string() : kSentencePiece;
}

JsonHelper started_in_python(const std::string& python) try {
  const PythonCommand command(python, "tokenizers", kProgram);
  return JsonHelper(command.words, command.variables);
} catch (const std::runtime_error& error) {
  throw ConfigError(fmt::format("the tokenizer runs in Python: {}: name an existing Python", error.what()));
}

JsonHelper started_sentencepiece() try {
  return JsonHelper({sentencepiece_program()});
} catch (const std::runtime_error& error) {
  throw ConfigError(
      fmt::format("SentencePiece models need the program {}, which is installed with modrun: {}: put it "
                  "next to modrun",
                  kSentencePiece, error.what()));
}

/// Starts the process that reads the tokenizer of a folder.
JsonHelper started(const fs::path& folder, const std::string& python) {
  try {
    check_tokenizer_files(folder);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
  if (is_there(folder / "tokenizer.json")) return started_in_python(python);
  if (!sentencepiece_model(folder).empty()) return started_sentencepiece();
  throw ConfigError(fmt::format(
      "{} holds neither tokenizer.json nor a SentencePiece model: name the folder of a tokenizer that "
      "has one; transformers writes tokenizer.json with AutoTokenizer.from_pretrained(…).save_pretrained(…)",
      folder.string()));
}

std::optional<int64_t> id_for(const json& answer, const char* name) {
  return answer.at(name).is_null() ? std::nullopt : std::optional(answer.at(name).get<int64_t>());
}

template <class Number>
std::vector<Number> numbers(JsonHelper& helper, size_t count) {
  const std::string bytes = helper.receive(count * sizeof(Number));
  std::vector<Number> result(count);
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

}  // namespace

Tokenizer::Tokenizer(const fs::path& folder, const std::string& python) : helper_(started(folder, python)) {
  try {
    const json answer = helper_.ask(
        {{"folder", fs::absolute(folder).string()}, {"model", sentencepiece_model(fs::absolute(folder)).string()}});
    vocabulary_ = answer.at("vocabulary").get<int64_t>();
    end_of_text_ = id_for(answer, "eos");
    padding_ = id_for(answer, "pad");
    mask_ = id_for(answer, "mask");
    pads_left_ = answer.at("pads_left").get<bool>();
    closing_ = answer.at("closing").get<int64_t>();
    gives_types_ = answer.at("gives_types").get<bool>();
    program_ = answer.value("program", std::string());
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
}

EncodedTexts Tokenizer::encode(const TextBatch& batch) {
  json asks = json::array();
  if (batch.wants_types) asks.push_back("types");
  if (batch.wants_words) asks.push_back("words");
  const json answer = helper_.ask({{"texts", batch.texts},
                                   {"pairs", batch.pairs},
                                   {"words", batch.words},
                                   {"special", batch.special},
                                   {"target", batch.target},
                                   {"longest", batch.longest ? json(*batch.longest) : json()},
                                   {"asks", asks}});
  EncodedTexts encoded;
  answer.at("lengths").get_to(encoded.lengths);
  const auto count = static_cast<size_t>(std::accumulate(encoded.lengths.begin(), encoded.lengths.end(), int64_t{0}));
  encoded.ids = numbers<int32_t>(helper_, count);
  if (batch.wants_types) encoded.types = numbers<uint8_t>(helper_, count);
  if (batch.wants_words) encoded.words = numbers<int32_t>(helper_, count);
  return encoded;
}

void Tokenizer::check_chat() {
  try {
    helper_.ask({{"chat", true}});
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
}

EncodedChats Tokenizer::encode_chats(const json& conversations) {
  const json answer = helper_.ask({{"chats", conversations}});
  if (answer.contains("rejected"))
    throw UnsupportedConversation(answer["rejected"].get<size_t>(), answer.at("why").get<std::string>());
  EncodedChats encoded;
  answer.at("lengths").get_to(encoded.lengths);
  const auto count = static_cast<size_t>(std::accumulate(encoded.lengths.begin(), encoded.lengths.end(), int64_t{0}));
  encoded.ids = numbers<int32_t>(helper_, count);
  encoded.learned = numbers<uint8_t>(helper_, count);
  return encoded;
}

std::vector<int32_t> Tokenizer::encode_question(const std::string& text) {
  const json message = {{"role", "user"}, {"content", text}};
  const json answer = helper_.ask({{"asked", json::array({message})}});
  return numbers<int32_t>(helper_, answer.at("lengths").at(0).get<size_t>());
}

std::string Tokenizer::decode(const std::vector<int64_t>& ids) {
  return helper_.ask({{"decode", ids}}).at("text").get<std::string>();
}

}  // namespace modular
