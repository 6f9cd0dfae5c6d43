#include "runtime/parallel/random/initialization.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/ConstexprCrc.h>

#include <mutex>
#include <utility>

#include "runtime/parallel/random/fill_slice.h"

namespace modular {
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
                               ": the class that registers it must do so through init::");
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
