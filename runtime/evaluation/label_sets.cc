#include "runtime/evaluation/label_sets.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tensors.h"

namespace modular {

void LabelSets::add(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor on_host = labels.cpu();
  const at::Tensor counted = on_host.ne(kIgnoredTarget).all(1).nonzero().flatten();
  const at::Tensor predicted = logits.cpu().index_select(0, counted).gt(0.0);
  const at::Tensor actual = on_host.index_select(0, counted).gt(0.5);
  counts_ += at::stack({predicted.sum(0), actual.sum(0), predicted.logical_and(actual).sum(0)});
  rows_ += at::stack({at::scalar_tensor(counted.numel(), at::kLong), predicted.eq(actual).all(1).sum()});
}

void LabelSets::sum(const Mesh& mesh) {
  for (const at::Tensor& counts : {counts_, rows_}) all_reduce(mesh.control(), counts, "evaluation counts").wait();
}

double LabelSets::value(const Metric& metric) const {
  const auto rows = rows_.to(at::kDouble);
  if (metric.kind->name == "accuracy") return (rows[1] / rows[0].clamp_min(1.0)).item<double>();
  const at::Tensor counts = counts_.to(at::kDouble);
  return (2.0 * counts[2] / (counts[0] + counts[1]).clamp_min(1.0)).mean().item<double>();
}

}  // namespace modular
