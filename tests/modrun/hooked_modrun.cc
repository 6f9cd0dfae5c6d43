// Hooks and an objective of a user's own program: each call appends a line to <train.dir's parent>/hooks-<rank>, which
// MODULAR_HOOKS names without the rank. At step 4 the last rank allocates 256 MiB.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "runtime/mesh/collectives.h"
#include "runtime/search/own_objective.h"
#include "runtime/train/trainer.h"

namespace modular {
namespace {

template <class... Arguments>
void note(Mesh& mesh, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  std::ofstream(fmt::format("{}-{}", std::getenv("MODULAR_HOOKS"), mesh.rank()), std::ios::app)
      << fmt::format(format, std::forward<Arguments>(arguments)...) << '\n';
}

void on_step(const StepMetrics& step, Mesh& mesh) {
  note(mesh, "step {} {} {} {}", step.step, step.loss, step.data_wait, step.memory_peak);
  at::Tensor sum = at::ones({1});
  all_reduce(mesh.world(), sum, "what a hook sums").wait();
  if (sum.item<float>() != static_cast<float>(mesh.world_size()))
    throw std::runtime_error("the ranks are not together");
  static at::Tensor held;
  if (step.step == 4 && mesh.rank() + 1 == mesh.world_size()) held = at::ones({1 << 26});
  if (std::getenv("MODULAR_HOOKS_FAIL") && step.step == 3) throw std::runtime_error("the hook has had enough");
}

const bool registered = register_hooks(
    {.on_step = on_step,
     .on_evaluation = [](const Evaluation& evaluation,
                         Mesh& mesh) { note(mesh, "evaluation {} {}", evaluation.step, evaluation.loss); },
     .on_checkpoint = [](int64_t step, const std::filesystem::path& folder,
                         Mesh& mesh) { note(mesh, "checkpoint {} {}", step, folder.filename().string()); }});
const bool some_registered = register_hooks({});  // empty hooks, which are not called

double twice(const EndedRun& run) {
  if (std::getenv("MODULAR_OBJECTIVE_FAILS")) throw std::runtime_error("the objective has had enough");
  return 2.0 * run.numbers.at("val_loss");
}

const bool objective_registered = register_objective({.name = "twice", .minimize = false, .value = twice});

}  // namespace
}  // namespace modular
