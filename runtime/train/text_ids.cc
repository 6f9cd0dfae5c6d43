#include "runtime/train/text_ids.h"

#include <fmt/format.h>

#include "runtime/model/config.h"
#include "runtime/train/sampling.h"

namespace modular {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // what tokenizers write for half of a character

}  // namespace

TextIds::TextIds(const std::filesystem::path& tokenizer, const std::string& python) {
  if (!tokenizer.empty()) tokenizer_.emplace(tokenizer, python);
}

std::vector<int64_t> TextIds::prompt(const std::string& text) {
  if (!tokenizer_) return tokens_of(text);
  const EncodedTexts encoded = tokenizer_->encode({.texts = nlohmann::json::array({text})});
  const int64_t count = encoded.lengths.front() - tokenizer_->closing();
  if (count <= 0) throw ConfigError(fmt::format("the tokenizer makes no ids of {:?}: give another prompt", text));
  return {encoded.ids.begin(), encoded.ids.begin() + count};
}

std::string TextIds::text(const std::vector<int64_t>& ids) {
  return tokenizer_ ? tokenizer_->decode(ids) : text_of(ids);
}

ContinuedText::ContinuedText(TextIds& texts, std::vector<int64_t> prompt)
    : texts_(texts), ids_(std::move(prompt)), shown_(texts_.text(ids_).size()) {}

std::string ContinuedText::add(int64_t id) {
  ids_.push_back(id);
  const std::string text = texts_.text(ids_);
  if (text.size() <= shown_ || text.ends_with(kReplacement)) return {};
  std::string more = text.substr(shown_);
  shown_ = text.size();
  return more;
}

std::string ContinuedText::rest() {
  const std::string text = texts_.text(ids_);
  return text.size() <= shown_ ? "" : text.substr(shown_);
}

}  // namespace modular
