// The files of a Hugging Face tokenizer, which travel with the weights that learned its ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace modular {

/// The folder of that name beside prepared data, in a run's folder and in an imported checkpoint.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// The tokenizer's files in a folder, which may hold others: their names and contents. Empty where there are none.
std::map<std::string, std::string> tokenizer_files(const std::filesystem::path& folder);

/// The same for a folder of the tokenizer's own: of the config.json next to a tokenizer.json, the keys by which
/// transformers takes the tokenizer's class.
std::map<std::string, std::string> tokenizer_with_class(const std::filesystem::path& folder);

/// The file with the prompts of a tokenizer's folder, in it or in the folder of Sentence Transformers that it is the
/// Transformer of. It need not be there.
std::filesystem::path prompts_file(const std::filesystem::path& folder);

/// Whether a folder has any of them.
bool has_tokenizer(const std::filesystem::path& folder);

/// Throws std::runtime_error where one of them cannot be opened, as programs that read the folder by themselves follow
/// links and wait for FIFOs.
void check_tokenizer_files(const std::filesystem::path& folder);

/// The file with the model of SentencePiece in a folder, by the names that transformers gives them; empty for none.
std::filesystem::path sentencepiece_model(const std::filesystem::path& folder);

/// Writes the tokenizer's files of a folder into another one, a model's, which is there. Where nothing names the
/// tokenizer's class, tokenizer_config.json then does: AutoTokenizer would otherwise take the one of the model.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

/// The same for tokenizer_with_class().
void copy_tokenizer_with_class(const std::filesystem::path& from, const std::filesystem::path& to);

/// The folder with the tokenizer of these weights, a checkpoint, a folder of them or a Hugging Face folder: itself, its
/// folder "tokenizer", or that of the run which the checkpoint is of; of a PEFT folder without one that of its base
/// model, in `base` or where the folder says. Empty where there is none.
std::filesystem::path tokenizer_of_weights(const std::filesystem::path& weights,
                                           const std::filesystem::path& base = {});

/// One more than the largest id of tokenizer.json and tokenizer_config.json. 0 where the folder has no tokenizer.json.
/// Throws std::runtime_error where that is no tokenizer's.
int64_t tokenizer_vocabulary(const std::filesystem::path& folder);

}  // namespace modular
