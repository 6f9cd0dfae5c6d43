#include "runtime/parallel/pipeline/pipeline_stages.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace modular {
namespace {

/// Best division of the layers from some layer on into the stages from some stage on.
struct Division {
  std::vector<int64_t> costs;  // costs of these stages, descending
  size_t end = 0;              // end of the first of them
};

}  // namespace

std::vector<int64_t> balanced_cuts(const std::vector<int64_t>& costs, int64_t stages) {
  const size_t layers = costs.size(), count = static_cast<size_t>(stages);
  TORCH_INTERNAL_ASSERT(0 < count && count <= layers, stages, " stages of ", layers, " layers");
  std::vector<int64_t> before(layers + 1);  // total cost of the layers before each layer
  std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);

  // The best division of the later layers does not depend on the stages before them.
  std::vector<std::vector<Division>> best(count, std::vector<Division>(layers));
  for (size_t stage = count; stage-- > 0;) {
    const size_t later = count - 1 - stage;
    for (size_t first = stage; first + later < layers; ++first) {
      Division& division = best[stage][first];
      for (size_t end = later == 0 ? layers : first + 1; end + later <= layers; ++end) {
        const int64_t own = before[end] - before[first];
        if (!division.costs.empty() && own > division.costs.front()) break;
        std::vector<int64_t> found;
        if (later > 0) found = best[stage + 1][end].costs;
        found.insert(std::ranges::lower_bound(found, own, std::greater<>()), own);
        if (division.costs.empty() || found <= division.costs) division = {std::move(found), end};
      }
    }
  }

  std::vector<int64_t> cuts;
  for (size_t stage = 0, first = 0; stage + 1 < count; ++stage) {
    first = best[stage][first].end;
    cuts.push_back(static_cast<int64_t>(first));
  }
  return cuts;
}

std::vector<int64_t> stack_sizes(const nn::Module& root, const Plan& plan) {
  const auto modules = root.named_modules(/*name_prefix=*/"", /*include_self=*/false);
  const auto size = [&](std::string_view list) {
    if (list.empty()) return int64_t{1};
    const auto found = modules.find(std::string(list));
    TORCH_INTERNAL_ASSERT(found, "the plan cuts ", list, ", which does not exist");
    return static_cast<int64_t>((*found)->children().size());
  };
  if (plan.first_stack) return {size(plan.first_stack->split_list), size(plan.split_list)};
  if (plan.split_list.empty()) return {};
  return {size(plan.split_list)};
}

std::pair<int64_t, int64_t> StageOnRank::find_span(int64_t layers) const {
  return {stage_ == 0 ? 0 : cuts_[static_cast<size_t>(stage_ - 1)],
          is_final() ? layers : cuts_[static_cast<size_t>(stage_)]};
}

bool StageOnRank::holds(int64_t layer) const {
  const auto [first, last] = find_span(/*layers=*/layer + 1);
  return first <= layer && layer < last;
}

std::pair<int64_t, int64_t> StageOnRank::layers(size_t stack, int64_t list_size) const {
  if (!has_stacks()) return find_span(list_size);
  const auto [first, last] = find_span(sizes_[0] + sizes_[1]);
  const int64_t begin = stack == 0 ? 0 : sizes_[0], size = sizes_[stack];
  return {std::clamp(first - begin, int64_t{0}, size), std::clamp(last - begin, int64_t{0}, size)};
}

bool StageOnRank::begins(size_t stack) const {
  if (!has_stacks()) return stage_ == 0;
  const auto [first, last] = layers(stack, sizes_[stack]);
  return first == 0 && last > 0;
}

bool StageOnRank::ends(size_t stack) const {
  if (!has_stacks()) return is_final();
  const auto [first, last] = layers(stack, sizes_[stack]);
  return first < last && last == sizes_[stack];
}

size_t StageOnRank::receives() const {
  if (stage_ == 0) return 0;
  return has_stacks() && layers(1, sizes_[1]).first > 0 ? 2 : 1;
}

bool StageOnRank::first_stack() {
  stack_ = 0;
  if (!has_stacks()) return true;
  const auto [first, last] = layers(0, sizes_[0]);
  return first < last;
}

bool StageOnRank::second_stack(const Tensor& /*between*/) {
  stack_ = 1;
  if (!has_stacks()) return true;
  const auto [first, last] = layers(1, sizes_[1]);
  return first < last;
}

}  // namespace modular
