// The fused operations as differentiable functions. Each is a single autograd node with a hand-written backward, which
// saves only the tensors that the backward needs.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/record_function.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <optional>

#include "runtime/model/attention.h"
#include "runtime/model/functions.h"
#include "runtime/model/state_space.h"
#include "runtime/ops/cpu/operations.h"
#include "runtime/ops/cpu/replacements.h"
#include "runtime/ops/float8.h"
#include "runtime/ops/fused.h"
#include "runtime/ops/linear.h"
#include "runtime/ops/operations.h"
#include "runtime/ops/replace_kernels.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

void throw_second_derivative() {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "fused functions have no second derivative: use the plain ATen forms, or create_graph=false");
}

bool is_fusable(const Tensor& tensor) {
  return tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kBFloat16;
}

bool same_type_and_device(const Tensor& left, const Tensor& right) {
  return left.scalar_type() == right.scalar_type() && left.device() == right.device();
}

bool is_scale_for(const Tensor& weight, const Tensor& x) {
  return same_type_and_device(weight, x) || (weight.scalar_type() == at::kFloat && weight.device() == x.device());
}

/// The inputs that a profiler records for a function; created only if a profiler asks for them.
template <class... Values>
std::array<const c10::IValue, sizeof...(Values)> recorded(const Values&... values) {
  return {c10::IValue(values)...};
}

struct RmsNorm : Function<RmsNorm> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight, double eps) {
    auto [y, inverse_rms] = operations_for(x.device())->rms_norm(x, weight, eps);
    context->save_for_backward({x, weight, inverse_rms});
    return y;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const auto saved = context->get_saved_variables();
    auto [dx, dweight] = operations_for(saved[0].device())->rms_norm_backward(grads[0], saved[0], saved[1], saved[2]);
    return {dx, dweight, {}};
  }
};

struct GatedActivation : Function<GatedActivation> {
  static Tensor forward(AutogradContext* context, const Tensor& gate, const Tensor& up, int64_t gate_function) {
    context->save_for_backward({gate, up});
    context->saved_data["gate_function"] = gate_function;
    return operations_for(gate.device())->gated(static_cast<Gate>(gate_function), gate, up);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const auto saved = context->get_saved_variables();
    const auto function = static_cast<Gate>(context->saved_data["gate_function"].toInt());
    auto [dgate, dup] = operations_for(saved[0].device())->gated_backward(function, grads[0], saved[0], saved[1]);
    return {dgate, dup, {}};
  }
};

struct QuickGelu : Function<QuickGelu> {
  static Tensor forward(AutogradContext* context, const Tensor& x) {
    context->save_for_backward({x});
    return operations_for(x.device())->quick_gelu(x);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const Tensor x = context->get_saved_variables()[0];
    return {operations_for(x.device())->quick_gelu_backward(grads[0], x)};
  }
};

struct Rotary : Function<Rotary> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin) {
    context->save_for_backward({cos, sin});
    return operations_for(x.device())->rotary(x, cos, sin, /*inverse=*/false);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const auto saved = context->get_saved_variables();
    return {operations_for(grads[0].device())->rotary(grads[0], saved[0], saved[1], /*inverse=*/true), {}, {}};
  }
};

/// Whether only the node that saved `tensor`, and the caller that unpacked it, can read its memory.
bool is_held_only_by_graph(const Tensor& tensor) { return tensor.use_count() <= 2 && has_exclusive_memory(tensor); }

/// The same memory as a tensor that is not a view: views keep their base alive.
Tensor alias_without_view(const Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return tensor.detach();
}

struct CrossEntropy : Function<CrossEntropy> {
  static Tensor forward(AutogradContext* context, const Tensor& logits, const Tensor& targets) {
    auto [loss_sum, log_sum_exp] = operations_for(logits.device())->cross_entropy(logits, targets);
    context->save_for_backward({logits, targets, log_sum_exp});
    return loss_sum;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const auto saved = context->get_saved_variables();
    // Logits are the largest tensors of a step. If nothing else references them and this backward is the last of the
    // graph, their gradient is written in place.
    const Tensor& logits = saved[0];
    const bool is_in_rows = logits.is_contiguous() || (logits.is_cuda() && has_rows_in_memory(logits));
    const bool last_reader =
        is_in_rows && is_held_only_by_graph(logits) && !torch::autograd::get_current_graph_task_keep_graph();
    const Tensor gradient =
        last_reader ? alias_without_view(logits) : at::empty_like(logits, at::MemoryFormat::Contiguous);
    operations_for(logits.device())->cross_entropy_backward(grads[0], logits, saved[1], saved[2], gradient);
    return {gradient, {}};
  }
};

struct DecayBetween : Function<DecayBetween> {
  static Tensor forward(AutogradContext* context, const Tensor& steps) {
    const Tensor decay = operations_for(steps.device())->decay_between(steps);
    context->save_for_backward({decay});
    return decay;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const Tensor decay = context->get_saved_variables()[0];
    return {operations_for(decay.device())->decay_between_backward(grads[0], decay)};
  }
};

/// A node saves the RNG state as a tensor and these numbers.
c10::IValue to_numbers(const DropoutRng& rng) {
  return c10::ivalue::Tuple::create({static_cast<int64_t>(rng.key), rng.p, rng.part, rng.first_row});
}
DropoutRng to_dropout_rng(const Tensor& samples, const c10::IValue& numbers) {
  const auto& element = numbers.toTupleRef().elements();
  return {samples, static_cast<uint64_t>(element[0].toInt()), element[1].toDouble(), element[2].toInt(),
          element[3].toInt()};
}

struct Attention : Function<Attention> {
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        const std::optional<Tensor>& given_biases, const AttentionMask& mask, double scale,
                        const DropoutRng* rng) {
    const Tensor biases = given_biases.value_or(Tensor());
    auto [output, normalizer] = operations_for(query.device())->attention(query, key, value, mask, biases, scale, rng);
    context->save_for_backward(
        {query, key, value, mask.padding, mask.documents, output, normalizer, rng ? rng->samples : Tensor(), biases});
    context->saved_data["causal"] = mask.causal;
    context->saved_data["reach"] = mask.reach;
    context->saved_data["scale"] = scale;
    if (rng) context->saved_data["rng"] = to_numbers(*rng);
    return output;
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const auto saved = context->get_saved_variables();
    const AttentionMask mask = {context->saved_data["causal"].toBool(),
                                context->saved_data["reach"].toOptional<int64_t>(), saved[3], saved[4]};
    std::optional<DropoutRng> rng;
    if (saved[7].defined()) rng = to_dropout_rng(saved[7], context->saved_data["rng"]);
    auto [dquery, dkey, dvalue, dbiases] =
        operations_for(saved[0].device())
            ->attention_backward(grads[0], saved[0], saved[1], saved[2], mask, saved[8],
                                 saved[8].defined() && context->needs_input_grad(3),
                                 context->saved_data["scale"].toDouble(), rng ? &*rng : nullptr, saved[5], saved[6]);
    return {dquery, dkey, dvalue, dbiases, {}, {}, {}};
  }
};

struct Dropout : Function<Dropout> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const DropoutRng& rng) {
    context->save_for_backward({rng.samples});
    context->saved_data["rng"] = to_numbers(rng);
    return operations_for(x.device())->dropout(x, rng);
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    throw_second_derivative();
    const DropoutRng rng = to_dropout_rng(context->get_saved_variables()[0], context->saved_data["rng"]);
    return {operations_for(grads[0].device())->dropout(grads[0], rng), {}};
  }
};

Tensor fused_rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (!operations_for(x.device()) || !is_fusable(x) || !is_scale_for(weight, x) || x.dim() == 0 || weight.dim() != 1 ||
      weight.size(0) != x.size(-1))
    return plain::rms_norm(x, weight, eps);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::RmsNorm", recorded(x, weight));
  return RmsNorm::apply(x, weight, eps);
}

Tensor fused_gated_activation(std::string_view name, const Tensor& gate, const Tensor& up) {
  const bool is_silu = name == "silu" || name == "swish",
             is_gelu_tanh = name == "gelu_pytorch_tanh" || name == "gelu_new";
  if (!operations_for(gate.device()) || !is_fusable(gate) || !same_type_and_device(gate, up) ||
      gate.sizes() != up.sizes() || !(is_silu || is_gelu_tanh))
    return plain::gated_activation(name, gate, up);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::GatedActivation", recorded(gate, up));
  return GatedActivation::apply(gate, up, static_cast<int64_t>(is_silu ? Gate::silu : Gate::gelu_tanh));
}

Tensor fused_quick_gelu(const Tensor& x) {
  const Operations* operations = operations_for(x.device());
  if (!operations || !operations->quick_gelu || !is_fusable(x) || x.numel() == 0) return plain::quick_gelu(x);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::QuickGelu", recorded(x));
  return QuickGelu::apply(x);
}

Tensor fused_rotary(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const bool fits = x.dim() == 4 && cos.dim() == 3 && cos.sizes() == sin.sizes() && cos.size(1) == x.size(2) &&
                    cos.size(2) == x.size(3) && x.size(3) % 2 == 0 && (cos.size(0) == 1 || cos.size(0) == x.size(0));
  if (!operations_for(x.device()) || !is_fusable(x) || !same_type_and_device(x, cos) || !same_type_and_device(x, sin) ||
      !fits || cos.requires_grad() || sin.requires_grad())
    return plain::rotary(x, cos, sin);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::Rotary", recorded(x, cos, sin));
  return Rotary::apply(x, cos, sin);
}

Tensor fused_cross_entropy(const Tensor& logits, const Tensor& targets) {
  if (!operations_for(logits.device()) || !is_fusable(logits) || targets.scalar_type() != at::kLong ||
      targets.device() != logits.device() || logits.dim() != targets.dim() + 1 || logits.size(-1) == 0)
    return plain::cross_entropy(logits, targets);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::CrossEntropy", recorded(logits, targets));
  return CrossEntropy::apply(logits.flatten(0, -2), targets.flatten());
}

/// Whether attention has a fused form for these queries, keys and values.
bool is_attention_fusable(const Tensor& query, const Tensor& key, const Tensor& value) {
  const Operations* operations = operations_for(query.device());
  return operations && operations->attention && is_fusable(query) && same_type_and_device(query, key) &&
         same_type_and_device(query, value) && query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes() &&
         query.numel() > 0 && key.numel() > 0 && key.size(0) == query.size(0) && key.size(3) == query.size(3) &&
         query.size(1) % key.size(1) == 0;
}

/// Fewer queries than this that are the last of longer keys, as in token-by-token generation, use libtorch's attention:
/// they would leave most of a block empty. With dropout, which is slow without the kernels, they do not.
constexpr int64_t kFewestLastQueries = 32;

Tensor fused_attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask,
                       double scale, const DropoutRng* rng) {
  const auto fits = [&] {
    const int64_t batch = query.size(0), seq = query.size(2), keys = key.size(2);
    const auto fits_keys = [&](const Tensor& part, at::ScalarType type) {
      return !part.defined() || (part.scalar_type() == type && part.device() == query.device() && part.dim() == 2 &&
                                 (part.size(0) == 1 || part.size(0) == batch) && part.size(1) == keys);
    };
    const bool fits_cpu = keys == seq || (keys > seq && (rng || seq >= kFewestLastQueries));
    const bool fits_gpu = keys == seq && (!rng || rng->first_row == 0);  // kernels count queries and keys from 0
    return (query.is_cpu() ? fits_cpu : fits_gpu) && fits_keys(mask.padding, at::kBool) &&
           fits_keys(mask.documents, at::kLong);
  };
  if (!is_attention_fusable(query, key, value) || !fits())
    return rng ? plain::attention_dropping(query, key, value, mask, scale, std::nullopt, *rng)
               : plain::attention(query, key, value, mask, scale);
  // The kernels assume that a query's largest dot product gives its largest score.
  if (scale < 0.0) return fused_attention(query.neg(), key, value, mask, -scale, rng);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::Attention", recorded(query, key, value, mask.causal));
  return Attention::apply(query, key, value, std::optional<Tensor>(), mask, scale, rng);
}

Tensor fused_attention_with_biases(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& biases,
                                   double scale, const DropoutRng* rng) {
  if (!is_attention_fusable(query, key, value) || biases.device() != query.device() || biases.dim() != 4 ||
      !at::isFloatingType(biases.scalar_type()))
    return {};
  const int64_t batch = query.size(0), seq = query.size(2), keys = key.size(2);
  // In token-by-token generation most of a block of queries would be empty.
  if (!at::GradMode::is_enabled() && seq < keys) return {};
  if (rng && rng->first_row > 0 && !query.is_cpu()) return {};  // GPU kernels count queries from 0
  const auto fits = [&](int64_t dimension, int64_t size) {
    return biases.size(dimension) == 1 || biases.size(dimension) == size;
  };
  if (!fits(0, batch) || !fits(1, query.size(1)) || !fits(2, seq) || biases.size(3) != keys) return {};
  RECORD_USER_SCOPE_WITH_INPUTS("modular::AttentionWithBiases", recorded(query, key, value, false, biases));
  return Attention::apply(query, key, value, std::optional(biases.to(at::kFloat)), AttentionMask(), scale, rng);
}

Tensor fused_dropout(const Tensor& x, const DropoutRng& rng) {
  const Operations* operations = operations_for(x.device());
  if (!operations || !operations->dropout || !is_fusable(x) || x.numel() == 0) return plain::dropout(x, rng);
  RECORD_USER_SCOPE_WITH_INPUTS("modular::Dropout", recorded(x));
  return Dropout::apply(x, rng);
}

Tensor fused_decay_between(const Tensor& steps) {
  const Operations* operations = operations_for(steps.device());
  if (!operations || !operations->decay_between || steps.scalar_type() != at::kFloat || steps.dim() == 0)
    return plain::decay_between(steps);
  RECORD_USER_SCOPE("modular::DecayBetween");
  return DecayBetween::apply(steps);
}

using OperationsOfLibrary = const Operations* (*)();

/// The entry point of libmodular_cuda, once that library is loaded: there are no CUDA tensors before.
OperationsOfLibrary cuda_library_operations() {
  return reinterpret_cast<OperationsOfLibrary>(dlsym(RTLD_DEFAULT, "modular_cuda_operations"));
}

const Operations* cuda_operations() {
  static const Operations* const operations = [] {
    const auto function = cuda_library_operations();
    return function ? function() : nullptr;
  }();
  return operations;
}

}  // namespace

const Operations* operations_for(const at::Device& device) {
  if (device.is_cpu()) return &cpu_operations();
  return device.is_cuda() ? cuda_operations() : nullptr;
}

void install_fused_functions() {
  cpu::install_gemm();
  cpu::install_embedding();
  cpu::install_activations();
  cpu::install_sums();
  cpu::install_layer_norm();
  cpu::install_patches();
  install_linear();
  // Reading the table installs the replacements of libtorch's own GPU kernels. If the library is loaded later, they are
  // installed when a fused function first gets a CUDA tensor.
  if (cuda_library_operations()) cuda_operations();
  fused.rms_norm = fused_rms_norm;
  fused.gated_activation = fused_gated_activation;
  fused.quick_gelu = fused_quick_gelu;
  fused.rotary = fused_rotary;
  fused.attention = fused_attention;
  fused.attention_with_biases = fused_attention_with_biases;
  fused.cached_attention = cpu::cached_attention;
  fused.dropout = fused_dropout;
  fused.cross_entropy = fused_cross_entropy;
  fused.float8_linear = float8_linear;
  fused.decay_between = fused_decay_between;
}

}  // namespace modular
