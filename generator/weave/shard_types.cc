#include "generator/weave/shard_types.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace modgen {

Value Value::tensor(ShardType type, bool gradient, std::optional<int64_t> rank) {
  Value value;
  value.kind = Kind::tensor;
  if (rank && type.kind == ShardType::Kind::sharded && type.dim < 0) type.dim += *rank;
  value.type = type;
  value.gradient = gradient;
  value.rank = rank;
  return value;
}

Value Value::number(bool is_share) {
  Value value;
  value.kind = Kind::number;
  value.count.is_share = is_share;
  return value;
}

Value Value::number(Count count) {
  Value value;
  value.kind = Kind::number;
  value.count = std::move(count);
  return value;
}

Value Value::failure() {
  Value value;
  value.kind = Kind::failed;
  return value;
}

Value Value::tuple(Value element, size_t size) {
  Value value;
  value.kind = Kind::tuple;
  value.elements.assign(size, std::move(element));
  return value;
}

Value Value::unknown(std::string text, SourceSpan cause) {
  Value value;
  value.kind = Kind::unknown;
  value.text = std::move(text);
  value.cause = cause;
  return value;
}

bool Value::is_invariant() const {
  switch (kind) {
    case Kind::tensor:
      return type.kind == ShardType::Kind::invariant;
    case Kind::number:
      return !count.is_share;
    case Kind::mismatch:
    case Kind::unknown:
    case Kind::failed:
      return false;
    default:
      return std::all_of(elements.begin(), elements.end(),
                         [](const Value& element) { return element.is_invariant(); }) &&
             std::all_of(members.begin(), members.end(),
                         [](const auto& member) { return member.second.is_invariant(); });
  }
}

bool Value::has_failed() const {
  if (kind == Kind::failed) return true;
  return std::any_of(elements.begin(), elements.end(), [](const Value& element) { return element.has_failed(); }) ||
         std::any_of(members.begin(), members.end(), [](const auto& member) { return member.second.has_failed(); });
}

bool Value::carries_gradient() const {
  if (kind == Kind::tensor) return gradient;
  if (kind == Kind::module || kind == Kind::unknown || (kind == Kind::object && gradient)) return true;
  return std::any_of(elements.begin(), elements.end(),
                     [](const Value& element) { return element.carries_gradient(); }) ||
         std::any_of(members.begin(), members.end(),
                     [](const auto& member) { return member.second.carries_gradient(); });
}

namespace {

/// The first part of `value`, or `value` itself, for which `matches` holds; null if there is none.
const Value* first_part(const Value& value, bool (*matches)(const Value&)) {
  if (matches(value)) return &value;
  for (const Value& element : value.elements)
    if (const Value* part = first_part(element, matches)) return part;
  for (const auto& [name, member] : value.members)
    if (const Value* part = first_part(member, matches)) return part;
  return nullptr;
}

}  // namespace

const Value* find_unknown(const Value& value) {
  return first_part(value, [](const Value& part) { return part.kind == Value::Kind::unknown; });
}

const Value* find_variant(const Value& value) {
  return first_part(value, [](const Value& part) {
    const bool is_leaf = part.elements.empty() && part.members.empty() && part.kind != Value::Kind::unknown &&
                         part.kind != Value::Kind::failed;
    return (is_leaf && !part.is_invariant()) || (part.kind == Value::Kind::module && part.type != kInvariant);
  });
}

const Value* find_inside(const Value& value) {
  return first_part(value, [](const Value& part) { return part.is_inside; });
}

std::string product_text(const Count& count) {
  const Count::Term* product = count.product();
  return product ? to_text(*product) : std::string();
}

std::vector<std::string> get_terms(const Count& count) {
  std::vector<std::string> terms;
  for (const Count::Term& term : count.terms) {
    if (term.coefficient <= 0) return {};
    terms.push_back(to_text(term));
  }
  return terms;
}

std::string listed_parts(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += ", ";
    text += part;
  }
  return text;
}

std::string describe(const Value& value) {
  switch (value.kind) {
    case Value::Kind::tensor:
      switch (value.type.kind) {
        case ShardType::Kind::invariant:
          return "full on every tp rank";
        case ShardType::Kind::replicated:
          return "full on every tp rank with a gradient that is not yet summed";
        case ShardType::Kind::partial:
          return "a partial sum over tp";
        case ShardType::Kind::sharded:
          return (value.type.dim == -1 || (value.rank && value.type.dim == *value.rank - 1)
                      ? "split over tp along its last dimension"
                      : "split over tp along dimension " + std::to_string(value.type.dim)) +
                 (value.type.parts.empty() ? "" : " within the parts " + listed_parts(value.type.parts));
      }
      return "";
    case Value::Kind::number:
      return value.count.is_share ? "a tp-local count" : "the same on every tp rank";
    case Value::Kind::tuple:
    case Value::Kind::list:
      for (const Value& element : value.elements)
        if (!element.is_invariant()) return describe(element);
      return "the same on every tp rank";
    case Value::Kind::object:
      for (const auto& [name, member] : value.members)
        if (!member.is_invariant()) return "a struct whose " + name + " is " + describe(member);
      return "the same on every tp rank";
    case Value::Kind::mismatch:
      return value.text;
    case Value::Kind::unknown:
      return "not known, because of " + value.text;
    default:
      return "the same on every tp rank";
  }
}

namespace {

/// The words of a reading for those of the tp axis.
struct Words {
  std::string_view on_tp, of_rows, of_positions, of_ranks;
};
constexpr Words kWords[] = {
    {"full on every tp rank", "the same for all rows of the batch", "the same for all positions",
     "the same for all positions"},
    {"the same on every tp rank", "the same for all rows of the batch", "the same for all positions",
     "the same for all positions"},
    {"partial sums over tp", "sums over a rank's rows of the batch", "sums over a forward's positions",
     "sums over a rank's positions"},
    {"partial sum over tp", "sum over a rank's rows of the batch", "sum over a forward's positions",
     "sum over a rank's positions"},
    {"the sum over tp", "the sum over all ranks", "the sum over all forwards", "the sum over all ranks"},
    {"split over tp", "split by the rows of the batch", "split by the positions of the sequence",
     "split by the positions of the sequence"},
    {"each rank sees only its slice", "each rank sees only its rows", "a forward with a cache sees only its positions",
     "each rank sees only its positions"},
    {"a tp-local count", "a number of a rank's rows", "a number of a forward's positions",
     "a number of a rank's positions"},
    {"tp-local counts", "numbers of a rank's rows", "numbers of a forward's positions",
     "numbers of a rank's positions"},
};

}  // namespace

std::string to_words(Axis axis, std::string message) {
  if (axis == Axis::tp) return message;
  for (const Words& words : kWords) {
    const std::string_view with = axis == Axis::rows        ? words.of_rows
                                  : axis == Axis::positions ? words.of_positions
                                                            : words.of_ranks;
    for (size_t at = 0; (at = message.find(words.on_tp, at)) != std::string::npos; at += with.size())
      message.replace(at, words.on_tp.size(), with);
  }
  return message;
}

Storage merged(const Storage& one, const Storage& other) {
  Storage result;
  result.is_known = one.is_known && other.is_known;
  std::set_union(one.allocated_by.begin(), one.allocated_by.end(), other.allocated_by.begin(), other.allocated_by.end(),
                 std::back_inserter(result.allocated_by));
  return result;
}

Storage get_storage(const Value& value) {
  Storage result = value.storage;
  if (value.kind == Value::Kind::tensor) return result;
  // Values without tensors and undefined tensors have no storage.
  result.is_known |= value.kind == Value::Kind::nothing || value.kind == Value::Kind::number ||
                     !value.elements.empty() || !value.members.empty();
  for (const Value& element : value.elements) result = merged(result, get_storage(element));
  for (const auto& [name, member] : value.members) result = merged(result, get_storage(member));
  return result;
}

std::set<std::string> get_parameters(const Value& value) {
  std::set<std::string> found = value.parameters;
  for (const Value& element : value.elements) found.merge(get_parameters(element));
  for (const auto& [name, member] : value.members) found.merge(get_parameters(member));
  return found;
}

std::set<std::string> get_parameters(const std::vector<Value>& values) {
  std::set<std::string> found;
  for (const Value& value : values) found.merge(get_parameters(value));
  return found;
}

void set_parameters(Value& value, const std::set<std::string>& parameters) {
  value.parameters = parameters;
  for (Value& element : value.elements) set_parameters(element, parameters);
  for (auto& [name, member] : value.members) set_parameters(member, parameters);
}

void set_storage(Value& value, const Storage& storage) {
  value.storage = storage;
  for (Value& element : value.elements) set_storage(element, storage);
  for (auto& [name, member] : value.members) set_storage(member, storage);
}

Value Operation::reject(std::string reason, std::string fix) {
  if (message.empty()) message = std::move(reason), advice = std::move(fix);
  return Value::failure();
}

void Operation::enter(size_t i) {
  Value& value = values[i];
  if (value.kind != Value::Kind::tensor || value.type != kInvariant || !value.gradient) return;
  entered.push_back(i);
  value.type = kReplicated;
}

std::optional<int64_t> Operation::number(size_t i) const {
  if (i >= values.size()) return std::nullopt;
  // A list with a single dimension counts as that dimension.
  const Value& value =
      values[i].kind == Value::Kind::tuple && values[i].elements.size() == 1 ? values[i].elements[0] : values[i];
  return value.kind == Value::Kind::number ? value.count.literal() : std::nullopt;
}

namespace {

/// Whether the type names a class of a family other than a config: "std::vector<modular::llama::Pair>".
bool names_family_class(std::string_view cpp_type) {
  constexpr std::string_view kSpace = "modular::", kConfig = "Config";
  constexpr auto kIdentifier = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = cpp_type.find(kSpace); at != std::string_view::npos; at = cpp_type.find(kSpace, at)) {
    at += kSpace.size();
    const std::string_view rest = cpp_type.substr(at);
    const auto end = std::ranges::find_if_not(rest, kIdentifier);
    if (!rest.substr(static_cast<size_t>(end - rest.begin())).starts_with("::")) continue;  // of the contract
    const std::string_view inner = rest.substr(static_cast<size_t>(end - rest.begin()) + 2);
    const auto name_end = std::ranges::find_if_not(inner, kIdentifier);
    if (!inner.substr(0, static_cast<size_t>(name_end - inner.begin())).ends_with(kConfig)) return true;
  }
  return false;
}

/// Whether a value of that opaque type may yield tensors.
bool may_hold_tensors(std::string_view cpp_type) {
  static constexpr std::string_view holders[] = {"at::Tensor", "std::function", "std::_Bind", "std::any", "(lambda"};
  const auto is_named = [&](std::string_view one) { return cpp_type.find(one) != std::string_view::npos; };
  return std::ranges::any_of(holders, is_named) || names_family_class(cpp_type);
}

}  // namespace

Value make_invariant(std::string_view cpp_type, bool gradient) {
  if (cpp_type == "at::Tensor") return Value::tensor(kInvariant, gradient, std::nullopt);
  if (cpp_type == "void") return {};
  if (cpp_type == "std::pair<at::Tensor, at::Tensor>") {
    Value value;
    value.kind = Value::Kind::tuple;
    value.elements.assign(2, Value::tensor(kInvariant, gradient, std::nullopt));
    return value;
  }
  if (cpp_type == "std::vector<at::Tensor>") {
    Value value;
    value.kind = Value::Kind::list;
    value.elements.assign(1, Value::tensor(kInvariant, gradient, std::nullopt));
    return value;
  }
  for (const std::string_view number : {"long", "int", "bool", "double", "float", "unsigned long"})
    if (cpp_type == number) return Value::number();
  Value value;
  value.kind = Value::Kind::object;
  value.gradient = gradient && may_hold_tensors(cpp_type);
  return value;
}

}  // namespace modgen
