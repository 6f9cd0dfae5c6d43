// The value where two control-flow paths meet.
#include <algorithm>
#include <iterator>

#include "generator/weave/shard_types.h"

namespace modgen {
namespace {

/// The sizes on which both agree.
Sizes common_sizes(const Sizes& one, const Sizes& other) {
  if (one.rank() != other.rank()) return {};
  std::vector<Count> sizes;
  for (int64_t i = 0; i < one.rank(); ++i) sizes.push_back(one[i] == other[i] ? one[i] : Count());
  return Sizes(std::move(sizes));
}

/// Where a value that is split by rows or positions meets one that is the same for all and has size 1 there: either
/// broadcasts against values that are split. Empty for other values.
std::optional<Value> join_broadcast(const Value& one, const Value& other) {
  const Value& split = one.axis != Axis::tp ? one : other;
  const Value& same = &split == &one ? other : one;
  if (split.axis == Axis::tp || split.type.kind != ShardType::Kind::sharded || !split.rank ||
      same.type.kind != ShardType::Kind::invariant || same.rank != split.rank ||
      std::ranges::find(same.ones, split.type.dim - *split.rank) == same.ones.end())
    return std::nullopt;
  Value result = split;
  result.may_be_one = true;
  if (one.later_keys != other.later_keys) result.later_keys = LaterKeys::any;
  result.gradient = one.gradient || other.gradient;
  result.storage = merged(one.storage, other.storage);
  result.last_size.clear();
  result.sizes = common_sizes(one.sizes, other.sizes);
  std::erase_if(result.ones, [&](int64_t dim) { return std::ranges::find(same.ones, dim) == same.ones.end(); });
  return result;
}

}  // namespace

Value join(const Value& one, const Value& other) {
  using Kind = Value::Kind;
  if (one.kind == Kind::failed || other.kind == Kind::failed) return Value::failure();
  if (one.kind == Kind::mismatch) return one;
  if (other.kind == Kind::mismatch) return other;
  if (one.kind == Kind::nothing) return other;
  if (other.kind == Kind::nothing) return one;
  if (one.kind == Kind::unknown) return one;
  if (other.kind == Kind::unknown) return other;
  const auto mismatch = [&] {
    Value value;
    value.kind = Kind::mismatch;
    value.text = describe(one) + " on one path and " + describe(other) + " on another";
    return value;
  };
  const auto anything = [&] {
    Value value = make_invariant("", true);
    value.gradient = one.carries_gradient() || other.carries_gradient();
    value.is_inside = find_inside(one) || find_inside(other);
    value.storage = merged(get_storage(one), get_storage(other));
    value.parameters = get_parameters(one);
    value.parameters.merge(get_parameters(other));
    return value;
  };
  if (one.kind != other.kind) return one.is_invariant() && other.is_invariant() ? anything() : mismatch();
  Value result = one;
  result.storage = merged(one.storage, other.storage);
  if (one.count != other.count) result.count.terms.clear();
  switch (one.kind) {
    case Kind::tensor: {
      ShardType theirs = other.type;
      if (one.type.kind == ShardType::Kind::sharded && theirs.kind == ShardType::Kind::sharded) {
        if (one.type.dim >= 0 && theirs.dim < 0 && one.rank) theirs.dim += *one.rank;
        if (one.type.dim < 0 && theirs.dim >= 0 && other.rank) theirs.dim -= *other.rank;
      }
      if (one.type != theirs) {
        if (std::optional<Value> any = join_broadcast(one, other)) return *any;
        return mismatch();
      }
      result.gradient = one.gradient || other.gradient;
      result.may_be_one |= other.may_be_one;
      if (one.later_keys != other.later_keys) result.later_keys = LaterKeys::any;
      if (one.is_gathered != other.is_gathered) return mismatch();
      result.is_inside |= other.is_inside;
      result.is_fixed &= other.is_fixed;
      result.parameters.insert(other.parameters.begin(), other.parameters.end());
      if (one.rank != other.rank) result.rank.reset();
      if (one.outer != other.outer) return mismatch();
      if (one.sizes != other.sizes) result.sizes = common_sizes(one.sizes, other.sizes);
      if (one.last_size != other.last_size) result.last_size.clear();
      if (one.split_size != other.split_size) result.split_size.clear();
      result.counts.insert(other.counts.begin(), other.counts.end());
      result.reduces = one.reduces && other.reduces;
      result.is_vocabulary |= other.is_vocabulary;
      if (one.summands.empty() || other.summands.empty())
        result.summands.clear();
      else
        result.summands.insert(other.summands.begin(), other.summands.end());
      std::erase_if(result.ones, [&](int64_t dim) {
        return std::find(other.ones.begin(), other.ones.end(), dim) == other.ones.end();
      });
      return result;
    }
    case Kind::number:
      if (one.count.is_share != other.count.is_share || one.outer != other.outer) return mismatch();
      result.sizes_read.insert(other.sizes_read.begin(), other.sizes_read.end());
      result.may_be_one |= other.may_be_one;
      result.counts.insert(other.counts.begin(), other.counts.end());
      return result;
    case Kind::tuple:
    case Kind::list:
      if (one.elements.size() != other.elements.size())
        return one.is_invariant() && other.is_invariant() ? anything() : mismatch();
      for (size_t i = 0; i < one.elements.size(); ++i) {
        result.elements[i] = join(one.elements[i], other.elements[i]);
        if (result.elements[i].kind == Kind::mismatch) return result.elements[i];
      }
      return result;
    case Kind::object:
      result.gradient |= other.gradient;
      result.is_inside |= other.is_inside;
      result.parameters.insert(other.parameters.begin(), other.parameters.end());
      result.is_built |= other.is_built;
      for (const auto& [name, member] : other.members) result.members.try_emplace(name, member);
      for (auto member = result.members.begin(); member != result.members.end();) {
        const auto mine = one.members.find(member->first), theirs = other.members.find(member->first);
        const bool in_both = mine != one.members.end() && theirs != other.members.end();
        const Value& without = mine == one.members.end() ? one : other;
        if (!in_both && without.is_built) {  // never set on one path: not known where the paths meet
          member = result.members.erase(member);
          continue;
        }
        if (in_both) member->second = join(mine->second, theirs->second);
        if (!in_both && find_variant(member->second)) return mismatch();
        if (!in_both) member->second.gradient |= without.gradient;
        if (member->second.kind == Kind::mismatch) return member->second;
        ++member;
      }
      return result;
    case Kind::module:
      return one.node == other.node ? one : mismatch();
    default:
      return result;
  }
}

}  // namespace modgen
