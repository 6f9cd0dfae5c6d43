#include "runtime/train/text_ids.h"

#include <fmt/format.h>

#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/files/open_file.h"
#include "runtime/mesh/print.h"
#include "runtime/model/config.h"
#include "runtime/train/sampling.h"

namespace modular {
namespace {

using nlohmann::json;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // tokenizers emit it for an incomplete character

}  // namespace

TextIds::TextIds(const std::filesystem::path& tokenizer, const std::string& python) : folder_(tokenizer) {
  if (!tokenizer.empty()) tokenizer_.emplace(tokenizer, python);
}

std::vector<int64_t> TextIds::prompt(const std::string& text, bool chat) {
  if (tokenizer_ && !is_utf8(text)) throw ConfigError("the prompt is not valid UTF-8: give another one");
  if (chat) {
    if (!tokenizer_)
      throw ConfigError("sample.chat needs a tokenizer with a chat template: name one by model.tokenizer");
    tokenizer_->check_chat();
    const std::vector<int32_t> ids = tokenizer_->encode_question(text);
    if (ids.empty()) throw ConfigError("the chat template produces no ids for the message: give another prompt");
    return {ids.begin(), ids.end()};
  }
  if (!tokenizer_) return to_tokens(text);
  const EncodedTexts encoded = tokenizer_->encode({.texts = nlohmann::json::array({text})});
  const int64_t count = encoded.lengths.front() - tokenizer_->closing();
  if (count <= 0) throw ConfigError(fmt::format("the tokenizer produces no ids for {:?}: give another prompt", text));
  return {encoded.ids.begin(), encoded.ids.begin() + count};
}

std::vector<int64_t> TextIds::ends() const {
  std::vector<int64_t> ids;
  if (!tokenizer_) return ids;
  if (const auto id = tokenizer_->end_of_text()) ids.push_back(*id);
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!is_there(folder_ / name)) continue;
    const json config = parse_config_json(read_file(folder_ / name));
    const json ends = config.is_object() ? config.value("eos_token_id", json()) : json();
    for (const json& id : ends.is_array() ? ends : json::array({ends}))
      if (id.is_number_integer()) ids.push_back(id.get<int64_t>());
  }
  return ids;
}

std::string TextIds::text(const std::vector<int64_t>& ids) {
  return tokenizer_ ? tokenizer_->decode(ids) : get_text(ids);
}

ContinuedText::ContinuedText(TextIds& texts, std::vector<int64_t> prompt)
    : texts_(texts), ids_(std::move(prompt)), shown_(texts_.text(ids_).size()) {}

std::string ContinuedText::add(int64_t id) {
  ids_.push_back(id);
  const std::string text = texts_.text(ids_);
  const size_t end = text.size() - unfinished_bytes(text);
  if (end <= shown_ || text.ends_with(kReplacement)) return {};
  std::string more = text.substr(shown_, end - shown_);
  shown_ = end;
  return more;
}

std::string ContinuedText::rest() {
  const std::string text = texts_.text(ids_);
  return text.size() <= shown_ ? "" : text.substr(shown_);
}

}  // namespace modular
