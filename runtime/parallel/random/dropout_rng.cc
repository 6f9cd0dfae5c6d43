#include "runtime/parallel/random/dropout_rng.h"

#include <c10/util/ConstexprCrc.h>

#include <utility>

#include "runtime/parallel/random/mixed_bits.h"

namespace modular {

StepDropoutRng::StepDropoutRng(const nn::Module& model, uint64_t seed) : seed_(mixed(seed)) {
  for (const auto& item : model.named_modules())
    if (const auto* layer = item.value()->as<nn::DropoutImpl>())
      layer_ids_.emplace(layer, c10::util::crc64(item.key()).checksum());
}

void StepDropoutRng::before_forward(const Batch& batch, int64_t /*stage*/) {
  const Tensor& rows = batch.leading();
  TORCH_CHECK(!batch.samples.defined() || batch.samples.size(0) == rows.size(0), "a batch of ", rows.size(0),
              " rows has samples for ", batch.samples.size(0), " rows: give one sample index per row");
  position_.samples =
      batch.samples.defined() ? batch.samples.contiguous() : at::arange(rows.size(0), rows.options().dtype(at::kLong));
  position_.runs.clear();
}

std::function<void()> StepDropoutRng::save_position() {
  return [this, position = position_]() mutable { position_ = std::move(position); };
}

DropoutRng StepDropoutRng::draw(const nn::DropoutImpl& layer) {
  const auto id = layer_ids_.find(&layer);
  TORCH_INTERNAL_ASSERT(id != layer_ids_.end(), "a dropout layer that is not registered in the model was called");
  const uint64_t run = position_.runs[&layer]++;
  return {.samples = position_.samples, .key = mixed(mixed(seed_ ^ id->second) + run), .p = layer.p};
}

}  // namespace modular
