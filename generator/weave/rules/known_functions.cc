// Library functions without a shard-type rule whose result depends on nothing but their operands: it is the same on
// every rank if they are. They write into what their signature names, a non-const reference or pointer, and into
// nothing else. Whatever else a family calls is not known.
#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_set>

#include "generator/weave/rules/rules.h"

namespace modgen {
namespace {

using NameSet = std::unordered_set<std::string_view>;

/// The words of `text`.
NameSet words(std::string_view text) {
  NameSet result;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) result.insert(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

/// Functions of at:: and torch::, and methods of tensors.
const NameSet& tensor_operations() {
  static const NameSet names = words(
      "abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d add addbmm addcdiv addcmul "
      "addmm addmv addr adjoint affine_grid alias all allclose amax amin aminmax angle any arange arccos arcsin "
      "arctan arctan2 argmax argmin argsort argwhere as_strided asin asinh atan atan2 atanh atleast_1d atleast_2d "
      "atleast_3d avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window bilinear binary_cross_entropy "
      "binary_cross_entropy_with_logits bincount bitwise_and bitwise_left_shift bitwise_not bitwise_or "
      "bitwise_right_shift bitwise_xor blackman_window block_diag bmm broadcast_tensors broadcast_to bucketize "
      "cartesian_prod cat cdist ceil celu chain_matmul channel_shuffle cholesky cholesky_inverse cholesky_solve chunk "
      "clamp clamp_max clamp_min clip clone col2im column_stack combinations complex concat concatenate conj "
      "constant_pad_nd contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
      "copysign corrcoef cos cosh cosine_embedding_loss cosine_similarity count_nonzero cov cpu cross cross_entropy "
      "cross_entropy_loss ctc_loss cuda cummax cummin cumprod cumsum cumulative_trapezoid data defined deg2rad det "
      "detach device diag diag_embed diagflat diagonal diagonal_scatter diff digamma dim dist div divide dot dsplit "
      "dstack dtype einsum element_size elu embedding empty empty_like empty_strided eq equal erf erfc erfinv exp "
      "exp2 expand expand_as expm1 eye fill fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin "
      "fmod fold frac frexp frobenius_norm full full_like gather gcd ge gelu ger get_device glu greater greater_equal "
      "grid_sample grid_sampler group_norm gt hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh "
      "has_storage heaviside hinge_embedding_loss histc histogram hsplit hstack huber_loss hypot i0 im2col imag index "
      "index_add index_copy index_fill index_put index_reduce index_select inner interpolate inverse "
      "is_complex is_contiguous is_cpu is_cuda is_floating_point is_nonzero is_same_size is_sparse isclose isfinite "
      "isin isinf isnan isneginf isposinf isreal item itemsize kl_div kron kthvalue l1_loss layer_norm lcm ldexp le "
      "leaky_relu lerp less less_equal lgamma linear linspace local_response_norm log log10 log1p log2 log_sigmoid "
      "log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit "
      "logsigmoid logspace logsumexp lp_pool1d lp_pool2d lt lu_solve mH mT margin_ranking_loss masked_fill "
      "masked_scatter masked_select matmul matrix_H matrix_exp matrix_power max max_pool1d max_pool2d max_pool3d "
      "maximum mean median meshgrid min minimum mish mm mode moveaxis movedim mse_loss msort mul multi_margin_loss "
      "multiply mv nan_to_num nanmean nanmedian nanquantile nansum narrow ndimension ne neg negative new_empty "
      "new_full new_ones new_tensor new_zeros nextafter nll_loss nll_loss_nd nonzero norm normalize not_equal "
      "nuclear_norm numel numpy_T one_hot ones ones_like options outer pad pad_sequence pairwise_distance pdist "
      "permute pin_memory pixel_shuffle pixel_unshuffle poisson_nll_loss polar positive pow prelu prod put qr "
      "quantile rad2deg range ravel real reciprocal relu relu6 remainder renorm repeat repeat_interleave "
      "requires_grad reshape reshape_as result_type rms_norm roll rot90 round rsqrt rsub scalar_tensor scalar_type "
      "scatter scatter_add scatter_reduce searchsorted select select_scatter selu sgn sigmoid sign signbit silu sin "
      "sinc sinh size sizes slice slice_scatter slogdet smooth_l1_loss soft_margin_loss softmax softmin softplus "
      "softshrink softsign sort split split_with_sizes sqrt square squeeze stack std std_mean stft stride strides sub "
      "subtract sum sum_to_size svd swapaxes swapdims sym_numel sym_size sym_sizes t take take_along_dim tan tanh "
      "tanhshrink tensor tensor_split tensordot threshold tile to toType topk trace transpose trapezoid trapz tril "
      "tril_indices triplet_margin_loss triu triu_indices true_divide trunc type_as unbind unflatten unfold unique "
      "unique_consecutive unique_dim unsqueeze upsample_bicubic2d upsample_bilinear2d upsample_nearest2d vander var "
      "var_mean vdot view view_as view_as_complex view_as_real vsplit vstack where xlogy zero zeros zeros_like");
  return names;
}

/// Operations that consume random numbers.
const NameSet& random_operations() {
  static const NameSet names = words(
      "bernoulli dropout fan_in_normal_ multinomial normal normal_ rand rand_like randint randn randn_like randperm "
      "truncated_normal_ uniform uniform_ xavier_uniform_");
  return names;
}

/// Makers of options, and functions on types and sizes.
const NameSet& type_functions() {
  static const NameSet names = words(
      "device dtype elementSize finfo get_default_dtype infer_size isComplexType isFloatingType isIntegralType "
      "iscustomclass layout makeArrayRef memory_format multiply_integers promoteTypes promote_types requires_grad "
      "scalarTypeToTypeMeta str sum_integers toString torchCheckFail torchCheckMsgImpl typeMetaToScalarType");
  return names;
}

/// Functions of std::, and of the C library with and without that prefix.
const NameSet& standard_functions() {
  static const NameSet names = words(
      "__builtin_expect __builtin_unreachable abs accumulate acos adjacent_find all_of any_cast any_of as_const asin "
      "atan atan2 begin binary_search bit_ceil bit_floor bit_width cbegin cbrt ceil cend clamp cmp_equal cmp_greater "
      "cmp_less cmp_not_equal contains copysign cos cosh count count_if crbegin crend data distance div empty end "
      "ends_with equal equal_range erf erfc exchange exp exp2 expm1 fabs fdim find find_end find_first_of find_if "
      "find_if_not floor fma fmax fmin fmod forward gcd get get_if has_single_bit holds_alternative hypot includes "
      "inner_product "
      "invoke is_permutation is_sorted isfinite isinf isnan lcm ldexp lerp lexicographical_compare lgamma llabs "
      "llrint llround log log10 log1p log2 lower_bound lrint lround make_optional make_pair make_shared make_tuple "
      "make_unique max max_element midpoint min min_element minmax minmax_element mismatch move move_if_noexcept "
      "nearbyint next none_of not_fn popcount pow prev rbegin reduce remainder rend rint round search signbit sin "
      "sinh size sqrt ssize starts_with stod stof stoi stol stoll stoul stoull swap tan tanh tgamma to_array to_string "
      "to_underlying transform_reduce trunc tuple_cat upper_bound visit");
  return names;
}

/// Functions of the contract that have no rule.
const NameSet& contract_functions() {
  static const NameSet names = words(
      "attention_mask attention_scores balance_experts bidirectional_mask causal_mask check_experts check_images "
      "check_labels check_layer_types classification_loss classification_outputs cls_pooling constant_ "
      "cross_entropy "
      "depends_on_length drop first_row first_tokens gather fill last_token_pooling last_tokens linear_and_embedding_ "
      "log_rates_ "
      "lowest max_pooling "
      "mean_of_tokens mean_pooling ones_ pair_features pair_targets partial_rotary patch_projection quick_gelu "
      "rotary_attention_scale rotary_base same_labels samples_classes sentence_count sentence_embeddings "
      "sentence_loss sentence_outputs sigmoid_pair_loss step_biases_ tokens_at unit_rows wide with_images "
      "within_documents "
      "zeros_");
  return names;
}

/// Layers without a rule, whose parameters are full, and which neither keep state nor consume random numbers.
const NameSet& layers() {
  static const NameSet names = words(
      "AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d AvgPool3d Bilinear CELU ConstantPad1d ConstantPad2d "
      "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ELU Embedding Flatten GLU GroupNorm Hardshrink Hardtanh "
      "LeakyReLU Linear LogSigmoid LogSoftmax MaxPool1d MaxPool2d Mish PReLU PixelShuffle RMSNorm ReLU6 SELU "
      "Sigmoid Softmax Softplus Softshrink Softsign TransposedLinear Unfold Upsample ZeroPad2d "
      "torch::nn::LayerNorm");
  return names;
}

/// Library classes with nothing but their value: objects that are made from equal operands are equal, and their methods
/// depend on the object and the operands only.
constexpr std::array kValueClasses = {
    // of libtorch
    "at::Tensor",
    "at::TensorBase",
    "at::OptionalTensorRef",
    "at::indexing::",
    "at::ArrayRef<",
    "c10::ArrayRef<",
    "c10::OptionalArrayRef<",
    "c10::IListRef<",
    "c10::List<",
    "c10::SmallVector",
    "c10::Scalar",
    "c10::SymInt",
    "c10::SymFloat",
    "c10::SymBool",
    "c10::Device",
    "c10::TensorOptions",
    "c10::optional<",
    "c10::string_view",
    "c10::basic_string_view<",
    "c10::DimVector",
    "c10::complex<",
    "c10::BFloat16",
    "c10::Half",
    "c10::MaybeOwned<",
    "caffe2::TypeMeta",
    "torch::ExpandingArray<",
    "torch::OrderedDict<",
    "torch::enumtype::",
    "torch::nn::functional::",
    // of the standard library
    "std::allocator<",
    "std::array<",
    "std::basic_string<",
    "std::basic_string_view<",
    "std::bitset<",
    "std::complex<",
    "std::deque<",
    "std::forward_list<",
    "std::function<",
    "std::initializer_list<",
    "std::list<",
    "std::map<",
    "std::multimap<",
    "std::multiset<",
    "std::nullopt_t",
    "std::optional<",
    "std::pair<",
    "std::queue<",
    "std::reference_wrapper<",
    "std::reverse_iterator<",
    "std::set<",
    "std::shared_ptr<",
    "std::span<",
    "std::stack<",
    "std::tuple<",
    "std::unique_ptr<",
    "std::unordered_map<",
    "std::unordered_set<",
    "std::variant<",
    "std::vector<",
    "std::weak_ptr<",
    "std::numeric_limits<",
    "std::plus<",
    "std::minus<",
    "std::multiplies<",
    "std::less<",
    "std::greater<",
    "std::equal_to<",
    "std::runtime_error",
    "std::invalid_argument",
    "std::logic_error",
    "std::out_of_range",
    "std::_Bit_",
    "std::_Rb_tree_",
    "std::_Deque_iterator",
    "std::_List_",
    "std::_Optional_base",
    "std::_Function_base",
    "std::__shared_ptr",
    "std::__detail::_Node_",
    "__gnu_cxx::__normal_iterator<",
    // of the contract
    "modular::",
};

bool is_options(std::string_view type) {
  return type.starts_with("torch::nn::") && type.find("Options") != std::string_view::npos;
}

/// The scope and the name in "scope::name".
std::pair<std::string_view, std::string_view> in_scope(std::string_view name) {
  size_t at = name.rfind("::operator");
  for (size_t i = name.size(), depth = 0; at == std::string_view::npos && i-- > 1;) {  // not in template arguments
    if (name[i] == '>') ++depth;
    if (name[i] == '<') --depth;
    if (depth == 0 && name[i] == ':' && name[i - 1] == ':') at = i - 1;
  }
  return at == std::string_view::npos ? std::pair{std::string_view(), name}
                                      : std::pair{name.substr(0, at), name.substr(at + 2)};
}

/// The operation that an in-place function or one with an output operand does: "relu" of "relu_" and "relu_out".
std::string_view out_of_place(std::string_view name) {
  if (name.ends_with("_out")) return name.substr(0, name.size() - 4);
  return name.ends_with("_") ? name.substr(0, name.size() - 1) : name;
}

/// Whether the free or static function `name` in `scope` is known.
bool is_known_in(std::string_view scope, std::string_view name) {
  if (scope == "at" || scope == "torch" || scope == "torch::nn::functional")
    return tensor_operations().contains(out_of_place(name)) || random_operations().contains(out_of_place(name)) ||
           type_functions().contains(name);
  if (scope == "torch::fft" || scope == "torch::linalg" || scope == "torch::special") return true;
  if (scope == "c10" || scope == "c10::detail") return type_functions().contains(name);
  if (scope == "modular" || scope == "modular::init" || scope == "modular::plain" || scope == "modular::dp")
    return contract_functions().contains(name) || random_operations().contains(name);
  if (scope == "std" || scope == "std::ranges" || scope.empty()) return standard_functions().contains(name);
  return (scope.starts_with("std::") || scope.starts_with("c10::")) && is_value_class(scope);
}

}  // namespace

bool is_random(std::string_view operation) {
  if (operation.starts_with(".")) operation.remove_prefix(1);
  return random_operations().contains(operation);
}

bool is_known_layer(std::string_view name) {
  constexpr std::string_view kEnd = " layer";
  return name.ends_with(kEnd) && layers().contains(name.substr(0, name.size() - kEnd.size()));
}

bool is_value_class(std::string_view type) {
  return is_options(type) || std::ranges::any_of(kValueClasses, [&](std::string_view one) {
           // "at::Tensor" is not "at::TensorIterator".
           const bool is_prefix = one.ends_with("<") || one.ends_with(":") || one.ends_with("_");
           return type.starts_with(one) && (is_prefix || type.size() == one.size() ||
                                            !std::isalnum(static_cast<unsigned char>(type[one.size()])));
         });
}

bool is_known_function(const Expr& expr) {
  if (expr.kind == Expr::Kind::op && !expr.callee) return true;  // built in
  if (!expr.callee) return false;
  const auto [scope, name] = in_scope(expr.callee->name);
  if (expr.kind == Expr::Kind::op) return expr.name != "<<" && expr.name != ">>";
  if (expr.kind != Expr::Kind::method) return is_known_in(scope, name);
  const std::string& object = expr.operands.empty() ? expr.type : expr.operands[0].type;
  if (object.starts_with("(lambda") && expr.name == "operator()") return true;  // its body was interpreted
  if (scope.starts_with("std::ranges::__") && scope.ends_with("_fn")) {
    const std::string_view algorithm = scope.substr(15, scope.size() - 18);
    return standard_functions().contains(algorithm);
  }
  if (scope == "at::Tensor" || scope == "at::TensorBase")
    return tensor_operations().contains(out_of_place(name)) || random_operations().contains(out_of_place(name));
  return is_value_class(scope);
}

}  // namespace modgen
