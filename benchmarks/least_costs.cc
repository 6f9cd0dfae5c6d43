#include "benchmarks/least_costs.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace modular {
namespace {

using at::Tensor;

/// Bytes of the tensor's values; expanded dimensions count once.
double get_bytes(const Tensor& tensor) {
  if (!tensor.defined()) return 0.0;
  auto count = static_cast<double>(tensor.element_size());
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension)
    if (tensor.stride(dimension) != 0 || tensor.size(dimension) == 0)
      count *= static_cast<double>(tensor.size(dimension));
  return count;
}

void add_tensors(const c10::IValue& value, std::vector<Tensor>& tensors) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) tensors.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
  }
}

std::vector<Tensor> find_tensors(Values values) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& value : values) add_tensors(value, tensors);
  return tensors;
}

double get_bytes(const c10::IValue& value) {
  std::vector<Tensor> tensors;
  add_tensors(value, tensors);
  double bytes = 0.0;
  for (const Tensor& tensor : tensors) bytes += get_bytes(tensor);
  return bytes;
}

double get_bytes(Values values) {
  double bytes = 0.0;
  for (const c10::IValue& value : values) bytes += get_bytes(value);
  return bytes;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Cost of left [..., rows, in] times right [..., in, out].
Cost count_matmul(const Tensor& left, const Tensor& right, double added_bytes = 0.0) {
  const auto results = static_cast<double>(left.numel() / left.size(-1) * right.size(-1));
  return {
      .flops = 2.0 * results * static_cast<double>(left.size(-1)),
      .bytes = get_bytes(left) + get_bytes(right) + results * static_cast<double>(left.element_size()) + added_bytes,
      .bf16 = left.scalar_type() == at::kBFloat16};
}

std::optional<Cost> count_matmul(std::string_view name, Values inputs) {
  if (is_one_of(name, {"mm", "bmm"})) return count_matmul(inputs[0].toTensor(), inputs[1].toTensor());
  if (is_one_of(name, {"addmm", "baddbmm"}))
    return count_matmul(inputs[1].toTensor(), inputs[2].toTensor(), get_bytes(inputs[0]));
  if (is_one_of(name, {"mkldnn_linear", "_linear_pointwise"}))
    return count_matmul(inputs[0].toTensor(), inputs[1].toTensor().t(), get_bytes(inputs[2]));
  if (name == "convolution") {  // non-overlapping kernels, such as those of patches
    const Tensor &x = inputs[0].toTensor(), &weight = inputs[1].toTensor();
    double positions = static_cast<double>(x.size(0));
    const auto strides = inputs[3].toIntVector();
    for (int64_t dimension = 2; dimension < x.dim(); ++dimension)
      positions *= static_cast<double>(x.size(dimension) / strides[static_cast<size_t>(dimension - 2)]);
    return Cost{.flops = 2.0 * positions * static_cast<double>(weight.numel()),
                .bytes = get_bytes(x) + get_bytes(weight) +
                         positions * static_cast<double>(weight.size(0) * weight.element_size()),
                .bf16 = x.scalar_type() == at::kBFloat16};
  }
  if (name == "convolution_backward") {
    const Tensor &grad = inputs[0].toTensor(), &x = inputs[1].toTensor(), &weight = inputs[2].toTensor();
    const auto mask = inputs[inputs.size() - 1].toBoolList();
    const double matmuls = (mask[0] ? 1.0 : 0.0) + (mask[1] ? 1.0 : 0.0);
    return Cost{.flops = matmuls * 2.0 * static_cast<double>(grad.numel() * (weight.numel() / weight.size(0))),
                .bytes = get_bytes(grad) + matmuls * (get_bytes(x) + get_bytes(weight)),
                .bf16 = x.scalar_type() == at::kBFloat16};
  }
  return {};
}

struct Fused {
  Cost forward, backward;
};

/// Cost of attention of query [batch, heads, seq, head_dim] over key and value [batch, key heads, keys, head_dim]: two
/// matmuls in the forward, four in the backward, of which a causal mask leaves half.
Fused count_attention(Values inputs) {
  const Tensor &query = inputs[0].toTensor(), &key = inputs[1].toTensor();
  const auto seq = static_cast<double>(query.size(2));
  const double seen = inputs[3].toBool() ? (seq + 1.0) / (2.0 * seq) : 1.0;
  const double matmul = 2.0 * static_cast<double>(query.numel() * key.size(2)) * seen;
  const double operands = get_bytes(inputs[0]) + get_bytes(inputs[1]) + get_bytes(inputs[2]), output = get_bytes(query);
  const bool bf16 = query.scalar_type() == at::kBFloat16;
  return {.forward = {.flops = 2.0 * matmul, .bytes = operands + output, .bf16 = bf16},
          .backward = {.flops = 4.0 * matmul, .bytes = 2.0 * operands + 2.0 * output, .bf16 = bf16}};
}

/// Number of times that the forward and the backward of each fused function read or write a tensor of the first input's
/// size.
const std::map<std::string_view, std::pair<int, int>> kPasses = {{"RmsNorm", {2, 3}},      {"GatedActivation", {3, 5}},
                                                                 {"QuickGelu", {2, 3}},    {"Rotary", {2, 2}},
                                                                 {"CrossEntropy", {1, 2}}, {"Dropout", {2, 2}}};

std::map<std::string, std::vector<Cost>, std::less<>> forwards;

std::optional<Cost> count_fused(std::string_view name, Values inputs) {
  if (name == "AttentionWithBiases") name = "Attention";
  const auto passes = kPasses.find(name);
  if (passes == kPasses.end() && name != "Attention") return {};
  if (inputs.empty()) return Cost();
  Fused fused;
  if (name == "Attention") {
    fused = count_attention(inputs);
  } else {
    const double once = get_bytes(inputs[0]);
    fused.forward.bytes = passes->second.first * once, fused.backward.bytes = passes->second.second * once;
  }
  forwards[std::string(name)].push_back(fused.backward);
  return fused.forward;
}

std::optional<Cost> count_fused_backward(std::string_view node) {
  const auto waiting = forwards.find(node == "AttentionWithBiases" ? "Attention" : node);
  if (waiting == forwards.end() || waiting->second.empty()) return {};
  const Cost cost = waiting->second.back();
  waiting->second.pop_back();
  return cost;
}

}  // namespace

std::string_view short_name(std::string_view name) {
  if (name.ends_with('>')) name.remove_suffix(1);  // torch::autograd::CppNode<modular::(anonymous namespace)::RmsNorm>
  const size_t colon = name.rfind(':');
  return colon == name.npos ? name : name.substr(colon + 1);
}

std::optional<Cost> cost_by_name(std::string_view name, Values inputs) {
  const std::string_view what = short_name(name);
  if (name.find("CppNode<modular") != name.npos) return count_fused_backward(what);
  if (name.starts_with("modular::")) return count_fused(what, inputs);
  if (const auto matmul = count_matmul(what, inputs)) return matmul;
  if (what == "_fused_adamw_") {  // reads parameters, gradients and two moments; writes all but the gradients
    const double gradients = get_bytes(inputs[1]);
    return Cost{.bytes = 2.0 * get_bytes(inputs.first(4)) - gradients};
  }
  if (what == "_foreach_mul_") return Cost{.bytes = 2.0 * get_bytes(inputs[0])};
  if (is_one_of(what, {"_foreach_norm", "linalg_vector_norm", "sum", "mean"}))
    return Cost{.bytes = get_bytes(inputs[0])};
  if (what == "copy_") return Cost{.bytes = get_bytes(inputs[0]) + get_bytes(inputs[1])};
  if (is_one_of(what, {"zero_", "fill_"})) return Cost{.bytes = get_bytes(inputs[0])};
  if (is_one_of(what, {"cat", "gelu"})) return Cost{.bytes = 2.0 * get_bytes(inputs[0])};
  if (what == "gelu_backward") return Cost{.bytes = 3.0 * get_bytes(inputs[0])};
  if (what == "native_layer_norm") return Cost{.bytes = 2.0 * get_bytes(inputs[0])};
  if (what == "native_layer_norm_backward") return Cost{.bytes = 3.0 * get_bytes(inputs[0])};
  if (what == "embedding") {
    const Tensor& table = inputs[0].toTensor();
    const auto row = static_cast<double>(table.size(-1) * table.element_size());
    return Cost{.bytes = 2.0 * row * static_cast<double>(inputs[1].toTensor().numel())};
  }
  if (what == "embedding_dense_backward") {
    const Tensor& grad = inputs[0].toTensor();
    const auto row = static_cast<double>(grad.size(-1) * grad.element_size());
    return Cost{.bytes = get_bytes(grad) + row * static_cast<double>(inputs[2].toInt())};
  }
  return {};
}

void forget_forwards() { forwards.clear(); }

Cost cost_by_values(std::string_view name, Values inputs, Values outputs) {
  if (short_name(name).starts_with("empty")) return {};
  const auto read = find_tensors(inputs);
  const auto written = find_tensors(outputs);
  const bool in_place = name.ends_with('_');
  const bool is_view = !in_place && std::ranges::any_of(written, [&](const Tensor& output) {
    return std::ranges::any_of(read, [&](const Tensor& input) {
      return input.has_storage() && output.has_storage() && input.is_alias_of(output);
    });
  });
  if (is_view || (read.empty() && !in_place)) return {};
  return {.bytes = get_bytes(inputs) + get_bytes(outputs)};
}

}  // namespace modular
