// Tensors that lie in files, whole or in slices, and how to read any slice of them.
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
  int64_t part = 0, parts = 1;  // which of equal parts of what is stored the slice is, along its first dimension
  std::function<at::Tensor()> computed = {};  // instead of a file's

  at::Tensor values() const {
    if (computed) return computed();
    const at::Tensor stored = file->tensor(key);
    return parts == 1 ? stored : stored.chunk(parts, 0)[static_cast<size_t>(part)];
  }
  /// Holds what is stored to the file's digests, where a view of values(), not empty, lies.
  void verify(const at::Tensor& view) const;
};

struct StoredRows;

struct StoredTensor {
  std::vector<int64_t> shape;
  std::vector<StoredSlice> slices;              // disjoint
  std::shared_ptr<const StoredRows> rows = {};  // in place of those of the slices; may be null
};

/// Rows of a tensor, values[i] that of ids[i].
struct StoredRows {
  std::vector<int64_t> ids;
  StoredTensor values;
};

using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// Throws std::runtime_error where a stored slice is of integers, for what the model has of floating-point numbers.
void reject_integers(const std::string& name, const StoredTensor& tensor);

/// Writes tensor[offset, offset + into.sizes()) to `into`, converted to its dtype and device. Reads nothing else.
/// Throws std::runtime_error where the stored slices leave a part of it out, or are not what was written.
void read_slice(const std::string& name, const StoredTensor& tensor, at::IntArrayRef offset, at::Tensor into);

/// The whole of a tensor, converted to `dtype`. Throws as read_slice does.
at::Tensor read_full(const std::string& name, const StoredTensor& tensor, at::ScalarType dtype);

/// The parameters of a model and then its buffers, as its module tree and plan list them; nothing is allocated.
std::vector<ModelParameter> model_parameters(const ModelConfig& model);

/// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace modular
