#include "runtime/ops/padded_gemm.h"

#include "runtime/ops/memory_alone.h"

namespace modular {
namespace {

using at::Tensor;

constexpr int64_t kAligned = 8;  // 16-bit elements per 16 bytes

int64_t padded(int64_t features) { return (features + kAligned - 1) / kAligned * kAligned; }

/// Whether each row, including the last, is followed by memory up to padded() that only this tensor holds.
bool has_room(const Tensor& tensor, int64_t features) {
  if (tensor.stride(-1) != 1 || !has_exclusive_memory(tensor)) return false;
  for (int64_t dim = tensor.dim() - 2, rows = padded(features); dim >= 0; rows *= tensor.size(dim--))
    if (tensor.stride(dim) != rows) return false;
  const int64_t rows = tensor.numel() / features;
  return static_cast<int64_t>(tensor.storage().nbytes()) >=
         (tensor.storage_offset() + rows * padded(features)) * static_cast<int64_t>(tensor.itemsize());
}

}  // namespace

bool is_worth_padding(const Tensor& x, const Tensor& weight) {
  constexpr int64_t kRows = 128, kFeatures = 1024;  // smaller GEMMs do not matter for a step's time
  return !x.is_cpu() && x.itemsize() == 2 && weight.size(0) % kAligned != 0 && weight.size(0) >= kFeatures &&
         weight.size(1) % kAligned == 0 && x.numel() >= kRows * weight.size(1);
}

Tensor padded_weight(const Tensor& weight) {
  return at::constant_pad_nd(weight, {0, 0, 0, padded(weight.size(0)) - weight.size(0)});
}

Tensor padded_linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const int64_t out = weight.size(0);
  const Tensor rows = x.reshape({-1, x.size(-1)}), right = padded_weight(weight).t();
  const Tensor y =
      bias ? at::addmm(at::constant_pad_nd(*bias, {0, padded(out) - out}), rows, right) : at::mm(rows, right);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = padded(out);
  return y.view(sizes).narrow(-1, 0, out);
}

Tensor padded_gradient(const Tensor& grad) {
  const int64_t features = grad.size(-1), rows = grad.numel() / features, more = padded(features) - features;
  if (!has_room(grad, features)) return at::constant_pad_nd(grad.reshape({rows, features}), {0, more});
  const Tensor padded_grad = grad.detach().as_strided({rows, padded(features)}, {padded(features), 1});
  padded_grad.narrow(1, features, more).zero_();
  return padded_grad;
}

}  // namespace modular
