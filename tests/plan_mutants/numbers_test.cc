// Every entry of this program on two tensor-parallel ranks and on two pipeline stages against one process: the loss,
// and of each parameter's gradient its norm and its product with a fixed vector.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/model/tasks.h"
#include "tests/parallel/training_runs.h"

namespace modular::testing {
namespace {

constexpr int64_t kRows = 4, kSequence = 10;

std::unique_ptr<AnyConfig> config_of(const Entry& entry) {
  const int64_t hidden = 32, heads = 4, layers = 2, inner = 24;
  return tiny_config(entry, {{"hidden_size", hidden},
                             {"n_embd", hidden},
                             {"d_model", hidden},
                             {"num_hidden_layers", layers},
                             {"n_layer", layers},
                             {"n_head", heads},
                             {"intermediate_size", inner},
                             {"moe_intermediate_size", inner},
                             {"n_inner", inner},
                             {"n_positions", int64_t{64}},
                             {"pad_token_id", int64_t{1}},
                             {"num_labels", int64_t{4}},
                             {"num_local_experts", int64_t{4}},
                             {"num_experts", int64_t{4}},
                             {"local_attention", int64_t{6}},
                             {"partial_rotary_factor", 0.5},
                             {"hidden_dropout_prob", 0.0},
                             {"attention_probs_dropout_prob", 0.0},
                             {"resid_pdrop", 0.0},
                             {"embd_pdrop", 0.0},
                             {"attn_pdrop", 0.0},
                             {"hidden_dropout", 0.0},
                             {"attention_dropout", 0.0},
                             {"dropout", 0.0},
                             {"rope_theta", 1000.0}});
}

Batch batch_for(const Entry& entry) {
  at::manual_seed(5);
  const Task* task = find_task(entry.task);
  Batch batch;
  batch.input_ids = at::randint(2, 60, {kRows, kSequence}, at::kLong);
  if (!task || task->labels == Task::Labels::each_row)
    batch.labels = at::arange(kRows, at::kLong).remainder(entry.task == "sentence-embedding" ? 2 : 4);
  else
    batch.labels = at::randint(0, task->label_count == "num_labels" ? 4 : 60, {kRows, kSequence}, at::kLong);
  return batch;
}

/// Values that depend on the place in the whole parameter alone, [shape] of the box.
at::Tensor pattern(const ShardedParameter& parameter, const ParameterBox& box) {
  int64_t all = 1;
  for (const int64_t size : parameter.global_shape) all *= size;
  const double seed = static_cast<double>(std::hash<std::string>()(parameter.name) % 97);
  const at::Tensor whole = at::arange(all, at::kDouble).mul(0.731).add(seed).sin().view(parameter.global_shape);
  return box.in_global(whole);
}

/// One forward and backward: the loss, then two numbers for each parameter of the whole model, in its order.
Report run(Mesh& mesh, const Entry& entry) {
  at::set_num_threads(1);
  const auto config = config_of(entry);
  std::map<std::string, size_t> places;
  const Model whole = entry.make(*config);
  for (const auto& parameter : whole.module->named_parameters()) places.emplace(parameter.key(), 1 + 2 * places.size());
  Report report(1 + 2 * places.size(), 0.0);

  ParallelModel model(entry, *config, mesh, {}, /*seed=*/11);
  at::NoGradGuard no_grad;
  for (ShardedParameter& parameter : model.parameters())  // biases and norms differ from 0 and 1
    for (const ParameterBox& box : parameter.boxes)
      box.in_local(parameter.local).add_(pattern(parameter, box), /*alpha=*/0.1);
  model.parameters_changed();
  const Batch batch = batch_for(entry);
  {
    at::AutoGradMode with_gradients(true);
    report[0] = model.step({&batch, 1}).loss;
  }
  for (const ShardedParameter& parameter : model.parameters()) {
    if (!parameter.owner) continue;
    const size_t place = places.at(parameter.name);
    for (const ParameterBox& box : parameter.boxes) {
      const at::Tensor gradient = box.in_local(parameter.grad).to(at::kDouble);
      report[place] += gradient.square().sum().item<double>();
      report[place + 1] += gradient.mul(pattern(parameter, box)).sum().item<double>();
    }
  }
  return report;
}

/// Says where `found` differs from `expected`, or nothing.
std::string difference(const Report& expected, const Report& found) {
  if (!(std::abs(found[0] - expected[0]) <= 1e-5 * std::abs(expected[0]) + 1e-6))
    return fmt::format("loss {} instead of {}", found[0], expected[0]);
  double all = 0.0;
  for (size_t i = 1; i < expected.size(); i += 2) all += expected[i];
  const double floor = 1e-5 * std::sqrt(all);
  for (size_t i = 1; i < expected.size(); i += 2) {
    const double norm = std::sqrt(expected[i]);
    if (!(std::abs(std::sqrt(found[i]) - norm) <= 1e-3 * norm + floor))
      return fmt::format("gradient norm {} instead of {} of parameter {}", std::sqrt(found[i]), norm, i / 2);
    if (!(std::abs(found[i + 1] - expected[i + 1]) <= 1e-3 * norm + floor))
      return fmt::format("gradient projection {} instead of {} of parameter {}", found[i + 1], expected[i + 1], i / 2);
  }
  return "";
}

std::string name_of(const Entry& entry) { return fmt::format("{}.{}", entry.family, entry.architecture); }

class Numbers : public ::testing::TestWithParam<std::pair<const char*, MeshShape>> {};

TEST_P(Numbers, AreThoseOfOneProcess) {
  const auto& [name, shape] = GetParam();
  const auto reports = run_ranks(static_cast<int>(shape.ranks()),
                                 [&](const Environment& environment) {
                                   Mesh mesh(environment, shape, {.device = at::kCPU});
                                   Report all;
                                   for (const Entry& entry : entries()) {
                                     try {
                                       const Report one = run(mesh, entry);
                                       all.insert(all.end(), one.begin(), one.end());
                                     } catch (const std::exception& error) {
                                       throw std::runtime_error(name_of(entry) + ": " + error.what());
                                     }
                                   }
                                   return all;
                                 },
                                 {.timeout = std::chrono::seconds(1500), .environment = {}});
  Mesh alone({}, {}, {.device = at::kCPU});
  size_t first = 0;
  for (const Entry& entry : entries()) {
    const Report expected = run(alone, entry);
    Report found(expected.size(), 0.0);
    for (const Report& report : reports)
      for (size_t i = 0; i < found.size(); ++i) found[i] = i == 0 ? report.at(first) : found[i] + report.at(first + i);
    first += expected.size();
    EXPECT_EQ(difference(expected, found), "") << name_of(entry) << " on " << name;
  }
  fmt::print("{} entries on {}\n", entries().size(), name);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Numbers,
                         ::testing::Values(std::pair{"tp2", MeshShape{{1, 1, 1, 1, 1, 2}}},
                                           std::pair{"pp2", MeshShape{{2, 1, 1, 1, 1, 1}}}),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace modular::testing
