// Converts texts to the ids of a Hugging Face tokenizer and back, in a separate process: with the package tokenizers in
// Python (tokenizer_helper.py), or with libsentencepiece (modrun-sentencepiece).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/launch/helper.h"

namespace modular {

/// Texts to encode: each of `texts` is a string, or a list of words if `words` is true.
struct TextBatch {
  nlohmann::json texts = nlohmann::json::array();
  nlohmann::json pairs;  // second texts, encoded together with the first; null for none
  bool words = false;
  bool special = true;             // whether to add the ids that the tokenizer puts around a text
  bool target = false;             // whether these are target texts, with the target's language code if texts have one
  std::optional<int64_t> longest;  // truncates to this many ids
  bool wants_types = false, wants_words = false;
};

/// Ids of texts, one after the other.
struct EncodedTexts {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;  // number of ids of each text
  std::vector<uint8_t> types;    // index of the text in its pair, per id; if requested
  std::vector<int32_t> words;    // index of the word, per id, -1 for none; if requested
};

/// Ids of conversations, one after the other.
struct EncodedChats {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;  // number of ids of each conversation
  std::vector<uint8_t> learned;  // per id, 1 if the assistant wrote it
};

/// Reason why a chat template cannot render a conversation.
struct UnsupportedConversation : std::runtime_error {
  UnsupportedConversation(size_t row, const std::string& why) : std::runtime_error(why), row(row) {}
  size_t row;
};

class Tokenizer {
 public:
  /// Opens the tokenizer of a folder: tokenizer.json with `python`, or else a .model file, which needs no Python.
  /// Throws ConfigError if the folder has neither, if it cannot be read, or if `python` does not exist or lacks the
  /// package tokenizers.
  Tokenizer(const std::filesystem::path& folder, const std::string& python);

  int64_t vocabulary() const { return vocabulary_; }  // one more than the largest id
  std::optional<int64_t> end_of_text() const { return end_of_text_; }
  std::optional<int64_t> padding() const { return padding_; }
  std::optional<int64_t> mask() const { return mask_; }
  bool pads_left() const { return pads_left_; }
  int64_t closing() const { return closing_; }       // number of ids that it appends to a text
  bool gives_types() const { return gives_types_; }  // whether models use what TextBatch::wants_types requests
  /// Package that computes the ids, and its version (ids may depend on it); empty if it is this program.
  const std::string& program() const { return program_; }

  /// The ids that transformers gives for the folder. Throws std::runtime_error if the tokenizer has none for a text, or
  /// if the process has died; so does decode().
  EncodedTexts encode(const TextBatch& batch);

  /// Throws ConfigError if the folder has no chat template, or if it cannot be rendered here.
  void check_chat();

  /// Renders conversations with the chat template; each is the JSON text of a list of messages with "role" and
  /// "content" (in which keys keep their order). Throws UnsupportedConversation if the template rejects one.
  EncodedChats encode_chats(const nlohmann::json& conversations);

  /// The prompt for a user's message, up to the beginning of the assistant's answer. Throws like encode().
  std::vector<int32_t> encode_question(const std::string& text);

  /// The text of ids, without special tokens.
  std::string decode(const std::vector<int64_t>& ids);

 private:
  JsonHelper helper_;
  int64_t vocabulary_ = 0;
  std::optional<int64_t> end_of_text_, padding_, mask_;
  int64_t closing_ = 0;
  bool pads_left_ = false, gives_types_ = true;
  std::string program_;
};

}  // namespace modular
