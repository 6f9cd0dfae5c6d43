#include "runtime/train/device_usage.h"

#include <sys/resource.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "runtime/config/config_field.h"
#include "runtime/config/known_devices.h"
#include "runtime/mesh/libraries.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {
namespace {

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";

}  // namespace

std::string deterministic_error() {
  const char* const workspace = std::getenv(kWorkspace);
  if (!workspace || std::string_view(workspace) == ":4096:8" || std::string_view(workspace) == ":16:8") return {};
  return fmt::format(
      "train.deterministic: {} is \"{}\", with which cuBLAS does not repeat its results: unset it, or set it to "
      ":4096:8",
      kWorkspace, workspace);
}

void be_deterministic(const at::Device& device) {
  if (device.is_cpu()) return;
  setenv(kWorkspace, ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // nothing here reads uninitialized memory
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kInAll = 0.025, kTooShort = 0.001;  // seconds; below the latter, threads cost more than they compute
constexpr int64_t kFirst = 512, kLargest = 2048;

double measured(at::ScalarType type) {
  const c10::InferenceMode without_graph;
  const auto begin = Clock::now();
  const auto since = [](Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); };
  double rate = 0.0;
  for (int64_t size = kFirst; size <= kLargest; size *= 2) {
    const at::Tensor left = at::full({size, size}, 0.5, type), right = at::full({size, size}, 0.25, type);
    at::mm(left, right);  // the first call also creates threads and kernels
    double least = std::numeric_limits<double>::infinity();
    do {
      const auto start = Clock::now();
      at::mm(left, right);  // models do not call mm_out, which may use another library
      least = std::min(least, since(start));
    } while (least >= kTooShort && since(begin) < kInAll);
    const auto n = static_cast<double>(size);
    rate = std::max(rate, 2.0 * n * n * n / least);
    if (since(begin) >= kInAll) break;
  }
  return rate;
}

}  // namespace

double matrix_rate(bool bf16) {
  if (bf16) {
    static const double rate = measured(at::kBFloat16);
    return rate;
  }
  static const double rate = measured(at::kFloat);
  return rate;
}

ParameterCounts count_parameters(const ModelConfig& network, const ParallelOptions& options) {
  const Model model = build_on_meta(*network.entry, *network.config);
  ParameterTable table = parameter_table(*model.module, *network.entry->plan, *network.config, /*stages=*/{});
  freeze(table.parameters, options.frozen, options.trained);
  ParameterCounts counts;
  for (const ModelParameter& parameter : table.parameters) {
    const int64_t elements_of_all = c10::multiply_integers(parameter.global_shape);
    counts.all += elements_of_all;
    if (parameter.trainable) counts.trained += elements_of_all;
    for (const int64_t elements : parameter.multiplied) counts.multiplied += elements;
  }
  return counts;
}

namespace {

/// The first of these integers in the model's config; 0 if it has none of them.
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
  const int64_t layers = get_count(model, {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"}),
                heads = get_count(model,
                                  {"num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"}),
                head_dim = get_count(model, {"head_dim", "d_kv"}),
                width = head_dim > 0 ? heads * head_dim : get_count(model, {"hidden_size", "n_embd", "d_model", "dim"});
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
