#include "runtime/evaluation/class_counts.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tensors.h"

namespace modular {
namespace {

constexpr int64_t kElementsAtOnce = int64_t{1} << 22;  // logits that are compared at once; bounds memory

}  // namespace

ClassCounts ClassCounts::zeros(int64_t classes) {
  const auto count = [&] { return at::zeros({classes}, at::kLong); };
  return {count(), count(), count(), count()};
}

void ClassCounts::add(const at::Tensor& logits, const at::Tensor& targets) {
  const int64_t classes = target_ranks.size(0);
  TORCH_CHECK(logits.size(-1) == classes, "the model has logits for ", logits.size(-1), " classes, not ", classes);
  const at::Tensor flat = targets.to(logits.device()).flatten();
  const at::Tensor counted = flat.ne(kIgnoredTarget).nonzero().flatten();
  const at::Tensor rows = logits.reshape({-1, classes}), ids = at::arange(classes, flat.options());
  const int64_t step = std::max<int64_t>(1, kElementsAtOnce / classes);
  const auto count = [&](at::Tensor& counts, const at::Tensor& values) {
    counts += values.bincount(/*weights=*/{}, /*minlength=*/classes).cpu();
  };
  for (int64_t first = 0; first < counted.numel(); first += step) {
    const at::Tensor chunk = counted.narrow(0, first, std::min(step, counted.numel() - first));
    const at::Tensor scores = rows.index_select(0, chunk), target = flat.index_select(0, chunk).unsqueeze(1);
    const at::Tensor own = scores.gather(1, target);
    const at::Tensor before = scores.gt(own).logical_or_(scores.eq(own).logical_and_(ids.lt(target))).sum(1);
    const at::Tensor largest = at::where(scores.eq(scores.amax(1, /*keepdim=*/true)), ids, classes)
                                   .amin(1)
                                   .clamp_max_(classes - 1);  // a row of NaN has no largest logit; its loss is NaN
    count(target_ranks, before);
    count(predicted, largest);
    count(actual, target.squeeze(1));
    count(correct, largest.masked_select(largest.eq(target.squeeze(1))));
  }
}

void ClassCounts::sum(const Mesh& mesh) {
  at::Tensor all = at::stack({target_ranks, predicted, actual, correct});
  all_reduce(mesh.control(), all, "evaluation counts").wait();
  target_ranks = all[0], predicted = all[1], actual = all[2], correct = all[3];
}

}  // namespace modular
