// Shard types of values on the tensor-parallel axis, in the vocabulary of Meta's spmd_types and of JAX's sharding in
// types, and the rules by which operations propagate them. A rule covers forward and backward.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generator/model/body.h"
#include "generator/weave/count.h"

namespace modgen {

struct ModuleNode;

/// The division that one reading of a method is about: among tensor-parallel ranks as annotations say, the rows of the
/// batch among data-parallel ranks, the positions of a sequence among the forwards of a generation, which a cache
/// joins, the positions among context-parallel ranks, or those between layers among tensor-parallel ranks.
enum class Axis : uint8_t { tp, rows, positions, context, sequence };

struct ShardType {
  enum class Kind {
    invariant,   // I: the same on every rank, and so is its gradient
    replicated,  // R: the same on every rank; each rank has a partial gradient that is not yet summed
    partial,     // P: the value is the sum of the ranks' values
    sharded,     // S(dim): each rank has an equal slice along `dim`
  };
  Kind kind = Kind::invariant;
  int64_t dim = 0;  // counted from the end (negative) if the rank is not known, else from the front
  // Sizes of the parts of a fused dimension (query, key and value in one) whose parts are split separately, as products
  // of config fields: "head_dim * num_attention_heads". Empty if the dimension is split as one.
  std::vector<std::string> parts;
  bool operator==(const ShardType&) const = default;
};

/// The sizes of a tensor's dimensions on all ranks together, each a product of names and numbers as far as it is known.
/// Copies share them.
class Sizes {
 public:
  Sizes() = default;
  explicit Sizes(std::vector<Count> sizes) : sizes_(std::make_shared<const std::vector<Count>>(std::move(sizes))) {}

  /// The size of dimension `dim`, counted from the front.
  const Count& operator[](int64_t dim) const {
    static const Count kNotKnown;
    return sizes_ && dim >= 0 && dim < rank() ? (*sizes_)[static_cast<size_t>(dim)] : kNotKnown;
  }
  /// The number of dimensions of which sizes may be known.
  int64_t rank() const { return sizes_ ? static_cast<int64_t>(sizes_->size()) : 0; }
  bool operator==(const Sizes& other) const {
    return sizes_ == other.sizes_ || (sizes_ && other.sizes_ && *sizes_ == *other.sizes_);
  }

 private:
  std::shared_ptr<const std::vector<Count>> sizes_;
};

/// Memory that tensors alias: an in-place change of one changes all of them.
struct Storage {
  bool is_known = false;               // only operations in `allocated_by` allocated it, and nothing else holds it
  std::vector<uint32_t> allocated_by;  // operations that allocated it, as numbered by the interpreter; sorted
  bool operator==(const Storage&) const = default;
};

/// In the reading of positions: what a mask says of the keys after each query, which a forward with a cache has not
/// yet.
enum class LaterKeys : uint8_t {
  any,     // not known
  no,      // false
  yes,     // true
  lowest,  // the lowest number: with it, attention gives them no weight
};

/// The abstract value of an expression.
struct Value {
  enum class Kind {
    nothing,  // no value, or an undefined tensor
    tensor,
    number,    // a number, a size, a flag, a string
    tuple,     // elements in order
    list,      // any number of values like elements[0]
    object,    // a struct: members that are not in `members` are the same on every rank, unless it `is_built`
    module,    // a module of the tree
    unknown,   // nothing is known about it, because of `text` at `cause`
    mismatch,  // differs between the paths that lead here; `text` describes how
    failed,    // an error has been reported: no further errors are reported about it
  };
  Kind kind = Kind::nothing;
  // Tensors; for a layer, the type of its weight.
  ShardType type;
  // Whether a gradient may flow into it; for an object, into members that are not in `members`.
  bool gradient = false;
  Storage storage;              // for values that are not tensors: storage of the tensors in them
  std::optional<int64_t> rank;  // number of dimensions
  Sizes sizes;                  // tensors whose rank is known; for a layer, the number of its output features
  std::vector<int64_t> ones;    // dimensions known to have size 1, counted from the end
  std::string last_size;        // global size of the last dimension as a product of config fields; empty if not known
  std::string split_size;       // global size of the split dimension as a product of config fields; empty if not known
  // Split tensors, layers and tp-local numbers: the config fields, each a TP_LOCAL count, that the split dimension or
  // the number has as factors, or that the value was viewed by.
  std::set<std::string> counts;
  // For a split value: a matmul that sums over the split dimension is summed over the ranks (TP_REDUCE).
  bool reduces = false;
  // For a split value or layer: the split dimension is a vocabulary, of which the last ranks may hold fewer elements.
  bool is_vocabulary = false;
  // Partial sums: the calls whose results it adds up; empty if no exit can be inserted for them.
  std::set<const Expr*> summands;
  Count count;  // numbers, and optional ones
  // The reading in which the value is split, partial or a share.
  Axis axis = Axis::tp;
  // If the split dimension is a flattened product, the product of the factors before the split one: the batch, for
  // [batch * seq] split by positions. Not known if the split factor is the outermost.
  Count outer;
  // Whether the split dimension may have size 1 instead, for a value that is the same for all rows or positions. For a
  // share: whether it is such a size.
  bool may_be_one = false;
  LaterKeys later_keys = LaterKeys::any;
  // In the reading of positions between layers:
  bool is_inside = false;    // differs between tp ranks, or its gradient does: inside split computations
  bool is_gathered = false;  // has the positions of all ranks, rank after rank, along the split dimension
  bool is_fixed = false;     // computed from parameters, buffers and constants alone
  // The parameters from which it is computed, if it is_fixed; for an object, those of tensors that it may hold, which
  // are not in `members`.
  std::set<std::string> parameters;
  std::set<const Expr*> sizes_read;  // numbers: the sizes of split values from which it is computed
  // Other kinds.
  std::vector<Value> elements;
  std::map<std::string, Value> members;
  bool is_built = false;  // objects: made member by member, so that members that are not in `members` are not known
  const ModuleNode* node = nullptr;
  std::string text;
  SourceSpan cause;

  bool operator==(const Value&) const = default;

  static Value tensor(ShardType type, bool gradient, std::optional<int64_t> rank);
  static Value number(bool is_share = false);
  static Value number(Count count);
  static Value failure();
  /// `size` elements like `element`.
  static Value tuple(Value element, size_t size);
  /// A value that nothing is known about, because of a construct that `text` names: "the result of time".
  static Value unknown(std::string text, SourceSpan cause);
  bool is_invariant() const;      // all tensors in it are invariant, no number is tp-local, and no part is unknown
  bool has_failed() const;        // an error about it or a part of it has been reported
  bool carries_gradient() const;  // whether any part of it carries a gradient
};

inline const ShardType kInvariant{ShardType::Kind::invariant, 0, {}};
inline const ShardType kReplicated{ShardType::Kind::replicated, 0, {}};
inline const ShardType kPartial{ShardType::Kind::partial, 0, {}};
inline ShardType sharded(int64_t dim, std::vector<std::string> parts = {}) {
  return {ShardType::Kind::sharded, dim, std::move(parts)};
}

/// The first part of `value` that nothing is known about; null if there is none.
const Value* find_unknown(const Value& value);
/// The first part of `value` that is known not to be the same on every rank; null if there is none.
const Value* find_variant(const Value& value);

/// The first part of `value` that is inside split computations; null if there is none.
const Value* find_inside(const Value& value);

/// The factors of a number that is a product, as text; empty if they are not known.
std::string product_text(const Count& count);
/// The terms of a sum of products, in order; empty if they are not known.
std::vector<std::string> get_terms(const Count& count);
/// Joins `parts` to "a, b, c".
std::string listed_parts(const std::vector<std::string>& parts);

/// The parameters of all tensors in `value`, or in any of the `values`.
std::set<std::string> get_parameters(const Value& value);
std::set<std::string> get_parameters(const std::vector<Value>& values);
/// Sets the parameters of every tensor in `value`, or of those that it may hold.
void set_parameters(Value& value, const std::set<std::string>& parameters);
/// The storage of all tensors in `value`.
Storage get_storage(const Value& value);
/// Sets the storage of every tensor in `value`.
void set_storage(Value& value, const Storage& storage);
/// The union of two storages.
Storage merged(const Storage& one, const Storage& other);

/// Describes a value in messages: "full on every tp rank", "a partial sum over tp", …
std::string describe(const Value& value);
/// A message about shard types on the tp axis, in the words of another reading.
std::string to_words(Axis axis, std::string message);
/// Advice about an operation that mixes rows or positions.
std::string_view get_advice(Axis axis);

/// The value where two control-flow paths meet; Kind::mismatch if they disagree.  (join.cc)
Value join(const Value& one, const Value& other);

/// A call into the parallel runtime that is inserted around an expression.
enum class Call {
  none,
  enter,
  exit,
  partial,  // a layer whose sum over tp is deferred to the reader of its result
  sum,      // the sum of a value over tp
  embedding,
  cross_entropy,
  cross_entropy_outputs,
  sampled_cross_entropy,
  layer_norm,
  dropout,
  attention,
  rms_norm,
  alibi_slopes,
  gather,
  local,
  on_shards,  // the method's overload for split values
};

/// One application of an operation, as rules see it.
struct Operation {
  std::string name;                   // name in the rule table
  Axis axis = Axis::tp;               // the reading
  const Expr* expr = nullptr;         // the operation's expression
  std::vector<const Expr*> operands;  // as written; the object of a method comes first
  std::vector<Value> values;          // one per operand
  // Set by rules:
  Call call = Call::none;       // the call that replaces the operation
  std::vector<size_t> entered;  // operands that need a tp::enter
  std::string message, advice;  // the error if the operation is rejected
  // Config fields with counts of heads or groups: those that each serve several heads of the result, so that ranks can
  // hold the same one; and those of which every rank has to hold its own.
  std::set<std::string> serving, separate;

  /// Rejects the operation.
  Value reject(std::string message, std::string advice = "");
  /// Marks operand `i` as an input of split computation: it is entered if its gradient would otherwise miss the
  /// contributions of the other ranks.
  void enter(size_t i);
  /// The value of operand `i` if it is a literal number.
  std::optional<int64_t> number(size_t i) const;
};

using Rule = Value (*)(Operation&);

/// The rule for an operation, or null. Free functions are looked up by unqualified name ("rms_norm"), tensor methods
/// with a leading dot (".view"), operators with "op " ("op +"), layers by their annotation or class ("tp_colwise",
/// "linear").
Rule find_rule(std::string_view name);

/// The rule for a function that Clang resolved to `callee`, or null. Only functions of at::, torch:: and the contract
/// have rules, not other functions of the same name. Sets `name` to the name in the rule table.
Rule find_rule(const Callee& callee, std::string& name);

/// Whether the operation looks along the sequence, so that it acts on the context that the runtime binds.
bool looks_along(const Operation& op);

/// Applies an operation in the reading `op.axis`, where parameters are full and nothing is inserted. `rule` is its rule
/// on the tp axis, or null. Without a rule the operation is rejected if an operand is split, partial or a share.
Value apply_in_reading(Operation& op, Rule rule);

/// Applies `rule` and enforces two invariants of all rules: tp-local counts are read only by operations that support
/// them, and a split or partial operand never yields a full result silently.
Value apply_rule(Operation& op, Rule rule);

/// The result of an operation whose operands are the same on every rank, derived from its C++ type alone.
Value make_invariant(std::string_view cpp_type, bool gradient);

}  // namespace modgen
