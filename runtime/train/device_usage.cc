#include "runtime/train/device_usage.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <algorithm>
#include <initializer_list>

#include "runtime/config/config_field.h"
#include "runtime/config/known_devices.h"
#include "runtime/mesh/cuda_library.h"

namespace modular {

namespace {

/// The first of these integers that the model's own config has; 0 where it has none of them.
int64_t get_count(const ModelConfig& model, std::initializer_list<std::string_view> names) {
  const auto fields = model_fields(*model.config);
  for (const std::string_view name : names)
    for (const auto& field : fields) {
      if (field.path != "model.config." + std::string(name)) continue;
      if (const auto* const* plain = std::get_if<int64_t*>(&field.value)) return **plain;
      if (const auto* const* optional = std::get_if<std::optional<int64_t>*>(&field.value); optional && **optional)
        return ***optional;
    }
  return 0;
}

}  // namespace

int64_t memory_peak(const at::Device& device) {
  if (!device.is_cpu()) {
    const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
    return stats.allocated_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)].peak;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::optional<double> flops_per_row(const ModelConfig& model, int64_t parameters, int64_t tokens) {
  const auto fields = model_fields(*model.config);
  if (std::ranges::any_of(fields, [](const auto& field) { return field.path.ends_with("_config.hidden_size"); }))
    return {};
  const int64_t patch = get_count(model, {"patch_size"});
  const int64_t side = patch > 0 ? get_count(model, {"image_size"}) / patch : 0;
  const int64_t positions = side > 0 ? side * side + 1 : tokens;
  const int64_t layers = get_count(model, {"num_hidden_layers", "n_layer", "num_layers"}),
                heads = get_count(model, {"num_attention_heads", "n_head", "num_heads"}),
                head_dim = get_count(model, {"head_dim", "d_kv"}),
                width = head_dim > 0 ? heads * head_dim : get_count(model, {"hidden_size", "n_embd", "d_model"});
  return static_cast<double>(positions) *
         (6.0 * static_cast<double>(parameters) + 12.0 * static_cast<double>(layers * width * positions));
}

std::optional<double> peak_of_make(std::string_view make, bool bf16) {
  const KnownDevice* const device = device_by_make(make);
  if (!device) return {};
  return bf16 ? device->bf16 : device->fp32;
}

std::optional<double> device_peak(const at::Device& device, bool bf16) {
  if (!device.is_cuda()) return {};
  return peak_of_make(cuda_library().device_model(device), bf16);
}

}  // namespace modular
