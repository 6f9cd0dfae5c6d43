// Types of values on the tensor-parallel axis, in the vocabulary of Meta's spmd_types and of JAX's sharding in types,
// and the table of rules by which operations give them. A rule covers forward and backward at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "generator/model/body.h"

namespace modgen {

struct ModuleNode;

struct ShardType {
  enum class Kind {
    invariant,   // I: the same on every rank, and so is its gradient
    replicated,  // R: the same on every rank; each rank has a part of its gradient, still to be summed
    partial,     // P: the ranks' values are to be summed
    sharded,     // S(dim): each rank has an equal slice along `dim`
  };
  Kind kind = Kind::invariant;
  int64_t dim = 0;  // counted from the end (negative) where the rank is not known, else from the front
  // Where the dimension is a row of parts (query, key and value in one), each of which is split by itself: the sizes of
  // the parts as products of config fields, "head_dim * num_attention_heads". Empty where it is split as one.
  std::vector<std::string> parts;
  bool operator==(const ShardType&) const = default;
};

/// Memory that tensors share: who changes one in place changes all of them.
struct Storage {
  bool is_known = false;          // it is that of operations in `made` alone, and none that anything else holds
  std::vector<uint32_t> made_by;  // operations that made it, as the interpreter numbers them; sorted
  bool operator==(const Storage&) const = default;
};

/// What is known of the value of an expression.
struct Value {
  enum class Kind {
    nothing,  // no value, or an undefined tensor
    tensor,
    number,    // a number, a size, a flag, a string
    tuple,     // elements in order
    list,      // any number of values like elements[0]
    object,    // a struct: what is not in `members` is the same on every rank
    module,    // a module of the tree
    mismatch,  // differs between the paths that lead here; `text` says how
    failed,    // an error has been reported: nothing more is said about it
  };
  Kind kind = Kind::nothing;
  // A tensor; of a layer, how its weight is split.
  ShardType type;
  // A gradient may flow into it; of an object: into what is not in `members`.
  bool gradient = false;
  Storage storage;              // of what is not a tensor: of those in it
  std::optional<int64_t> rank;  // number of dimensions
  std::vector<int64_t> ones;    // dimensions known to have size 1, counted from the end
  std::string last_size;   // of the last dimension over all ranks, a product of config fields; empty where not known
  std::string split_size;  // of a split dimension over all ranks, a product of config fields; empty where not known
  // Of a partial sum: the calls whose results it adds up; empty where an exit is none of theirs to place.
  std::set<const Expr*> summands;
  // A number.
  bool local = false;                               // this rank's share of a count, or a size along a split dimension
  std::optional<int64_t> known;                     // its value, where it is a literal
  std::optional<std::vector<std::string>> factors;  // sorted: config fields and literals whose product it is
  std::vector<std::string> terms;                   // the products whose sum it is, in order
  // The others.
  std::vector<Value> elements;
  std::map<std::string, Value> members;
  const ModuleNode* node = nullptr;
  std::string text;

  bool operator==(const Value&) const = default;

  static Value tensor(ShardType type, bool gradient, std::optional<int64_t> rank);
  static Value number(bool local = false);
  /// `number`, where it may be that of a dimension or of some of them: sums and products of two such do not overflow.
  static std::optional<int64_t> small(int64_t number);
  static Value failure();
  bool is_invariant() const;      // I throughout, or no tensor in it and no share of a count
  bool has_failed() const;        // an error about it or about a part of it has been reported
  bool carries_gradient() const;  // somewhere in it
};

inline const ShardType kInvariant{ShardType::Kind::invariant, 0, {}};
inline const ShardType kReplicated{ShardType::Kind::replicated, 0, {}};
inline const ShardType kPartial{ShardType::Kind::partial, 0, {}};
inline ShardType sharded(int64_t dim, std::vector<std::string> parts = {}) {
  return {ShardType::Kind::sharded, dim, std::move(parts)};
}

/// "head_dim * num_attention_heads" of those factors, which are sorted.
std::string product_text(const std::vector<std::string>& factors);
/// The same of a number; empty where its factors are not known.
std::string product_text(const Value& number);
/// The products that a number is the sum of, or the one that it is; none where they are not known.
std::vector<std::string> get_terms(const Value& number);
/// "a, b, c"
std::string listed_parts(const std::vector<std::string>& parts);

/// That of everything in `value`.
Storage get_storage(const Value& value);
/// Gives it to every tensor in `value`.
void set_storage(Value& value, const Storage& storage);
/// Memory of either.
Storage both(const Storage& one, const Storage& other);

/// For messages: "whole on every rank", "a partial sum", "split along dimension 2", …
std::string describe(const Value& value);

/// The value where two paths meet; of Kind::mismatch where they disagree.
Value join(const Value& one, const Value& other);

/// A call into the parallel runtime that has to be placed around an expression.
enum class Call {
  none,
  enter,
  exit,
  partial,  // of a layer whose sum over tp is left to what reads it
  sum,      // of a value: the sum over tp
  embedding,
  cross_entropy,
  sampled_cross_entropy,
  layer_norm,
  dropout,
  attention,
  rms_norm,
  alibi_slopes,
  gather,
  local,
  on_shards,  // the method's other form, for values that are split
};

/// An application of an operation, as rules see it.
struct Operation {
  std::string name;                   // as in the table
  const Expr* expr = nullptr;         // the whole
  std::vector<const Expr*> operands;  // as written; the object of a method comes first
  std::vector<Value> values;          // one for each operand
  // Set by rules:
  Call call = Call::none;       // what takes the place of the operation itself
  std::vector<size_t> entered;  // operands that have to be entered
  std::string message, advice;  // why it is rejected
  std::string trusted;          // what the result rests on that is not checked

  /// Rejects the operation.
  Value reject(std::string message, std::string advice = "");
  /// Operand `i` as one that flows into split computation: entered where its gradient would otherwise be short of the
  /// other ranks'.
  void enter(size_t i);
  /// The literal number that operand `i` is.
  std::optional<int64_t> number(size_t i) const;
};

using Rule = Value (*)(Operation&);

/// The rule for an operation, or null. Free functions have their unqualified name ("rms_norm"), methods of tensors a
/// dot before it (".view"), operators "op " ("op +"), layers the name of their annotation or class ("tp_colwise",
/// "linear").
Rule find_rule(std::string_view name);

/// The rule for a function that Clang resolved to `callee`, or null: rules are those of at::, torch:: and the contract,
/// whatever else has such a name. `name` becomes what the table calls it.
Rule find_rule(const Callee& callee, std::string& name);

/// Applies `rule` and what holds for every rule: a share of a count is read by operations that know what to do with it,
/// and a value that is split or partial does not become a whole one by being overlooked.
Value apply_rule(Operation& op, Rule rule);

/// What an operation gives whose operands are all the same on every rank: known by its C++ type alone.
Value make_invariant(std::string_view cpp_type, bool gradient);

}  // namespace modgen
