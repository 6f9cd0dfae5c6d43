#include "runtime/checkpoint/json_text.h"

#include <fmt/format.h>

namespace modular {
namespace {

using nlohmann::json;

constexpr int kDeepest = 100;  // levels; config files have four
constexpr size_t kLongest = 60;

/// Limits for a text, checked while it is parsed. The depth is limited to protect the stack of recursive code, and the
/// number of values to limit memory: "[]," has 3 bytes and takes 60. The largest real texts, the indexes of checkpoints
/// and the headers of safetensors files, have a value in 10 to 20 bytes, and a large tokenizer has two million in 17
/// MB.
struct Bounds {
  static constexpr size_t kValues = size_t{2} << 20, kBytesOfAValue = 16;
  explicit Bounds(std::string_view text) : most(kValues + text.size() / kBytesOfAValue) {}

  bool see(int depth, bool is_value) {
    too_deep = too_deep || depth > kDeepest;
    values += is_value ? 1 : 0;
    return !too_deep && values <= most;
  }

  size_t most, values = 0;
  bool too_deep = false;
};

/// Parses a text without keeping its values, up to the first problem.
class ProblemFinder : public nlohmann::json_sax<json> {
 public:
  explicit ProblemFinder(std::string_view text) : bounds_(text) {}

  std::string problem() const {
    if (!of_syntax_.empty()) return of_syntax_;
    if (bounds_.too_deep) return fmt::format("it nests more than {} levels deep", kDeepest);
    return fmt::format("it has more than {} values, which no file of its size needs", bounds_.most);
  }

  bool null() override { return see(); }
  bool boolean(bool) override { return see(); }
  bool number_integer(number_integer_t) override { return see(); }
  bool number_unsigned(number_unsigned_t) override { return see(); }
  bool number_float(number_float_t, const string_t&) override { return see(); }
  bool string(string_t&) override { return see(); }
  bool binary(binary_t&) override { return see(); }
  bool key(string_t&) override { return true; }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(size_t, const std::string&, const json::exception& error) override {
    of_syntax_ = json_problem(error);
    return false;
  }

 private:
  bool see() { return bounds_.see(depth_, /*is_value=*/true); }
  bool begin() { return bounds_.see(depth_++, /*is_value=*/true); }

  Bounds bounds_;
  int depth_ = 0;
  std::string of_syntax_;
};

bool is_within_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

json parse_json(std::string_view text) {
  // Not with the parser's callback, which scans the entire enclosing array after each object in it.
  ProblemFinder finder(text);
  if (!json::sax_parse(text, &finder)) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
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
  ProblemFinder finder(text);
  json::sax_parse(text, &finder);
  return finder.problem();
}

std::string json_problem(const json::exception& error) {
  const std::string text = error.what();  // "[json.exception.parse_error.101] parse error at …"
  const size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace modular
