#include "runtime/parallel/random/initialization.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/ConstexprCrc.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>
#include <utility>

#include "runtime/parallel/random/philox_fill.h"

namespace modular {
namespace {

using init::Distribution;

constexpr int64_t kSegment = 16384;  // elements per task of a thread

FloatDistribution in_floats(const Distribution& from) {
  const bool normal = from.kind == Distribution::Kind::normal;
  const double cutoff = from.cutoff / std::numbers::sqrt2;
  return {.normal = normal,
          .first = static_cast<float>(from.first),
          .second = static_cast<float>(normal ? from.second : from.second - from.first),
          .cutoff = static_cast<float>(from.cutoff),
          .within = static_cast<float>(std::erf(cutoff)),
          .beyond = static_cast<float>(std::erfc(cutoff))};
}

bool can_fill_in_place(const at::Tensor& part) {
  return part.is_cpu() && part.scalar_type() == at::kFloat &&
         (part.dim() == 0 || part.stride(-1) == 1 || part.size(-1) == 1);
}

void fill_in_place(const FloatDistribution& from, uint64_t key, at::IntArrayRef global_shape, at::IntArrayRef offset,
                   const at::Tensor& part) {
  const at::IntArrayRef shape = part.sizes(), strides = part.strides();
  // Length of a run that is contiguous in both the part and the full tensor: the product of the innermost dimensions,
  // of which only the outermost may be cut.
  int64_t run = 1;
  size_t outer_dims = shape.size();
  for (bool cut = false; outer_dims > 0 && !cut; --outer_dims) {
    const size_t dim = outer_dims - 1;
    if (shape[dim] != 1 && strides[dim] != run) break;
    run *= shape[dim];
    cut = shape[dim] != global_shape[dim];
  }
  const int64_t segments = (run + kSegment - 1) / kSegment, runs = part.numel() / run;
  auto* const values = part.mutable_data_ptr<float>();
  const auto fill_segments = [&](int64_t begin, int64_t end) {
    for (int64_t segment = begin; segment < end; ++segment) {
      int64_t rest = segment / segments, in_full = 0, in_part = 0, size = 1;
      for (size_t dim = shape.size(); dim-- > 0; size *= global_shape[dim]) {
        const int64_t index = dim < outer_dims ? rest % shape[dim] : 0;
        if (dim < outer_dims) rest /= shape[dim];
        in_full += (offset[dim] + index) * size;
        in_part += index * strides[dim];
      }
      const int64_t start = segment % segments * kSegment;
      philox_fill(from, key, in_full + start, std::min(kSegment, run - start), values + in_part + start);
    }
  };
  at::parallel_for(0, runs * segments, /*grain_size=*/std::max<int64_t>(1, kSegment / run), fill_segments);
}

}  // namespace

void fill_slice(const Distribution& from, uint64_t key, at::IntArrayRef global_shape, at::IntArrayRef offset,
                const at::Tensor& part) {
  if (part.numel() == 0) return;
  if (from.kind == Distribution::Kind::constant) {
    part.fill_(from.first);
  } else if (can_fill_in_place(part)) {
    fill_in_place(in_floats(from), key, global_shape, offset, part);
  } else {
    const at::Tensor filled = at::empty(part.sizes(), at::kFloat);
    fill_in_place(in_floats(from), key, global_shape, offset, filled);
    part.copy_(filled);
  }
  if (from.zero_row && *from.zero_row >= offset[0] && *from.zero_row < offset[0] + part.size(0))
    part.select(0, *from.zero_row - offset[0]).zero_();
}

namespace {

/// Seeds the default CPU generator for a scope and restores its state afterwards.
class SeededCpuGenerator {
 public:
  explicit SeededCpuGenerator(uint64_t seed) : generator_(at::detail::getDefaultCPUGenerator()) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
    generator_.set_current_seed(seed);
  }
  ~SeededCpuGenerator() {
    std::lock_guard lock(generator_.mutex());
    generator_.set_state(state_);
  }
  SeededCpuGenerator(const SeededCpuGenerator&) = delete;
  SeededCpuGenerator& operator=(const SeededCpuGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

void SliceInitializer::add(const at::Tensor& registered, ShardedParameter& slice) {
  slices_.emplace(registered.unsafeGetTensorImpl(), &slice);
}

void SliceInitializer::run(nn::Module& root) {
  const Binding binding({.initializer = this});
  init::reset(root);
  for (const auto& [registered, slice] : slices_) {
    if (!filled_.contains(slice))
      throw std::runtime_error("no reset_parameters() initializes " + slice->name +
                               ": pass the standard deviation of its layers to Module, or override "
                               "reset_parameters() in the class that registers it");
  }
}

ShardedParameter* SliceInitializer::take(const at::Tensor& parameter) {
  const auto found = slices_.find(parameter.unsafeGetTensorImpl());
  if (found == slices_.end()) return nullptr;
  filled_.insert(found->second);
  return found->second;
}

uint64_t SliceInitializer::make_key(const ShardedParameter& slice) const {
  return c10::util::crc64(std::to_string(seed_) + "/" + slice.name).checksum();
}

void SliceInitializer::draw(const at::Tensor& parameter,
                            const std::function<init::Distribution(at::IntArrayRef shape)>& distribution) {
  ShardedParameter* const slice = take(parameter);
  if (!slice) return;
  const at::NoGradGuard no_grad;
  const init::Distribution from = distribution(slice->global_shape);
  for (const ParameterSlice& part : slice->slices)
    fill_slice(from, make_key(*slice), slice->global_shape, part.offset, part.in_local(slice->local));
}

void SliceInitializer::fill(const at::Tensor& parameter, const std::function<void(at::Tensor& full)>& write) {
  ShardedParameter* const slice = take(parameter);
  if (!slice || slice->local.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const SeededCpuGenerator seeded(make_key(*slice));
  at::Tensor full = at::empty(slice->global_shape, at::kFloat);
  write(full);
  for (const ParameterSlice& part : slice->slices) part.in_local(slice->local).copy_(part.in_global(full));
}

}  // namespace modular
