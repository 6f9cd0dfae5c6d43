#include "runtime/checkpoint/added_rows.h"

#include <ATen/ATen.h>
#include <c10/util/ConstexprCrc.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/random/initialization.h"

namespace modular {
namespace {

constexpr double kEpsilon = 1e-9;                      // scales the covariance of the old rows, as in transformers
constexpr int64_t kChunkElements = int64_t{16} << 20;  // elements of a table in memory at a time

/// Rows of a parameter in the files, each as a vector of float64.
class OldRows {
 public:
  OldRows(std::string name, StoredTensor tensor) : name_(std::move(name)), tensor_(std::move(tensor)) {
    for (size_t dim = 1; dim < tensor_.shape.size(); ++dim) width_ *= tensor_.shape[dim];
  }

  int64_t count() const { return tensor_.shape.front(); }
  int64_t width() const { return width_; }

  void each_chunk(const std::function<void(const at::Tensor& rows)>& see) const {
    const int64_t most = std::max<int64_t>(kChunkElements / width_, 1);
    for (int64_t begin = 0; begin < count(); begin += most) {
      std::vector<int64_t> offset(tensor_.shape.size(), 0), shape = tensor_.shape;
      offset[0] = begin;
      shape[0] = std::min(most, count() - begin);
      const at::Tensor chunk = at::empty(shape, at::kFloat);
      read_slice(name_, tensor_, offset, chunk);
      see(chunk.view({shape[0], width_}).to(at::kDouble));
    }
  }

  at::Tensor mean() const {
    at::Tensor sum = at::zeros({width_}, at::kDouble);
    each_chunk([&](const at::Tensor& rows) { sum.add_(rows.sum(0)); });
    return sum.div_(count());
  }

  /// Scatter matrix: sum of the outer products of the rows minus `mean`.
  at::Tensor scatter(const at::Tensor& mean) const {
    at::Tensor sum = at::zeros({width_, width_}, at::kDouble);
    each_chunk([&](const at::Tensor& rows) {
      const at::Tensor centered = rows - mean;
      sum.addmm_(centered.t(), centered);
    });
    return sum;
  }

 private:
  std::string name_;
  StoredTensor tensor_;
  int64_t width_ = 1;
};

/// Cholesky factor, which gives independent normal variables the covariance; undefined if the covariance is not
/// positive definite. Computed in float64 and then tested as float32, as transformers sees it, so that rounding on
/// different meshes does not change the result.
at::Tensor compute_factor(const at::Tensor& covariance) {
  const auto [factor, info] = at::linalg_cholesky_ex(covariance);
  if (info.item<int64_t>() != 0) return {};
  const at::Tensor share = factor.diagonal().square() / covariance.diagonal();
  return share.min().item<double>() > std::numeric_limits<float>::epsilon() ? factor : at::Tensor();
}

/// Samples `added` further rows for the parameter `name`.
at::Tensor sample_rows(const OldRows& old, const std::string& name, uint64_t seed, int64_t added) {
  const at::NoGradGuard no_grad;
  const at::Tensor mean = old.mean();
  at::Tensor factor;
  if (old.width() == 1)  // bias
    factor = (old.scatter(mean) / std::max<int64_t>(old.count() - 1, 1)).sqrt_().mul_(kEpsilon);
  else if (old.count() > old.width())  // fewer rows have a singular covariance
    factor = compute_factor(old.scatter(mean).div_(old.count()));
  if (old.width() > 1 && factor.defined()) factor = factor * std::sqrt(kEpsilon);
  at::Tensor rows = mean.expand({added, old.width()});
  if (factor.defined()) {
    const at::Tensor normal = at::empty({added, old.width()}, at::kFloat);
    const uint64_t key = c10::util::crc64(std::to_string(seed) + "/" + name + "/added rows").checksum();
    fill_slice({init::Distribution::Kind::normal, 0.0, 1.0}, key, normal.sizes(), {0, 0}, normal);
    rows = rows + normal.to(at::kDouble).mm(factor.t());
  }
  return rows.to(at::kFloat).contiguous();
}

/// Caches the result of `compute`.
std::function<at::Tensor()> computed_once(std::function<at::Tensor()> compute) {
  struct Kept {
    std::once_flag once;
    at::Tensor values;
  };
  return [kept = std::make_shared<Kept>(), compute = std::move(compute)] {
    std::call_once(kept->once, [&] { kept->values = compute(); });
    return kept->values;
  };
}

}  // namespace

std::string vocabulary_field(const ModelConfig& model) {
  const ConfigIntegers integers = config_integers(*model.config);
  for (const char* field : {"vocab_size", "text_config.vocab_size"})
    if (integers.contains(field)) return field;
  return {};
}

int64_t vocabulary_rows(const ModelConfig& model) {
  const std::string field = vocabulary_field(model);
  return field.empty() ? 0 : config_integers(*model.config).at(field);
}

ModelConfig with_vocabulary_rows(ModelConfig model, int64_t rows) {
  model.config = model.config->clone();
  set_config_integer(*model.config, vocabulary_field(model), rows);
  return model;
}

void add_rows(StoredTensors& stored, const ModelConfig& model, int64_t stored_rows) {
  const int64_t added = vocabulary_rows(model) - stored_rows;
  if (added == 0) return;
  if (added < 0)
    throw std::runtime_error(
        fmt::format("the weights have rows for {} ids and the model for {}: rows can be added, but not removed",
                    stored_rows, stored_rows + added));
  for (const ModelParameter& parameter : model_parameters(model)) {
    const auto found = stored.find(parameter.name);
    if (found == stored.end() || found->second.shape == parameter.global_shape) continue;
    StoredTensor& tensor = found->second;
    std::vector<int64_t> grown = tensor.shape;
    grown.front() += added;
    if (grown != parameter.global_shape)
      throw std::runtime_error(fmt::format("\"{}\" is {} and would be {}: only rows can be added", parameter.name,
                                           shape_text(tensor.shape), shape_text(parameter.global_shape)));
    StoredSlice slice;
    slice.offset.assign(grown.size(), 0);
    slice.offset[0] = tensor.shape[0];
    slice.shape = grown;
    slice.shape[0] = added;
    slice.computed = computed_once([old = OldRows(parameter.name, tensor), name = parameter.name,
                                    seed = model.added_rows_seed.value_or(0), added,
                                    shape = slice.shape] { return sample_rows(old, name, seed, added).view(shape); });
    tensor.slices.push_back(std::move(slice));
    tensor.shape = std::move(grown);
  }
}

}  // namespace modular
