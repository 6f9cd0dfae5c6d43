// Sizes of results: which dimension of an operand each dimension of the result is. What no function here covers is not
// known.
#include <cctype>
#include <set>

#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

using List = std::vector<Count>;

/// The sizes of `x`, whose number of dimensions is known.
List list_sizes(const Value& x) {
  List sizes;
  for (int64_t i = 0; i < *x.rank; ++i) sizes.push_back(x.sizes[i]);
  return sizes;
}

/// The number that a size of a view, or of a new tensor, gives on all ranks together; not known for -1.
Count given_size(const Value& size) {
  Count count = size.count;
  count.is_share = false;
  return size.kind == Value::Kind::number && count.product() ? count : Count();
}

/// Dimension `i` of a tensor from the front; empty if it is not a literal.
std::optional<int64_t> front_dimension(const Operation& op, size_t i, int64_t fallback, int64_t rank) {
  const auto dim = number_or(op, i, fallback);
  if (!dim || *dim < -rank || *dim >= rank) return std::nullopt;
  return *dim < 0 ? *dim + rank : *dim;
}

/// Whether the size is a product of the batch's, which may be any numbers.
bool is_free(const Count& size) {
  const Count::Term* product = size.product();
  const auto is_of_batch = [](const std::string& field) {
    return field.front() == kOwnSize && std::isalpha(static_cast<unsigned char>(field.back()));
  };
  return product && product->coefficient == 1 && !product->fields.empty() &&
         std::ranges::all_of(product->fields, is_of_batch);
}

/// Sizes after broadcasting. Where a size of the batch meets another one, the result has the batch's: a spec runs for
/// every batch, so that the other is 1 or the same.
List broadcast(const std::vector<List>& shapes) {
  size_t rank = 0;
  for (const List& shape : shapes) rank = std::max(rank, shape.size());
  List sizes(rank);
  for (size_t from_end = 1; from_end <= rank; ++from_end) {
    Count size = literal_count(1), free;
    bool agrees = true, is_one_free = true;
    for (const List& shape : shapes) {
      if (shape.size() < from_end) continue;
      const Count& other = shape[shape.size() - from_end];
      is_one_free &= !is_free(other) || !free.is_known() || free == other;
      if (is_free(other)) free = other;
      agrees &= other.is_known() && (other.literal() == 1 || size.literal() == 1 || other == size);
      if (other.literal() != 1) size = other;
    }
    if (free.is_known() ? is_one_free : agrees) sizes[rank - from_end] = free.is_known() ? free : size;
  }
  return sizes;
}

std::optional<List> broadcast_operands(const Operation& op, const std::vector<Value>& given) {
  static const std::set<std::string_view> of_first = {".to", ".type_as", ".contiguous", ".clone", ".detach"};
  std::vector<List> shapes;
  for (const Value& value : given) {
    if (is_tensor(value) && !value.rank) return std::nullopt;
    if (is_tensor(value)) shapes.push_back(list_sizes(value));
    if (of_first.contains(op.name)) break;
  }
  return shapes.empty() ? std::nullopt : std::optional(broadcast(shapes));
}

/// The operand whose sizes the result has; empty for other operations.
std::optional<size_t> shape_operand(std::string_view name) {
  static const std::map<std::string_view, size_t> operands = {{"LayerNorm layer", 1},
                                                              {"Dropout layer", 1},
                                                              {"GELU layer", 1},
                                                              {"SiLU layer", 1},
                                                              {"ReLU layer", 1},
                                                              {"Tanh layer", 1},
                                                              {"Identity layer", 1},
                                                              {"rms_norm", 0},
                                                              {"layer_norm", 0},
                                                              {"soft_cap", 0},
                                                              {"rotary", 0},
                                                              {"rotary_adjacent", 0},
                                                              {"without_padding", 0},
                                                              {"causal_conv1d", 0},
                                                              {"gated_rms_norm", 0},
                                                              {"selective_scan", 0},
                                                              {"mix_experts", 1},
                                                              {"mix_clamped_experts", 0},
                                                              {"with_images", 0},
                                                              {"balance_experts", 0},
                                                              {"unit_rows", 0},
                                                              {"next_tokens", 0},
                                                              {"previous_tokens", 0},
                                                              {"counted_position_ids", 0},
                                                              {".softmax", 0},
                                                              {"softmax", 0},
                                                              {".log_softmax", 0},
                                                              {"log_softmax", 0},
                                                              {".cumsum", 0},
                                                              {"cumsum", 0},
                                                              {".flip", 0},
                                                              {".roll", 0},
                                                              {".tril", 0},
                                                              {".triu", 0},
                                                              {".scatter", 0},
                                                              {"scatter", 0},
                                                              {"state_space_duality", 0},
                                                              {".gather", 2},
                                                              {"gather", 2}};
  const auto found = operands.find(name);
  return found == operands.end() ? std::nullopt : std::optional(found->second);
}

/// Whether another operand may stretch a dimension of size 1 of the operand that the result is shaped like.
bool stretches(std::string_view name) {
  static const std::set<std::string_view> names = {
      "rms_norm",       "rotary",         "rotary_adjacent",     "without_padding",
      "gated_rms_norm", "selective_scan", "state_space_duality", "causal_conv1d"};
  return names.contains(name);
}

/// `sizes` without those of 1, which broadcasting may stretch.
List stretched(List sizes) {
  for (Count& size : sizes)
    if (size.literal() == 1) size = Count();
  return sizes;
}

/// Sizes that the operation lists: `x.view({…})`, `x.expand({…})`, `torch::ones({…})`.
List listed(const Operation& op, size_t first) {
  List sizes;
  const bool is_variable = op.values.size() == first + 1 && op.values[first].kind == Value::Kind::tuple;
  if (is_variable)
    for (const Value& size : op.values[first].elements) sizes.push_back(given_size(size));
  else
    for (const auto& [expr, value] : sizes_from(op, first)) sizes.push_back(given_size(value));
  return sizes;
}

/// x.view({…}): of the elements, what the sizes that are known leave over is the one that is not.
List viewed(const Operation& op, const Value& x) {
  List sizes = listed(op, 1);
  const auto is_unknown = [](const Count& size) { return !size.is_known(); };
  if (!x.rank || std::ranges::count_if(sizes, is_unknown) != 1) return sizes;
  std::optional<Count> rest = literal_count(1);
  for (const Count& size : list_sizes(x)) rest = product_of(*rest, size);
  rest->is_share = false;
  for (const Count& size : sizes)
    if (rest && size.is_known()) rest = without_factors(*rest, size);
  if (rest) *std::ranges::find_if(sizes, is_unknown) = *rest;
  return sizes;
}

std::optional<List> moved(const Operation& op, const Value& x) {
  List sizes = list_sizes(x);
  const int64_t rank = *x.rank;
  if (op.name == ".t") {
    if (rank == 2) std::swap(sizes[0], sizes[1]);
    return sizes;
  }
  if (op.name == ".transpose") {
    const auto a = front_dimension(op, 1, 0, rank), b = front_dimension(op, 2, 0, rank);
    if (!a || !b) return std::nullopt;
    std::swap(sizes[*a], sizes[*b]);
    return sizes;
  }
  if (op.name == ".permute") {
    List permuted;
    for (const auto& [expr, value] : sizes_from(op, 1)) {
      const auto dim = value.count.literal();
      if (!dim || *dim < -rank || *dim >= rank) return std::nullopt;
      permuted.push_back(sizes[*dim < 0 ? *dim + rank : *dim]);
    }
    return permuted;
  }
  if (op.name == ".unsqueeze") {
    const auto at = front_dimension(op, 1, 0, rank + 1);
    if (!at) return std::nullopt;
    sizes.insert(sizes.begin() + *at, literal_count(1));
    return sizes;
  }
  if (op.name == ".flatten") {
    const auto begin = front_dimension(op, 1, 0, rank), end = front_dimension(op, 2, -1, rank);
    if (!begin || !end || *begin > *end) return std::nullopt;
    Count product = literal_count(1);
    for (int64_t i = *begin; i <= *end; ++i) product = product_of(product, sizes[i]);
    sizes.erase(sizes.begin() + *begin, sizes.begin() + *end);
    sizes[*begin] = std::move(product);
    return sizes;
  }
  const auto dim = front_dimension(op, 1, 0, rank);  // squeeze, select, unbind
  if (!dim || (op.name == ".squeeze" && sizes[*dim].literal() != 1)) return std::nullopt;
  sizes.erase(sizes.begin() + *dim);
  return sizes;
}

/// Sizes of a piece of `x` along a dimension, which is not known.
std::optional<List> piece(const Operation& op, const Value& x, size_t dim) {
  List sizes = list_sizes(x);
  const bool is_ordered = quoted(op) == "topk" || quoted(op) == "sort";
  const auto along = front_dimension(op, dim, is_ordered ? -1 : 0, *x.rank);
  if (!along) return std::nullopt;
  sizes[*along] = Count();
  return sizes;
}

/// A matmul of values with at least two dimensions.
std::optional<List> multiplied(const Value& a, const Value& b) {
  if (!a.rank || !b.rank || *a.rank < 2 || *b.rank < 2) return std::nullopt;
  const List left = list_sizes(a), right = list_sizes(b);
  List sizes = broadcast({List(left.begin(), left.end() - 2), List(right.begin(), right.end() - 2)});
  sizes.push_back(left[left.size() - 2]);
  sizes.push_back(right.back());
  return sizes;
}

/// A reduction of the dimensions that operand `first` lists. Whether they stay with size 1 follows from the result's
/// rank.
std::optional<List> reduced(const Operation& op, const Value& x, size_t first, const std::optional<int64_t>& rank) {
  if (op.values.size() <= first || !rank) return std::nullopt;
  const Value& given = op.values[first];
  const std::vector<Value> dims = given.kind == Value::Kind::tuple ? given.elements : std::vector<Value>{given};
  List sizes = list_sizes(x);
  std::set<int64_t> removed;
  for (const Value& value : dims) {
    const auto dim = value.kind == Value::Kind::number ? value.count.literal() : std::nullopt;
    if (!dim || *dim < -*x.rank || *dim >= *x.rank) return std::nullopt;
    removed.insert(*dim < 0 ? *dim + *x.rank : *dim);
  }
  for (auto dim = removed.rbegin(); dim != removed.rend(); ++dim) {
    if (*rank == *x.rank)
      sizes[*dim] = literal_count(1);
    else
      sizes.erase(sizes.begin() + *dim);
  }
  return sizes;
}

List with_last(List sizes, Count last) {
  if (!sizes.empty()) sizes.back() = std::move(last);
  return sizes;
}

std::optional<List> expanded(const Operation& op, const Value& x) {
  const auto given = sizes_from(op, 1);
  const auto rank = static_cast<int64_t>(given.size()), before = rank - *x.rank;
  List sizes;
  for (int64_t i = 0; i < rank; ++i) {
    const Value& size = given[i].second;
    const bool kept = size.count.literal() == -1;
    if (kept && i < before) return std::nullopt;
    sizes.push_back(kept ? x.sizes[i - before] : given_size(size));
  }
  return sizes;
}

/// torch::cat({…}, dim)
std::optional<List> joined(const Operation& op, const std::vector<Value>& elements) {
  if (elements.empty() || !elements[0].rank) return std::nullopt;
  List sizes = list_sizes(elements[0]);
  const auto along = front_dimension(op, 1, 0, *elements[0].rank);
  if (!along) return std::nullopt;
  for (const Value& element : elements)
    for (int64_t i = 0; i < *elements[0].rank; ++i)
      if (i == *along || element.rank != elements[0].rank || element.sizes[i] != sizes[i]) sizes[i] = Count();
  return sizes;
}

std::optional<List> find_sizes(const Operation& op, const std::vector<Value>& given, const Value& result) {
  // With the operand that lists the reduced dimensions.
  static const std::map<std::string_view, size_t> reductions = {
      {".sum", 1}, {".mean", 1},      {".amax", 1},   {".amin", 1}, {".max", 1},
      {".min", 1}, {".logsumexp", 1}, {".argmax", 1}, {".all", 1},  {".any", 1},
      {".var", 1}, {".std", 1},       {".norm", 2},   {"sum", 1},   {"mean", 1}};
  static const std::set<std::string_view> moves = {".t",       ".transpose", ".permute", ".unsqueeze",
                                                   ".flatten", ".squeeze",   ".select",  ".unbind"};
  static const std::map<std::string_view, size_t> pieces = {{".slice", 1},
                                                            {".narrow", 1},
                                                            {".chunk", 2},
                                                            {"chunk", 2},
                                                            {".split", 2},
                                                            {"split", 2},
                                                            {".split_with_sizes", 2},
                                                            {"split_with_sizes", 2},
                                                            {".topk", 2},
                                                            {"topk", 2},
                                                            {".sort", 1},
                                                            {"sort", 1}};
  static const std::set<std::string_view> linear = {"linear layer", "tp_colwise", "tp_rowwise", "tp_vocab linear"};
  static const std::set<std::string_view> tables = {"embedding layer", "tp_vocab embedding", "tp_shard embedding",
                                                    "embedding"};
  static const std::set<std::string_view> created = {"ones", "zeros", "empty", "full"};
  if (given.empty()) return std::nullopt;
  const Value& x = given[0];
  if (op.axis == Axis::positions && result.members.contains("padding"))
    return List{field_count("#batch"), field_count("#keys")};
  if (op.axis == Axis::positions && (op.name == "visible_keys" || op.name == "alibi_mask"))
    return List{Count(), op.name == "visible_keys" ? literal_count(1) : Count(), field_count("#seq"),
                field_count("#keys")};
  const bool broadcasts = arithmetic_rules().contains(op.name) || op.name.ends_with("activation");
  if (broadcasts) return broadcast_operands(op, given);
  if (op.name == ".view" || op.name == ".reshape") return is_tensor(x) ? viewed(op, x) : listed(op, 1);
  if (created.contains(op.name)) return listed(op, 0);
  if (op.name == "cat") return joined(op, x.elements);
  if (given.size() > 1 && (linear.contains(op.name) || tables.contains(op.name))) {
    if (!given[1].rank) return std::nullopt;
    List sizes = list_sizes(given[1]);
    if (tables.contains(op.name)) sizes.emplace_back();
    return with_last(std::move(sizes), x.kind == Value::Kind::module ? x.sizes[0] : Count());
  }
  if (const auto operand = shape_operand(op.name)) {
    if (*operand >= given.size() || !given[*operand].rank) return std::nullopt;
    return stretches(op.name) ? stretched(list_sizes(given[*operand])) : list_sizes(given[*operand]);
  }
  if (!is_tensor(x) || !x.rank) return std::nullopt;
  if (moves.contains(op.name)) return moved(op, x);
  if (const auto found = reductions.find(op.name); found != reductions.end())
    return reduced(op, x, found->second, result.rank);
  if (op.name == "op []" && *x.rank > 0) {
    List sizes = list_sizes(x);
    sizes.erase(sizes.begin());
    return sizes;
  }
  if (const auto found = pieces.find(op.name); found != pieces.end()) return piece(op, x, found->second);
  if (op.name == ".expand") return expanded(op, x);
  if (op.name == "constant_pad_nd") {
    List sizes = list_sizes(x);
    const size_t padded = std::min(given[1].elements.size() / 2, sizes.size());
    std::fill(sizes.end() - static_cast<std::ptrdiff_t>(padded), sizes.end(), Count());
    return sizes;
  }
  if (op.name == "linear") return with_last(list_sizes(x), Count());
  if (op.name == "matmul" || op.name == ".matmul") return multiplied(x, given[1]);
  if (op.name.starts_with("attention") && *x.rank == 4) return stretched({x.sizes[0], x.sizes[2], Count()});
  if (op.name == "scaled_dot_product_attention") return with_last(stretched(list_sizes(x)), Count());
  if (op.name == "Conv2d layer" && given[1].rank) return List{given[1].sizes[0], Count(), Count(), Count()};
  return std::nullopt;
}

void set_sizes(Value& value, const Sizes& sizes) {
  value.sizes = is_tensor(value) && value.rank == sizes.rank() ? sizes : Sizes();
  for (Value& element : value.elements) set_sizes(element, sizes);
  for (auto& [name, member] : value.members) set_sizes(member, sizes);
}

}  // namespace

void give_sizes(const Operation& op, const std::vector<Value>& given, Value& result) {
  const bool is_element = op.name == "op []" || op.name == "get";
  if (is_element && !given.empty() && !is_tensor(given[0])) return;
  const bool has_tensors = is_tensor(result) || !result.elements.empty() || result.members.contains("padding");
  std::optional<List> sizes = has_tensors ? find_sizes(op, given, result) : std::nullopt;
  set_sizes(result, sizes ? Sizes(std::move(*sizes)) : Sizes());
}

void give_shape(const Operation& op, const std::vector<Value>& given, Value& result) {
  const std::optional<size_t> operand = shape_operand(op.name);
  if (!operand || *operand >= given.size() || !is_tensor(result) || !is_tensor(given[*operand])) return;
  result.rank = given[*operand].rank;
  give_sizes(op, given, result);
}

std::optional<Count> leading_size(const Value& x) {
  if (x.outer.is_known() && x.type.dim == 0) return x.outer;
  if (!x.rank || x.type.dim < 0) return x.type.dim == 0 ? std::optional(literal_count(1)) : std::nullopt;
  Count product = x.outer.is_known() ? x.outer : literal_count(1);
  for (int64_t i = 0; i < x.type.dim; ++i) {
    if (!x.sizes[i].is_known()) return std::nullopt;
    product = product_of(product, x.sizes[i]);
  }
  return product.product() ? std::optional(product) : std::nullopt;
}

}  // namespace modgen
