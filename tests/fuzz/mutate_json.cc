#include <cstdint>
#include <limits>
#include <vector>

#include "tests/fuzz/mutate.h"

namespace modular::fuzz {
namespace {

using nlohmann::json;

json any_scalar(Random& random) {
  using limits = std::numeric_limits<int64_t>;
  switch (random.below(12)) {
    case 0:
      return nullptr;
    case 1:
      return random.one_in(2);
    case 2:
      return random.pick(std::vector<std::string>{"", "auto", "NaN", "1", "default", "a\nb", "\x01", "ü", "../.."});
    case 3:
      return std::string(random.below(3000), 'x');
    case 4:
      return random.pick(std::vector<double>{0.5, -0.5, 1e308, -1e308, 1e-308, 1e19, 1.0, 0.0});
    case 5:
      return {{"__float__", random.pick(std::vector<std::string>{"NaN", "Infinity", "-Infinity", "x"})}};
    case 6:
      return random.pick(std::vector<uint64_t>{uint64_t{1} << 63, std::numeric_limits<uint64_t>::max()});
    case 7:
      return random.one_in(2) ? json::array() : json::object();
    case 8:
      return random.pick(std::vector<int64_t>{limits::max(), limits::min(), limits::max() - 1, limits::min() + 1,
                                              int64_t{1} << 62, int64_t{1} << 40, int64_t{1} << 32, int64_t{1} << 31,
                                              (int64_t{1} << 31) - 1, 1'000'000, 65536});
    default:
      return static_cast<int64_t>(random.below(9)) - 2;
  }
}

/// All values nested in `value`, and the value itself.
void collect(json& value, std::vector<json*>& found) {
  found.push_back(&value);
  if (value.is_structured())
    for (json& inner : value) collect(inner, found);
}

std::string any_key(const json& object, std::span<const std::string_view> keys, Random& random) {
  if (!keys.empty() && random.one_in(2)) return std::string(random.pick(keys));
  if (object.empty() || random.one_in(6)) return random.one_in(2) ? "" : "another_key";
  return std::next(object.begin(), static_cast<std::ptrdiff_t>(random.below(object.size()))).key();
}

json nested(json value, size_t levels, bool in_objects) {
  for (; levels > 0; --levels) value = in_objects ? json{{"a", std::move(value)}} : json::array({std::move(value)});
  return value;
}

void change_object(json& object, std::span<const std::string_view> keys, Random& random) {
  const std::string key = any_key(object, keys, random);
  switch (random.below(4)) {
    case 0:
      object.erase(key);
      break;
    case 1: {  // renamed
      json value = object.contains(key) ? object[key] : any_scalar(random);
      object.erase(key);
      object[any_key(object, keys, random)] = std::move(value);
      break;
    }
    default:
      object[key] = any_scalar(random);
  }
}

void change_array(json& array, Random& random) {
  const auto at = static_cast<std::ptrdiff_t>(random.below(array.size()));
  switch (random.below(4)) {
    case 0:
      if (!array.empty()) array.erase(array.begin() + at);
      break;
    case 1:
      array.push_back(any_scalar(random));
      break;
    case 2:
      if (!array.empty()) array.insert(array.begin() + at, json(array[static_cast<size_t>(at)]));
      break;
    default:
      if (array.size() < 500 && random.one_in(4))
        array.insert(array.end(), size_t{1} << random.below(10), any_scalar(random));
  }
}

void change(json& value, std::span<const std::string_view> keys, Random& random) {
  std::vector<json*> all;
  collect(value, all);
  json& chosen = *random.pick(all);
  switch (random.below(8)) {
    case 0: {  // another value of the text
      json copied = *random.pick(all);
      chosen = std::move(copied);
      break;
    }
    case 1:  // another type with the same content
      chosen = chosen.is_string() ? json::array({chosen}) : json(chosen.dump());
      break;
    case 2:
      if (random.one_in(6)) chosen = nested(std::move(chosen), random.one_in(2) ? 90 : 200, random.one_in(2));
      break;
    case 3:
    case 4:
      chosen = any_scalar(random);
      break;
    default:
      if (chosen.is_object())
        change_object(chosen, keys, random);
      else if (chosen.is_array())
        change_array(chosen, random);
      else
        chosen = any_scalar(random);
  }
}

/// Repeats a key of the text, with another value, before the brace that ends its object.
void repeat_key(std::string& text, const json& value, Random& random) {
  if (!value.is_object() || value.empty() || !text.ends_with('}')) return;
  const auto item = std::next(value.begin(), static_cast<std::ptrdiff_t>(random.below(value.size())));
  text.pop_back();
  text.append(",").append(json(item.key()).dump()).append(":").append(any_scalar(random).dump()).append("}");
}

}  // namespace

json mutated_json(json value, std::span<const std::string_view> keys, Random& random) {
  for (size_t left = size_t{1} << random.below(4); left > 0; --left) change(value, keys, random);
  return value;
}

std::string mutated_json_text(const json& value, std::span<const std::string_view> keys, Random& random) {
  const bool by_structure = !random.one_in(4);
  const json changed = by_structure ? mutated_json(value, keys, random) : value;
  std::string text = changed.dump();
  if (random.one_in(8)) repeat_key(text, changed, random);
  return by_structure && !random.one_in(8) ? text : mutated_text(std::move(text), keys, random);
}

}  // namespace modular::fuzz
