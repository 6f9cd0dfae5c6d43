#include "runtime/checkpoint/json_text.h"

#include <fmt/format.h>

namespace modular {
namespace {

using nlohmann::json;

constexpr int kDeepest = 100;  // levels; config files have four
constexpr size_t kLongest = 60;

bool is_within_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

json parse_json(std::string_view text) {
  bool too_deep = false;
  const auto look = [&](int depth, json::parse_event_t, json&) { return !(too_deep = too_deep || depth > kDeepest); };
  json value = json::parse(text, look, /*allow_exceptions=*/false);
  return too_deep ? json(json::value_t::discarded) : value;
}

bool is_utf8(const std::string& text) {
  try {
    return !json(text).dump().empty();
  } catch (const json::type_error&) {
    return false;
  }
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  if (text.size() <= kLongest) return text;
  size_t end = kLongest - 3;
  while (is_within_a_character(text[end])) --end;
  return text.substr(0, end) + "…";
}

std::string json_problem(std::string_view text) {
  try {
    [[maybe_unused]] const json parsed = json::parse(text);
  } catch (const json::exception& error) {
    return json_problem(error);
  }
  return fmt::format("it nests more than {} levels deep", kDeepest);
}

std::string json_problem(const json::exception& error) {
  const std::string text = error.what();  // "[json.exception.parse_error.101] parse error at …"
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace modular
