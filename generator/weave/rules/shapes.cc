// Rules of operations that read a shape, view a value or permute its dimensions.
#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

/// A property of a tensor that is the same for every shard of it.
Value property(Operation& op) { return make_invariant(op.expr->type, false); }

Value find_size(Operation& op) {
  const Value& x = op.values[0];
  const auto dim = op.number(1);
  if (!dim) return is_split(x) ? unproven(op, x) : Value::number();
  const auto counted = is_split(x) ? same_count(x, *dim) : *dim;
  if (!counted) return unproven(op, x);
  Value size = Value::number(is_split(x) && *counted == x.type.dim);
  if (size.count.is_share) size.outer = x.outer;
  if (x.rank) size.count.terms = x.sizes[*dim < 0 ? *dim + *x.rank : *dim].terms;
  return size;
}

using Listed = std::vector<std::pair<const Expr*, Value>>;

bool is_own_size(const std::string& field) { return field.starts_with(kOwnSize); }

/// Whether the sizes before dimension `split` have the product of those before the split dimension of `x`, so that no
/// part of that dimension can move before it. Their order does not matter.
bool keeps_leading(const Value& x, const Listed& sizes, int64_t split) {
  const std::optional<Count> leading = leading_size(x);
  Count product = literal_count(1);
  for (int64_t i = 0; i < split; ++i) product = product_of(product, sizes[i].second.count);
  return leading && product.is_known() && product == *leading;
}

/// The size as a product of config fields; empty if it is not one.
std::string config_size_text(const Value& size) {
  const Count::Term* product = size.count.product();
  return product && std::ranges::none_of(product->fields, is_own_size) ? to_text(*product) : "";
}

/// Whether the sizes from `split` on multiply to the split dimension, which is the last one. The sizes before them then
/// cover all dimensions before it, or the view fails on a single process too.
bool factors_split(const Value& x, const Listed& sizes, int64_t split) {
  if (x.split_size.empty() || x.type.dim + 1 != x.rank) return false;
  Count product = literal_count(1);
  for (size_t i = static_cast<size_t>(split); i < sizes.size(); ++i) {
    const Count::Term* size = sizes[i].second.count.product();
    if (!size) return false;
    product.terms = product_of(product, sizes[i].second.count).terms;
  }
  return product_text(product) == x.split_size;
}

Value number_of_elements(Operation& op) { return Value::number(is_split(op.values[0])); }

/// The split dimension of a view of `x`, or empty if the view is rejected. A split dimension is factored with the
/// tp-local count first: [.., 12] with 4 heads as [.., local heads, 3]. If it is split within equal parts, the number
/// of parts precedes the count: [.., 3 * 12] as [.., 3, local heads, 3]. If the rank of `x` is not known, the sizes
/// before the split dimension may not cover all dimensions before it.
std::optional<int64_t> viewed_split(Operation& op, const Listed& sizes, std::optional<int64_t> local, bool rank_known) {
  const Value& x = op.values[0];
  const auto rank = static_cast<int64_t>(sizes.size());
  int64_t split = x.type.dim;
  if (!rank_known && !factors_split(x, sizes, split)) {
    op.reject("unproven: a view of a value that is " + describe(x) +
                  ", with an unknown number of dimensions "
                  "before it",
              "factor the dimension into factors of the layer's size, as in "
              "linear(hidden_size, num_heads * head_dim), or view the layer's input by its sizes first");
    return std::nullopt;
  }
  if (split >= rank || !(keeps_leading(x, sizes, split) || factors_split(x, sizes, split))) {
    op.reject("unproven: a view of a value that is " + describe(x) +
                  ", whose sizes before that dimension are not "
                  "known to be the value's own",
              "read each size from the value, as in x.size(0)");
    return std::nullopt;
  }
  if (!x.type.parts.empty()) {
    const bool equal = std::all_of(x.type.parts.begin(), x.type.parts.end(),
                                   [&](const std::string& part) { return part == x.type.parts.front(); });
    const bool apart =
        equal && split + 1 < rank && sizes[split].second.count.literal() == static_cast<int64_t>(x.type.parts.size());
    if (!apart) {
      op.reject("a view of a value that is " + describe(x) + ": its parts would interleave",
                "split it with split_with_sizes by the sizes of its parts, or if they are equal view it with "
                "their number first");
      return std::nullopt;
    }
    ++split;
  }
  if (!local) {
    // A trailing -1 covers the entire split dimension.
    const bool kept = x.type.parts.empty() && sizes[split].second.count.literal() == -1 && split == rank - 1;
    if (kept) return split;
    op.reject("a view of a value that is " + describe(x) + ", without a tp-local count at that dimension",
              "mark the number of heads or parts TP_LOCAL: modgen then reads the local count here");
    return std::nullopt;
  }
  if (*local == split) return split;
  // Sizes of 1 before the first dimension do not move elements.
  const bool only_ones = std::all_of(sizes.begin(), sizes.begin() + *local,
                                     [](const auto& size) { return size.second.count.literal() == 1; });
  if (rank_known && x.type.dim == 0 && x.type.parts.empty() && only_ones) return local;
  op.reject("a view that moves the tp-local count to dimension " + std::to_string(*local) + ", of a value that is " +
                describe(x),
            "the count has to be the first of the sizes that dimension " + std::to_string(split) + " is viewed as");
  return std::nullopt;
}

constexpr const char* kLocalCountUnlisted = "unproven: sizes with a tp-local count in a separate variable";
constexpr const char* kListThem = "list them in the call, as in x.view({batch, seq, num_heads, head_dim})";

bool has_local_count(const Operation& op) {
  return std::any_of(op.values.begin() + 1, op.values.end(), [](const Value& value) { return !value.is_invariant(); });
}

/// Whether the sizes or dimensions from operand `first` on are listed in the call itself.
bool lists_sizes(const Operation& op, size_t first) {
  return op.operands.size() > first &&
         (op.operands[first]->kind == Expr::Kind::list || op.values[first].kind == Value::Kind::number);
}

Value view(Operation& op) {
  const Value& x = op.values[0];
  const bool listed = op.operands.size() == 2 && op.operands[1]->kind == Expr::Kind::list;
  if (!listed && has_local_count(op)) return op.reject(kLocalCountUnlisted, kListThem);
  if (!listed && is_split(x)) return unproven(op, x);
  if (!listed) return like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  const auto sizes = sizes_from(op, 1);
  const auto rank = static_cast<int64_t>(sizes.size());
  std::optional<int64_t> local;
  for (int64_t i = 0; i < rank; ++i) {
    if (!sizes[i].second.count.is_share) continue;
    if (!is_split(x))
      return op.reject("a view by a tp-local count, of a value that is " + describe(x),
                       "mark the layer that computes it TP_COLWISE, or drop the count's TP_LOCAL");
    if (local)
      return op.reject("a view with two tp-local counts: one dimension is split over tp", "mark one count TP_LOCAL");
    local = i;
  }
  Value result = Value::tensor(kInvariant, x.gradient, rank);
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i].second.count.literal() == 1) result.ones.push_back(i - rank);
  if (!sizes.empty()) result.last_size = config_size_text(sizes.back().second);
  if (!is_split(x)) return like(result, x.type);
  const bool rank_known = x.rank.has_value();
  if (!rank_known && x.type.dim == -1 && x.type.parts.empty()) {
    // The last dimension of a value of unknown rank: the sizes before the local count cover all dimensions before it.
    Value& counted = op.values[0];
    const std::string size = x.split_size;
    counted = Value::tensor(sharded(-1), x.gradient, local ? *local + 1 : rank);
    counted.split_size = size;
  }
  if (!x.rank || x.type.dim < 0) return unproven(op, x);
  const auto split = viewed_split(op, sizes, local, rank_known);
  return split ? like(result, sharded(*split)) : Value::failure();
}

/// torch::ones({…}): the same on every rank.
Value created(Operation& op) {
  for (const Value& value : op.values)
    if (!value.is_invariant())
      return op.reject(quoted(op) + " of a tp-local count: the result differs from a single process",
                       "use global sizes, or size 1 if operations broadcast it");
  const bool listed = !op.operands.empty() && op.operands[0]->kind == Expr::Kind::list;
  if (!listed) return Value::tensor(kInvariant, false, std::nullopt);
  const std::vector<Value>& sizes = op.values[0].elements;
  const auto rank = static_cast<int64_t>(sizes.size());
  Value result = Value::tensor(kInvariant, false, rank);
  for (int64_t i = 0; i < rank; ++i)
    if (sizes[i].count.literal() == 1) result.ones.push_back(i - rank);
  return result;
}

Value range(Operation& op) {
  const Value result = created(op);
  return result.kind == Value::Kind::failed ? result : Value::tensor(kInvariant, false, 1);
}

/// x.tril(): depends on the positions in the last two dimensions.
Value triangle(Operation& op) {
  const Value& x = op.values[0];
  if (is_split(x) && !(from_end(x) && *from_end(x) < -2)) return unproven(op, x);
  return first_alone(op);
}

/// x.view_as(other), x.expand_as(other)
Value shaped_like(Operation& op) {
  const Value &x = op.values[0], &other = op.values[1];
  if (!is_tensor(x) || !is_tensor(other) || is_split(x) || is_split(other))
    return unproven(op, is_split(x) ? x : other);
  return like(Value::tensor(kInvariant, x.gradient, other.rank), x.type);
}

Value expand(Operation& op) {
  const Value& x = op.values[0];
  if (!lists_sizes(op, 1)) {
    if (has_local_count(op)) return op.reject(kLocalCountUnlisted, kListThem);
    return is_split(x) ? unproven(op, x) : like(Value::tensor(kInvariant, x.gradient, std::nullopt), x.type);
  }
  const auto sizes = sizes_from(op, 1);
  const auto rank = static_cast<int64_t>(sizes.size());
  for (int64_t i = 0; !is_split(x) && i < rank; ++i) {
    if (!sizes[i].second.count.is_share) continue;
    // One value for all heads becomes one per local head; their gradients add up.
    const bool is_new = x.rank && i - rank < -*x.rank;
    const bool is_one = is_new || std::find(x.ones.begin(), x.ones.end(), i - rank) != x.ones.end();
    if (!is_one || is_partial(x))
      return op.reject("an expansion to a tp-local count, of a value that is " + describe(x) +
                           (is_one ? "" : " and not known to have size 1 there"),
                       "leave that dimension 1, as operations broadcast it; or give it size 1 by a literal in a view");
    if (std::any_of(sizes.begin() + i + 1, sizes.end(), [](const auto& size) { return size.second.count.is_share; }))
      return op.reject("an expansion to two tp-local counts: one dimension is split over tp",
                       "mark one count TP_LOCAL");
    if (is_full(x)) op.enter(0);
    return Value::tensor(sharded(i), x.gradient, rank);
  }
  if (!is_split(x)) return like(Value::tensor(kInvariant, x.gradient, rank), x.type);
  const auto split = from_end(x);
  if (!split || -*split > rank) return unproven(op, x);
  const Value& size = sizes[rank + *split].second;
  const auto locals =
      std::count_if(sizes.begin(), sizes.end(), [](const auto& other) { return other.second.count.is_share; });
  if ((size.count.literal() != -1 && !size.count.is_share) || locals != size.count.is_share) return unproven(op, x);
  return Value::tensor(sharded(*split + rank, x.type.parts), x.gradient, rank);
}

Value transpose(Operation& op) {
  const Value& x = op.values[0];
  const auto a = op.number(1), b = op.number(2);
  if (!a || !b) return is_split(x) ? unproven(op, x) : moved(op, x.rank, [](int64_t dim) { return dim; });
  const auto one = same_count(x, *a), other = same_count(x, *b);
  return moved(op, x.rank, [&](int64_t dim) -> std::optional<int64_t> {
    if (!one || !other) return std::nullopt;
    return dim == *one ? *other : dim == *other ? *one : dim;
  });
}

/// x.t(): transposes a matrix and leaves a vector unchanged.
Value transpose_matrix(Operation& op) {
  const Value& x = op.values[0];
  const bool is_matrix = x.rank ? *x.rank == 2 : is_split(x) && (x.type.dim == -2 || x.type.dim == 1);
  if (!is_matrix && is_split(x) && x.rank != 1) return unproven(op, x);
  return moved(op, is_matrix ? 2 : x.rank, [&](int64_t dim) {
    return !is_matrix ? dim : dim < 0 ? -3 - dim : 1 - dim;
  });
}

/// `type` with the split dimension counted from the front of `rank` dimensions.
ShardType from_front(ShardType type, size_t rank) {
  if (type.kind == ShardType::Kind::sharded && type.dim < 0) type.dim += static_cast<int64_t>(rank);
  return type;
}

Value permute(Operation& op) {
  if (!lists_sizes(op, 1)) return moved(op, op.values[0].rank, [](int64_t) { return std::nullopt; });
  const auto order = sizes_from(op, 1);
  Value& x = op.values[0];
  if (is_tensor(x)) x = like(Value::tensor(kInvariant, x.gradient, order.size()), from_front(x.type, order.size()));
  return moved(op, x.rank, [&](int64_t dim) -> std::optional<int64_t> {
    for (size_t i = 0; i < order.size(); ++i) {
      if (!order[i].second.count.literal()) return std::nullopt;
      const auto from = same_count(x, *order[i].second.count.literal());
      if (from && *from == dim) return static_cast<int64_t>(i);
    }
    return std::nullopt;
  });
}

Value flatten(Operation& op) {
  const Value& x = op.values[0];
  const auto begin = dimension(op, 1, 0), end = dimension(op, 2, -1);
  if (!x.rank || !begin || !end) return moved(op, std::nullopt, [](int64_t) { return std::nullopt; });
  const int64_t merged = *end - *begin;
  return moved(op, *x.rank - merged, [&](int64_t dim) -> std::optional<int64_t> {
    if (dim == *begin && merged > 0 && !x.type.parts.empty()) return std::nullopt;
    if (dim <= *begin) return dim;
    if (dim > *end) return dim - merged;
    op.reject("flatten puts dimension " + std::to_string(dim) +
              ", which is split over tp, after another one: the slices would interleave");
    return std::nullopt;
  });
}

Value unsqueeze(Operation& op) {
  const Value& x = op.values[0];
  const auto at = op.number(1);
  if (!at) return unproven(op, x);
  if (!x.rank) {
    Value result = moved(op, std::nullopt, [&](int64_t dim) -> std::optional<int64_t> {
      if (dim < 0 && *at < 0) return dim > *at ? dim : dim - 1;
      return std::nullopt;
    });
    if (*at < 0) result.ones.push_back(*at);
    return result;
  }
  const int64_t rank = *x.rank + 1, axis = *at < 0 ? *at + rank : *at;
  Value result = moved(op, rank, [&](int64_t dim) { return dim >= axis ? dim + 1 : dim; });
  for (const int64_t one : x.ones) result.ones.push_back(one + rank - 1 < axis ? one - 1 : one);
  result.ones.push_back(axis - rank);
  return result;
}

/// x.squeeze(dim): drops a dimension if its size is 1. If the size is not known, a split value may not be squeezed
/// where its number of dimensions is known: it would not be known any more.
Value squeeze(Operation& op) {
  const Value& x = op.values[0];
  const auto axis = op.values.size() > 1 ? dimension(op, 1, 0) : std::nullopt;
  if (!axis) return is_split(x) ? unproven(op, x) : moved(op, std::nullopt, [](int64_t dim) { return dim; });
  const bool drops = x.rank || *axis < 0 ? has_one(x, *axis < 0 ? *axis : *axis - *x.rank) : false;
  if (!is_split(x))
    return moved(op, drops && x.rank ? std::optional(*x.rank - 1) : std::nullopt, [](int64_t dim) { return dim; });
  if (*axis == x.type.dim) return unproven(op, x);
  if (!drops && x.rank)
    return op.reject("squeeze of a value that is " + describe(x) +
                         " drops the dimension only if its size is 1, which is not known here",
                     "write select(dim, 0), which drops it in any case, or give it a literal size 1 in a view");
  if (drops && x.rank) return moved(op, *x.rank - 1, [&](int64_t dim) { return dim > *axis ? dim - 1 : dim; });
  const bool before = *axis < x.type.dim;
  const auto dim = before ? from_end(x) : x.type.dim >= 0 ? std::optional(x.type.dim) : std::nullopt;
  return dim ? Value::tensor(sharded(*dim, x.type.parts), x.gradient, std::nullopt) : unproven(op, x);
}

}  // namespace

const RuleTable& shape_rules() {
  static const RuleTable table = {
      {".size", find_size},
      {".numel", number_of_elements},
      {".dim", property},
      {".defined", property},
      {".device", property},
      {".dtype", property},
      {".scalar_type", property},
      {".options", property},
      {".is_floating_point", property},
      {".requires_grad", property},
      {"ones", created},
      {"zeros", created},
      {"full", created},
      {"empty", created},
      {"arange", range},
      {".tril", triangle},
      {".triu", triangle},
      {".view", view},
      {".reshape", view},
      {".view_as", shaped_like},
      {".expand_as", shaped_like},
      {".expand", expand},
      {".transpose", transpose},
      {".t", transpose_matrix},
      {".permute", permute},
      {".flatten", flatten},
      {".unsqueeze", unsqueeze},
      {".squeeze", squeeze},
  };
  return table;
}

}  // namespace modgen
