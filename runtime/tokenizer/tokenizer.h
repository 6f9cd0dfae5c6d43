// Texts as the ids of a Hugging Face tokenizer and back, in a process beside this one: by the package tokenizers in
// Python (tokenizer_helper.py), or by libsentencepiece (modrun-sentencepiece).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/launch/json_helper.h"

namespace modular {

/// What to encode: `texts`, each a string, or a list of words where `words` is true.
struct TextBatch {
  nlohmann::json texts = nlohmann::json::array();
  nlohmann::json pairs;  // the second text of each, encoded with it; null for none
  bool words = false;
  bool special = true;             // with the ids that the tokenizer puts around a text
  bool target = false;             // what is to be written: with the code of that language, where texts have one
  std::optional<int64_t> longest;  // truncates to so many ids
  bool wants_types = false, wants_words = false;
};

/// Texts in ids, one after the other.
struct EncodedTexts {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;  // ids of each text
  std::vector<uint8_t> types;    // of each id, which text of a pair it is of; where asked for
  std::vector<int32_t> words;    // of each id, which word it is of, -1 for none; where asked for
};

/// Conversations in ids, one after the other.
struct EncodedChats {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;  // ids of each conversation
  std::vector<uint8_t> learned;  // of each id, 1 where the assistant wrote it
};

/// Why a conversation cannot be written by a chat template.
struct UnsupportedConversation : std::runtime_error {
  UnsupportedConversation(size_t row, const std::string& why) : std::runtime_error(why), row(row) {}
  size_t row;
};

class Tokenizer {
 public:
  /// Opens the tokenizer of a folder: tokenizer.json with `python`, else a .model file, which needs no Python. Throws
  /// ConfigError where the folder has neither, it cannot be read, or `python` is not there or has no
  /// package tokenizers.
  Tokenizer(const std::filesystem::path& folder, const std::string& python);

  int64_t vocabulary() const { return vocabulary_; }  // one more than the largest id
  std::optional<int64_t> end_of_text() const { return end_of_text_; }
  std::optional<int64_t> padding() const { return padding_; }
  std::optional<int64_t> mask() const { return mask_; }
  bool pads_left() const { return pads_left_; }
  int64_t closing() const { return closing_; }       // ids that it puts after a text
  bool gives_types() const { return gives_types_; }  // whether models are given what TextBatch::wants_types asks for
  /// The package that makes the ids and its version, another of which may make others; empty where it is this program.
  const std::string& program() const { return program_; }

  /// The ids that transformers gives for the folder. Throws std::runtime_error where the
  /// tokenizer has none for a text, or the process has died, as decode() does.
  EncodedTexts encode(const TextBatch& batch);

  /// Throws ConfigError where the folder has no chat template, or it cannot be rendered here.
  void check_chat();

  /// Conversations, each the JSON text of a list of messages with "role" and "content" (in which keys keep their
  /// order), as the chat template writes them. Throws UnsupportedConversation where it does not take one.
  EncodedChats encode_chats(const nlohmann::json& conversations);

  /// A user's message, and what the assistant's answer begins with. Throws as encode() does.
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
