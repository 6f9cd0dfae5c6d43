#include "runtime/checkpoint/json_text.h"

#include <fmt/format.h>

namespace modular {
namespace {

using nlohmann::json;

constexpr int kDeepest = 100;  // levels; config files have four

}  // namespace

json parse_json(std::string_view text) {
  bool too_deep = false;
  const auto look = [&](int depth, json::parse_event_t, json&) { return !(too_deep = too_deep || depth > kDeepest); };
  json value = json::parse(text, look, /*allow_exceptions=*/false);
  return too_deep ? json(json::value_t::discarded) : value;
}

std::string json_problem(std::string_view text) {
  try {
    [[maybe_unused]] const json parsed = json::parse(text);
  } catch (const json::parse_error& error) {
    return error.what();
  }
  return fmt::format("it nests more than {} levels deep", kDeepest);
}

}  // namespace modular
