// Files of a Hugging Face tokenizer, which are copied along with the weights trained on its ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace modular {

/// Name of the tokenizer's folder next to prepared data, in a run's folder and in an imported checkpoint.
inline constexpr const char* kTokenizerFolder = "tokenizer";

/// Names and contents of the tokenizer's files in a folder, which may hold other files. Empty if there are none.
std::map<std::string, std::string> tokenizer_files(const std::filesystem::path& folder);

/// The same for a folder that holds only a tokenizer. Of a config.json next to a tokenizer.json it includes the keys by
/// which transformers selects the tokenizer's class.
std::map<std::string, std::string> tokenizer_with_class(const std::filesystem::path& folder);

/// Path of the file with the prompts of a tokenizer's folder: in it, or in the Sentence Transformers folder around it.
/// The file need not exist.
std::filesystem::path prompts_file(const std::filesystem::path& folder);

/// Whether a folder has any tokenizer file.
bool has_tokenizer(const std::filesystem::path& folder);

/// Throws std::runtime_error if one of them cannot be opened: programs that read the folder on their own follow links
/// and wait for FIFOs.
void check_tokenizer_files(const std::filesystem::path& folder);

/// The SentencePiece model in a folder, under any of transformers' names for it; empty if there is none.
std::filesystem::path sentencepiece_model(const std::filesystem::path& folder);

/// Copies a folder's tokenizer files into an existing model folder. If no file names the tokenizer's class, the copied
/// tokenizer_config.json does: AutoTokenizer would otherwise select the class by the model.
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

/// The same for tokenizer_with_class().
void copy_tokenizer_with_class(const std::filesystem::path& from, const std::filesystem::path& to);

/// Folder with the tokenizer of these weights (a checkpoint, a folder of checkpoints or a Hugging Face folder): the
/// folder itself, its folder "tokenizer", or the tokenizer of the checkpoint's run. For a PEFT folder without a
/// tokenizer, the tokenizer of its base model, in `base` or in the folder that adapter_config.json names. Empty if
/// there is none.
std::filesystem::path tokenizer_of_weights(const std::filesystem::path& weights,
                                           const std::filesystem::path& base = {});

/// One more than the largest id in tokenizer.json and tokenizer_config.json. 0 if the folder has no tokenizer.json.
/// Throws std::runtime_error if the file is not a tokenizer's.
int64_t tokenizer_vocabulary(const std::filesystem::path& folder);

}  // namespace modular
