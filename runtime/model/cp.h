// Context parallelism: each cp rank has some of the positions of every sequence. modgen inserts no calls for it: the
// functions of the contract that look along the sequence make these calls. Without a mesh each call is the identity.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/model/parallel.h"
#include "runtime/model/tensors.h"

namespace modular::cp {

/// Consecutive positions of a sequence.
struct Run {
  int64_t begin = 0, size = 0;
  int64_t end() const { return begin + size; }
};

/// Runtime interface of a model whose sequences are divided over several ranks. All ranks have the same number of
/// positions.
class Context {
 public:
  virtual ~Context() = default;
  virtual int64_t size() const = 0;
  virtual int64_t rank() const = 0;
  /// The positions of this rank, ascending, if each rank has `count`.
  virtual std::vector<Run> runs(int64_t count) const = 0;
  /// All positions, in order, of a value of which this rank has its positions along `dim`. Backward keeps this rank's
  /// positions of the gradient, summed over ranks.
  virtual Tensor gather(const Tensor& x, int64_t dim) = 0;
  /// All-reduce. Backward sums the gradient over ranks, because each of them uses the sum for its own positions.
  virtual Tensor sum(const Tensor& partial) = 0;
  /// Whether attention exchanges heads, so that each rank has all positions of some heads. Otherwise each rank gathers
  /// the keys and values of all heads.
  virtual bool exchanges_heads(int64_t heads, int64_t key_value_heads) const = 0;
  /// All positions of this rank's slice of the heads; backward is the inverse.
  /// - x [batch, heads, positions of this rank, features]
  /// - returns [batch, heads / size(), all positions, features]
  virtual Tensor to_heads(const Tensor& x) = 0;
  /// This rank's positions of all heads; backward is the inverse.
  /// - x [batch, all positions, features of this rank's slice of the heads]
  /// - returns [batch, positions of this rank, features of all heads]
  virtual Tensor to_positions(const Tensor& x) = 0;
};

/// The number of positions of a sequence of which each rank has `count`.
inline int64_t whole_size(int64_t count) { return bound.context ? count * bound.context->size() : count; }

/// The positions that this rank has, if each rank has `count`: [count] int64.
inline Tensor positions(int64_t count, const at::TensorOptions& options) {
  if (!bound.context) return at::arange(count, options);
  std::vector<Tensor> runs;
  for (const Run& run : bound.context->runs(count)) runs.push_back(at::arange(run.begin, run.end(), options));
  return at::cat(runs);
}

/// All positions of `x`, which may be undefined.
/// - x [batch, positions of this rank, ...]
inline Tensor whole(const Tensor& x, int64_t dim = 1) {
  return bound.context && x.defined() ? bound.context->gather(x, dim) : x;
}

/// The positions of `x` that this rank has.
/// - x [batch, all positions, ...]
inline Tensor part(const Tensor& x, int64_t dim = 1) {
  if (!bound.context) return x;
  std::vector<Tensor> runs;
  for (const Run& run : bound.context->runs(x.size(dim) / bound.context->size()))
    runs.push_back(x.narrow(dim, run.begin, run.size));
  return at::cat(runs, dim);
}

/// The sum over ranks of sums over their positions.
inline Tensor sum(const Tensor& partial) { return bound.context ? bound.context->sum(partial) : partial; }

/// The positions `first` … `first + count - 1` of those that this rank has, if each rank has `all`.
inline std::vector<Run> find_runs(int64_t all, int64_t first, int64_t count) {
  std::vector<Run> found;
  int64_t before = 0;  // positions of this rank before `run`
  for (const Run& run : bound.context->runs(all)) {
    const int64_t begin = std::max(first - before, int64_t{0}), end = std::min(first + count - before, run.size);
    if (begin < end) found.push_back({run.begin + begin, end - begin});
    before += run.size;
  }
  return found;
}

}  // namespace modular::cp
