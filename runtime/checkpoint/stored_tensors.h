// Tensors in files, full or in slices, and reading of arbitrary slices of them.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular {

/// tensor[offset, offset + shape), stored in `file` as `key`, or computed.
struct StoredSlice {
  std::shared_ptr<const SafetensorsFile> file;
  std::string key;
  std::vector<int64_t> offset;
  std::vector<int64_t> shape;
  int64_t part = 0, parts = 1;  // which of the stored tensor's equal parts the slice is, along its first dimension
  std::function<at::Tensor()> computed = {};  // used instead of a file's tensor

  at::Tensor values() const {
    if (computed) return computed();
    const at::Tensor stored = file->tensor(key);
    return parts == 1 ? stored : stored.chunk(parts, 0)[static_cast<size_t>(part)];
  }
  /// Verifies a non-empty view of values() against the file's digests.
  void verify(const at::Tensor& view) const;
};

struct StoredRows;

struct StoredTensor {
  std::vector<int64_t> shape;
  std::vector<StoredSlice> slices;              // disjoint
  std::shared_ptr<const StoredRows> rows = {};  // override the rows of the slices; may be null
};

/// Rows of a tensor: values[i] is row ids[i].
struct StoredRows {
  std::vector<int64_t> ids;
  StoredTensor values;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Throws std::runtime_error if a stored slice holds integers and the model has floating-point numbers there.
void reject_integers(const std::string& name, const StoredTensor& tensor);

/// Writes tensor[offset, offset + into.sizes()) to `into`, converted to its dtype and device. Reads nothing else.
/// Throws std::runtime_error if the stored slices do not cover it, or fail verification.
void read_slice(const std::string& name, const StoredTensor& tensor, at::IntArrayRef offset, at::Tensor into);

/// The full tensor, converted to `dtype`. Throws under the conditions of read_slice().
at::Tensor read_full(const std::string& name, const StoredTensor& tensor, at::ScalarType dtype);

/// The parameters of a model, then its buffers, in the order of its module tree and plan; allocates nothing.
std::vector<ModelParameter> model_parameters(const ModelConfig& model);

/// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace modular
