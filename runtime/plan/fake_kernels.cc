#include "runtime/plan/fake_rank.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/TypeProperties.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/ops/cpu/kernels.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

using at::Tensor;
using c10::IValue;
using JitStack = torch::jit::Stack;

// Below autograd, which still builds its graphs, and above all kernels. Nothing else uses this key.
constexpr auto kFake = c10::DispatchKey::Fake;

/// Double-precision tensors of at most this size are computed: sums of counts and losses.
constexpr int64_t kFew = 4096;

bool is_real(const Tensor& tensor) {
  return !at::isFloatingType(tensor.scalar_type()) || (tensor.scalar_type() == at::kDouble && tensor.numel() <= kFew);
}

/// Whether only arithmetic reads the operator's integer and boolean results: the words of dropout, and masks of
/// attention.
bool is_large_arithmetic(const c10::OperatorHandle& op, const std::vector<Tensor>& operands) {
  constexpr int64_t kManyWords = int64_t{1} << 16, kMany = int64_t{1} << 24;
  const std::string_view name = op.schema().name();
  const bool is_bitwise = name.starts_with("aten::bitwise_"),
             makes_masks = name == "aten::fill_" || name == "aten::tril" || name == "aten::triu";
  return (op.hasTag(at::Tag::pointwise) || makes_masks) && std::ranges::any_of(operands, [=](const Tensor& tensor) {
           return tensor.numel() >= (is_bitwise && tensor.scalar_type() == at::kLong ? kManyWords : kMany);
         });
}

/// Calls visit(tensor) for each defined tensor in `value`.
template <class Visit>
void for_each_tensor_in(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector())
      if (tensor.defined()) visit(tensor);
  } else if (value.isList()) {
    for (const IValue& element : value.toListRef()) for_each_tensor_in(element, visit);
  }
}

/// `value` with each tensor replaced by change(tensor).
template <class Change>
IValue with_tensors(const IValue& value, const Change& change) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(change(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : value.toTensorVector()) list.push_back(tensor.defined() ? change(tensor) : tensor);
    return list;
  }
  if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<Tensor>> list;
    for (const IValue& element : value.toListRef())
      list.push_back(element.isTensor() ? std::optional(change(element.toTensor())) : std::nullopt);
    return list;
  }
  return value;
}

Tensor on_meta(const Tensor& tensor) {
  Tensor meta = at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

Tensor in_memory(const Tensor& meta) {
  return at::detail::empty_strided_cpu(meta.sizes(), meta.strides(), meta.scalar_type());
}

Tensor empty(at::IntArrayRef sizes, at::ScalarType type) { return at::detail::empty_cpu(sizes, type); }

// Result shapes of operations whose meta kernels libtorch only has in Python. `arguments` are the operator's.

JitStack layer_norm(const JitStack& arguments) {
  const Tensor x = arguments[0].toTensor();
  const auto normalized = static_cast<int64_t>(arguments[1].toDimVector().size());
  std::vector<int64_t> statistics = x.sizes().vec();
  std::fill(statistics.end() - normalized, statistics.end(), 1);
  const bool mixed = arguments[2].isTensor() && arguments[2].toTensor().defined() &&
                     arguments[2].toTensor().scalar_type() != x.scalar_type();
  // runtime/ops keeps the statistics of bfloat16 inputs in float32.
  const auto type = mixed || x.scalar_type() == at::kBFloat16 ? at::kFloat : x.scalar_type();
  return {empty(x.sizes(), x.scalar_type()), empty(statistics, type), empty(statistics, type)};
}

/// Gradients of the arguments at `indices` that the bool list at `mask` requests.
JitStack gradients(const JitStack& arguments, const std::vector<size_t>& indices, size_t mask) {
  const auto wanted = arguments[mask].toBoolList();
  JitStack results;
  for (size_t i = 0; i < indices.size(); ++i) {
    const IValue& value = arguments[indices[i]];
    const bool has = wanted.get(i) && value.isTensor() && value.toTensor().defined();
    results.emplace_back(has ? empty(value.toTensor().sizes(), value.toTensor().scalar_type()) : Tensor());
  }
  return results;
}

JitStack convolution_backward(const JitStack& arguments) {
  JitStack results = gradients(arguments, {1, 2}, 10);
  const Tensor weight = arguments[2].toTensor();
  results.emplace_back(arguments[10].toBoolList().get(2) ? empty({weight.size(0)}, weight.scalar_type()) : Tensor());
  return results;
}

JitStack convolution(const JitStack& arguments) {
  const Tensor x = arguments[0].toTensor(), weight = arguments[1].toTensor();
  TORCH_CHECK(!arguments[6].toBool(), "run plans do not support transposed convolutions");
  const auto sizes = at::native::conv_output_size(x.sizes(), weight.sizes(), arguments[4].toDimVector(),
                                                  arguments[3].toDimVector(), arguments[5].toDimVector());
  return {empty(sizes, x.scalar_type())};
}

JitStack index_select(const JitStack& arguments) {
  const Tensor x = arguments[0].toTensor();
  std::vector<int64_t> sizes = x.sizes().vec();
  if (!sizes.empty())
    sizes[static_cast<size_t>(at::maybe_wrap_dim(arguments[1].toInt(), x.dim()))] = arguments[2].toTensor().numel();
  return {empty(sizes, x.scalar_type())};
}

JitStack embedding_backward(const JitStack& arguments) {
  const Tensor gradient = arguments[0].toTensor();
  return {empty({arguments[2].toInt(), gradient.size(-1)}, gradient.scalar_type())};
}

/// Positions before heads in memory, like the results of libtorch's CPU attention.
Tensor by_position(const Tensor& like) {
  return empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.scalar_type()).transpose(1, 2);
}

JitStack attention(const JitStack& arguments) {
  const Tensor query = arguments[0].toTensor();
  return {by_position(query), empty({query.size(0), query.size(2), query.size(1)}, at::kFloat).transpose(1, 2)};
}

JitStack attention_backward(const JitStack& arguments) {
  return {by_position(arguments[1].toTensor()), by_position(arguments[2].toTensor()),
          by_position(arguments[3].toTensor())};
}

using Shapes = JitStack (*)(const JitStack& arguments);
const std::map<std::string_view, Shapes> kShapes = {
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_layer_norm_backward", [](const JitStack& given) { return gradients(given, {1, 5, 6}, 7); }},
    {"aten::convolution", convolution},
    {"aten::convolution_backward", convolution_backward},
    {"aten::index_select", index_select},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
};

/// Result of an element-wise operation: the common shape and type.
JitStack elementwise(const std::vector<Tensor>& operands) {
  std::vector<int64_t> sizes;
  at::native::ResultTypeState types;
  for (const Tensor& tensor : operands) {
    sizes = at::infer_size(sizes, tensor.sizes());
    types = at::native::update_result_type_state(tensor, types);
  }
  return {empty(sizes, at::native::result_type(types))};
}

/// Copies that element-wise operations on the CPU make in addition to their results: operands of other floating types
/// are converted.
std::vector<Tensor> converted(const std::vector<Tensor>& operands) {
  std::optional<at::ScalarType> common;
  for (const Tensor& tensor : operands)
    if (tensor.dim() > 0 && at::isFloatingType(tensor.scalar_type()))
      common = common ? c10::promoteTypes(*common, tensor.scalar_type()) : tensor.scalar_type();
  std::vector<Tensor> copies;
  for (const Tensor& tensor : operands)
    if (common && tensor.dim() > 0 && at::isFloatingType(tensor.scalar_type()) && tensor.scalar_type() != *common)
      copies.push_back(empty(tensor.sizes(), *common));
  return copies;
}

bool is_metadata_only(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  if (name.starts_with("aten::empty") || name.starts_with("aten::new_empty") || name.starts_with("aten::resize") ||
      name.starts_with("aten::set_"))
    return true;
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() && !result.alias_info()->isWrite();
  };
  return std::ranges::any_of(schema.returns(), is_view);
}

/// Runs the operator unchanged.
void compute(const c10::OperatorHandle& op, JitStack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard outside(kFake);
  op.callBoxed(stack);
}

/// Runs the operator on the meta device; nullopt if it needs values there, or is unknown.
std::optional<JitStack> results_on_meta(const c10::OperatorHandle& op, const JitStack& arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return {};
  JitStack stack;
  for (const IValue& argument : arguments) stack.push_back(with_tensors(argument, on_meta));
  const auto& schema = op.schema().arguments();
  for (size_t i = 0; i < schema.size(); ++i)
    if (schema[i].name() == "device") stack[i] = at::Device(at::kMeta);
  try {
    compute(op, &stack);
  } catch (const c10::Error&) {
    return {};
  }
  return stack;
}

/// Spreads choices evenly over `choices`.
void choose_evenly(const Tensor& chosen, int64_t choices) {
  const c10::impl::ExcludeDispatchKeyGuard outside(kFake);
  chosen.copy_(at::arange(chosen.numel(), chosen.options()).remainder_(choices).view(chosen.sizes()));
}

/// Leaves the tensors that the operator would write unchanged, except for the size of outputs that it would resize.
void write_nothing(const c10::OperatorHandle& op, const JitStack& arguments, JitStack* stack) {
  const auto& schema = op.schema();
  JitStack written;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
      written.push_back(arguments[i]);
  if (std::ranges::any_of(schema.arguments(), &c10::Argument::is_out))
    if (const auto shapes = results_on_meta(op, arguments)) {
      const c10::impl::ExcludeDispatchKeyGuard outside(kFake);
      for (size_t i = 0; i < shapes->size(); ++i)
        if (const auto sizes = (*shapes)[i].toTensor().sizes(); written[i].toTensor().sizes() != sizes)
          written[i].toTensor().resize_(sizes);
    }
  for (size_t i = 0; i < schema.returns().size(); ++i) stack->push_back(written[i]);
}

/// Whether the operator returns numbers or nothing, but no tensor.
bool returns_no_tensor(const c10::FunctionSchema& schema) {
  return std::ranges::none_of(schema.returns(), [](const c10::Argument& result) {
    return result.type()->kind() == c10::TypeKind::TensorType || result.type()->kind() == c10::TypeKind::ListType;
  });
}

void run_without_numbers(const c10::OperatorHandle& op, JitStack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size();
  const std::string_view name = schema.name();
  if (!name.starts_with("aten::") || (is_metadata_only(schema) && op.hasKernelForDispatchKey(c10::DispatchKey::CPU)))
    return compute(op, stack);
  // Composite operations are decomposed here too. copy_ has one kernel for all devices, which computes.
  const bool has_shapes = kShapes.contains(name);
  if (!has_shapes && name != "aten::copy_" && !op.hasKernelForDispatchKey(c10::DispatchKey::CPU))
    for (const auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeImplicitAutograd})
      if (op.hasKernelForDispatchKey(key)) return op.callBoxedForDispatchKey(key, *stack);

  std::vector<Tensor> operands;
  for (const IValue& argument : torch::jit::last(*stack, count))
    for_each_tensor_in(argument, [&](const Tensor& tensor) { operands.push_back(tensor); });
  const auto is_on_meta = [](const Tensor& tensor) { return tensor.is_meta(); };
  const bool writes = schema.is_mutable();
  const bool is_computed = std::ranges::all_of(operands, is_real) && !is_large_arithmetic(op, operands);
  if (std::ranges::any_of(operands, is_on_meta) || is_computed || (!writes && returns_no_tensor(schema)))
    return compute(op, stack);

  const JitStack arguments = torch::jit::pop(*stack, count);
  const std::vector<Tensor> copies = op.hasTag(at::Tag::pointwise) ? converted(operands) : std::vector<Tensor>();
  if (writes) return write_nothing(op, arguments, stack);
  if (has_shapes) {
    for (IValue& result : kShapes.at(name)(arguments)) stack->push_back(std::move(result));
    return;
  }
  if (const auto results = results_on_meta(op, arguments)) {
    for (const IValue& result : *results) stack->push_back(with_tensors(result, in_memory));
    if (name == "aten::topk") choose_evenly(stack->back().toTensor(), operands[0].size(arguments[2].toInt()));
    return;
  }
  if (op.hasTag(at::Tag::pointwise) && schema.returns().size() == 1) {
    for (IValue& result : elementwise(operands)) stack->push_back(std::move(result));
    return;
  }
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  compute(op, stack);  // on uninitialized memory: slow, but correct
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_without_numbers>());
}

}  // namespace

FakeKernels::FakeKernels() : included_(kFake) {
  cpu::skip_loops(true);
  values_are_known = false;
}

FakeKernels::~FakeKernels() {
  values_are_known = true;
  cpu::skip_loops(false);
}

}  // namespace modular
