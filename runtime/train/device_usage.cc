#include "runtime/train/device_usage.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "runtime/train/config_field.h"

namespace modular {

namespace {

/// The model of the machine's first GPU, e.g. "NVIDIA H200", as the driver reports it.
std::string gpu_name() {
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    std::ifstream in(gpu.path() / "information");
    for (std::string line; std::getline(in, line);)
      if (line.starts_with("Model:")) return line;
  }
  return {};
}

struct Peak {
  const char* name;
  double bf16, fp32;
};
constexpr Peak kPeaks[] = {{"B200", 2.25e15, 75e12},  {"H200", 989e12, 67e12},  {"H100 PCIe", 756e12, 51e12},
                           {"H100", 989e12, 67e12},   {"GH200", 989e12, 67e12}, {"A100", 312e12, 19.5e12},
                           {"L40S", 362e12, 91.6e12}, {"L4", 121e12, 30.3e12}};

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

double flops_per_token(const ModelConfig& model, int64_t parameters, int64_t seq_len) {
  int64_t layers = 0, heads = 0, head_dim = 0;
  for (const auto& field : model_fields(*model.config)) {
    const auto name = field.path.substr(field.path.rfind('.') + 1);
    int64_t value = 0;
    if (const auto* const* plain = std::get_if<int64_t*>(&field.value)) value = **plain;
    if (const auto* const* optional = std::get_if<std::optional<int64_t>*>(&field.value))
      value = (*optional)->value_or(0);
    if (name == "num_hidden_layers") layers = value;
    if (name == "num_attention_heads") heads = value;
    if (name == "head_dim") head_dim = value;
  }
  return 6.0 * static_cast<double>(parameters) + 12.0 * static_cast<double>(layers * heads * head_dim * seq_len);
}

std::optional<double> device_peak(const at::Device& device, bool bf16) {
  if (device.is_cpu()) return {};
  const auto name = gpu_name();
  for (const auto& peak : kPeaks)
    if (name.find(peak.name) != std::string::npos) return bf16 ? peak.bf16 : peak.fp32;
  return {};
}

}  // namespace modular
