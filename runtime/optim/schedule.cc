#include "runtime/optim/options.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <stdexcept>

namespace modular {
namespace {

/// Completed and total steps, both without the warm-up.
struct AfterWarmup {
  double done, all;
  double progress() const { return all > 0.0 ? std::min(done / all, 1.0) : 1.0; }
};

/// A schedule; `share` interpolates between the floor (0) and the highest rate (1).
struct Kind {
  std::string_view name;
  bool depends_on_steps;
  double (*fraction)(const Schedule& schedule, const AfterWarmup& steps);
};

constexpr Kind kKinds[] = {
    {"cosine", true,
     [](const Schedule&, const AfterWarmup& steps) {
       return 0.5 * (1.0 + std::cos(std::numbers::pi * steps.progress()));
     }},
    {"linear", true, [](const Schedule&, const AfterWarmup& steps) { return 1.0 - steps.progress(); }},
    {"constant", false, [](const Schedule&, const AfterWarmup&) { return 1.0; }},
    {"wsd", true,
     [](const Schedule& schedule, const AfterWarmup& steps) {
       const auto decay = static_cast<double>(schedule.decay_steps);
       return decay > 0.0 ? std::clamp((steps.all - steps.done) / decay, 0.0, 1.0) : 1.0;
     }},
    {"inverse-sqrt", false,
     [](const Schedule& schedule, const AfterWarmup& steps) {
       const double warmup = std::max(static_cast<double>(schedule.warmup_steps), 1.0);
       return std::sqrt(warmup / (warmup + steps.done));
     }},
};

const Kind& get_kind(const Schedule& schedule) {
  const auto* const found = std::ranges::find(kKinds, schedule.kind, &Kind::name);
  if (found == std::end(kKinds)) throw std::invalid_argument("unknown learning rate schedule " + schedule.kind);
  return *found;
}

}  // namespace

double Schedule::at(int64_t step) const {
  if (step < warmup_steps) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
  const AfterWarmup after{static_cast<double>(std::min(step, steps) - warmup_steps),
                          static_cast<double>(steps - warmup_steps)};
  return min_lr + (lr - min_lr) * get_kind(*this).fraction(*this, after);
}

bool Schedule::depends_on_steps() const { return get_kind(*this).depends_on_steps; }

std::vector<std::string_view> schedule_kinds() {
  std::vector<std::string_view> names;
  std::ranges::transform(kKinds, std::back_inserter(names), &Kind::name);
  return names;
}

}  // namespace modular
