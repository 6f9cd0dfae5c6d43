#include "runtime/parallel/pipeline_stages.h"

#include <algorithm>

namespace modular {

std::pair<int64_t, int64_t> stage_span(int64_t layers, int64_t stage, int64_t stages,
                                       const std::vector<int64_t>& cuts) {
  if (!cuts.empty())
    return {stage == 0 ? 0 : cuts[static_cast<size_t>(stage - 1)],
            stage + 1 == stages ? layers : cuts[static_cast<size_t>(stage)]};
  const int64_t share = layers / stages, longer = layers % stages;
  const int64_t first = stage * share + std::min(stage, longer);
  return {first, first + share + (stage < longer ? 1 : 0)};
}

std::vector<int64_t> tower_sizes(const nn::Module& root, const Plan& plan) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  const auto size = [&](std::string_view list) {
    if (list.empty()) return int64_t{1};
    const auto found = modules.find(std::string(list));
    TORCH_INTERNAL_ASSERT(found, "the plan cuts ", list, ", which does not exist");
    return static_cast<int64_t>((*found)->children().size());
  };
  if (plan.first_tower) return {size(plan.first_tower->split_list), size(plan.split_list)};
  if (plan.split_list.empty()) return {};
  return {size(plan.split_list)};
}

std::pair<int64_t, int64_t> PlacedStage::layers(size_t tower, int64_t list_size) const {
  if (!has_towers()) return stage_span(list_size, stage_, stages_, cuts_);
  const auto [first, last] = stage_span(sizes_[0] + sizes_[1], stage_, stages_, cuts_);
  const int64_t begin = tower == 0 ? 0 : sizes_[0], size = sizes_[tower];
  return {std::clamp(first - begin, int64_t{0}, size), std::clamp(last - begin, int64_t{0}, size)};
}

bool PlacedStage::begins(size_t tower) const {
  if (!has_towers()) return stage_ == 0;
  const auto [first, last] = layers(tower, sizes_[tower]);
  return first == 0 && last > 0;
}

bool PlacedStage::ends(size_t tower) const {
  if (!has_towers()) return stage_ == stages_ - 1;
  const auto [first, last] = layers(tower, sizes_[tower]);
  return first < last && last == sizes_[tower];
}

size_t PlacedStage::receives() const {
  if (stage_ == 0) return 0;
  return has_towers() && layers(1, sizes_[1]).first > 0 ? 2 : 1;
}

bool PlacedStage::first_tower() {
  tower_ = 0;
  if (!has_towers()) return true;
  const auto [first, last] = layers(0, sizes_[0]);
  return first < last;
}

bool PlacedStage::second_tower(const Tensor& /*between*/) {
  tower_ = 1;
  if (!has_towers()) return true;
  const auto [first, last] = layers(1, sizes_[1]);
  return first < last;
}

}  // namespace modular
