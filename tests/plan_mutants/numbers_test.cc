// Every entry of this program, on its cases for the comparison with transformers, on two tensor-parallel ranks and on
// two pipeline stages against one process. Compares the loss, and the norm and the dot product with a fixed vector of
// the logits and of each parameter's gradient. Then removes each woven call, which must change the results.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/examples.h"
#include "runtime/parallel/parallel_model.h"
#include "tests/parity/cases.h"
#include "tests/plan_mutants/woven.h"
#include "tests/support/ranks.h"

namespace modular::testing {
namespace {

struct Case {
  std::string name;
  ModelConfig model;
  Batch batch;
};

/// The case's config.json for `entry`, whose family may be a mutant of the case's. The number of labels is made even
/// because a mutant may split them.
ModelConfig config_for(const Entry& entry, const std::filesystem::path& folder) {
  nlohmann::json config = parity::read_json(folder / "config.json");
  if (nlohmann::json& labels = config["id2label"]; labels.size() % 2 != 0) labels["further"] = "further";
  std::vector<Entry> only = {entry};
  std::swap(entries(), only);
  ModelConfig model = parse_config(config.dump(), folder.string());
  std::swap(entries(), only);
  model.entry = &entry;
  return model;
}

/// `batch` without the last of an odd number of positions, so that tp ranks divide them.
Batch with_even_sequences(Batch batch) {
  batch.tensors([](at::Tensor& tensor) {
    if (tensor.defined() && tensor.dim() == 2) tensor = tensor.narrow(1, 0, tensor.size(1) / 2 * 2);
  });
  return batch;
}

/// The cases of the entry's class that are compared on meshes, or all cases if none is.
std::vector<Case> get_cases(const Entry& entry) {
  std::vector<std::filesystem::path> all, on_meshes;
  for (const auto& folder : parity::folders("numbers")) {
    if (parity::read_json(folder / "config.json").at("architectures").at(0) != entry.architecture) continue;
    all.push_back(folder);
    if (parity::read_json(folder / "case.json").at("meshes")) on_meshes.push_back(folder);
  }
  if (all.empty()) throw std::runtime_error(fmt::format("tests/parity/cases has no case for {}", entry.architecture));
  std::vector<Case> cases;
  for (const auto& folder : on_meshes.empty() ? all : on_meshes) {
    Case added = {fmt::format("{}.{} of {}", entry.family, entry.architecture, folder.filename().string()),
                  config_for(entry, folder),
                  {}};
    added.batch = with_even_sequences(read_examples(SafetensorsFile(folder / "batch.safetensors"), added.model));
    cases.push_back(std::move(added));
  }
  return cases;
}

/// The cases of every entry that supports `shape`, only of one family if it is given.
std::vector<Case> cases_on(const MeshShape& shape, std::string_view family = "") {
  std::vector<Case> cases;
  for (const Entry& entry : entries()) {
    if (!family.empty() && entry.family != family) continue;
    for (Case& test : get_cases(entry))
      if (ParallelModel::error(entry, *test.model.config, shape).empty()) cases.push_back(std::move(test));
  }
  return cases;
}

at::Tensor random_values(const std::string& name, at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(std::hash<std::string>()(name)));
}

/// Adds random values, so that biases, norms and buffers differ from 0 and 1.
void disturb(std::vector<ShardedParameter>& parameters) {
  for (ShardedParameter& parameter : parameters)
    for (const ParameterSlice& slice : parameter.slices)
      slice.in_local(parameter.local)
          .add_(slice.in_global(random_values(parameter.name, parameter.global_shape)), /*alpha=*/0.15);
}

constexpr size_t kReplicatedNumbers = 3;  // numbers from this index on are partial sums of ranks

/// One forward and backward. Reports the loss and two numbers of the logits, which all ranks have, then two numbers for
/// each parameter of the unsharded model, in its order.
Report run(Mesh& mesh, const Case& test) {
  at::set_num_threads(1);
  const Entry& entry = *test.model.entry;
  std::map<std::string, size_t> indices;
  const Model full = entry.make(*test.model.config);
  for (const auto& parameter : full.module->named_parameters())
    indices.emplace(parameter.key(), kReplicatedNumbers + 2 * indices.size());
  Report report(kReplicatedNumbers + 2 * indices.size(), 0.0);

  ParallelModel model(entry, *test.model.config, mesh, {}, /*seed=*/11);
  at::NoGradGuard no_grad;
  disturb(model.parameters());
  disturb(model.buffers());
  model.parameters_changed();
  const at::Tensor logits = model.logits(test.batch).to(at::kDouble);
  report[1] = logits.square().sum().item<double>();
  report[2] = logits.mul(random_values("logits", logits.sizes())).sum().item<double>();
  {
    at::AutoGradMode with_gradients(true);
    report[0] = model.step({&test.batch, 1}).loss;
  }
  for (const ShardedParameter& parameter : model.parameters()) {
    const size_t index = indices.at(parameter.name);
    const at::Tensor vector = random_values(parameter.name, parameter.global_shape);
    for (const ParameterSlice& slice : parameter.slices) {
      if (!slice.owner) continue;
      const at::Tensor gradient = slice.in_local(parameter.grad).to(at::kDouble);
      report[index] += gradient.square().sum().item<double>();
      report[index + 1] += gradient.mul(slice.in_global(vector)).sum().item<double>();
    }
  }
  return report;
}

/// Combines the reports of all ranks for the run whose numbers begin at `first`.
Report combine(const std::vector<Report>& ranks, size_t first, size_t count) {
  Report found(count, 0.0);
  for (const Report& report : ranks)
    for (size_t i = 0; i < count; ++i)
      found[i] = i < kReplicatedNumbers ? report.at(first + i) : found[i] + report.at(first + i);
  return found;
}

/// Describes the first difference of `found` from `expected`; empty if there is none.
std::string find_difference(const Report& expected, const Report& found) {
  if (!(std::abs(found[0] - expected[0]) <= 1e-5 * std::abs(expected[0]) + 1e-6))
    return fmt::format("loss {} instead of {}", found[0], expected[0]);
  double all = 0.0;
  for (size_t i = kReplicatedNumbers; i < expected.size(); i += 2) all += expected[i];
  const auto differ = [&](size_t i, double floor) {
    const double norm = std::sqrt(expected[i]);
    return !(std::abs(std::sqrt(found[i]) - norm) <= 1e-3 * norm + floor &&
             std::abs(found[i + 1] - expected[i + 1]) <= 1e-3 * norm + floor);
  };
  for (size_t i = kReplicatedNumbers; i < expected.size(); i += 2)
    if (differ(i, 1e-5 * std::sqrt(all)))
      return fmt::format("gradient of norm {} instead of {} of parameter {}", std::sqrt(found[i]),
                         std::sqrt(expected[i]), (i - kReplicatedNumbers) / 2);
  if (differ(1, 0.0))
    return fmt::format("logits of norm {} instead of {}", std::sqrt(found[1]), std::sqrt(expected[1]));
  return "";
}

using NamedMesh = std::pair<const char*, MeshShape>;
const NamedMesh kTwoRanks = {"tp2", {{1, 1, 1, 1, 2}}}, kTwoStages = {"pp2", {{2, 1, 1, 1, 1}}};
constexpr std::chrono::seconds kLongTimeout{1500};

class Numbers : public ::testing::TestWithParam<NamedMesh> {};

TEST_P(Numbers, MatchOneProcess) {
  const auto& [name, shape] = GetParam();
  const std::vector<Case> cases = cases_on(shape);
  const auto reports = run_ranks(
      static_cast<int>(shape.ranks()),
      [&, &shape = shape](const Environment& environment) {
        Mesh mesh(environment, shape, {.device = at::kCPU});
        Report all;
        for (const Case& test : cases) {
          try {
            const Report report = run(mesh, test);
            all.insert(all.end(), report.begin(), report.end());
          } catch (const std::exception& error) {
            throw std::runtime_error(test.name + ": " + error.what());
          }
        }
        return all;
      },
      kLongTimeout);
  Mesh alone({}, {}, {.device = at::kCPU});
  size_t first = 0;
  for (const Case& test : cases) {
    const Report expected = run(alone, test);
    EXPECT_EQ(find_difference(expected, combine(reports, first, expected.size())), "") << test.name << " on " << name;
    first += expected.size();
  }
  std::set<const Entry*> run_entries;
  for (const Case& test : cases) run_entries.insert(test.model.entry);
  fmt::print("{} cases of {} entries on {}\n", cases.size(), run_entries.size(), name);
  for (const Entry& entry : entries())
    if (!run_entries.contains(&entry)) fmt::print("{}.{} is not supported there\n", entry.family, entry.architecture);
}

INSTANTIATE_TEST_SUITE_P(Meshes, Numbers, ::testing::Values(kTwoRanks, kTwoStages),
                         [](const auto& info) { return std::string(info.param.first); });

/// A woven call, and cases that reach it.
struct Call {
  std::string name;
  std::vector<const Case*> cases;
};

/// The family's calls for stages, or those for tensor-parallel ranks, each with up to `count` cases that reach it.
std::vector<Call> find_reached_calls(const std::string& family, const std::vector<Case>& cases, const MeshShape& shape,
                                     size_t count) {
  std::vector<Call> calls;
  for (const std::string& name : woven::calls())
    if (name.starts_with(family + ".h:") && (name.find(" pp::") != std::string::npos) == (shape[Axis::pp] > 1))
      calls.push_back({name, {}});
  Mesh alone({}, {}, {.device = at::kCPU});
  for (const Case& test : cases) {
    woven::reached.clear();
    run(alone, test);
    for (Call& call : calls)
      if (call.cases.size() < count && woven::reached.contains(call.name)) call.cases.push_back(&test);
  }
  return calls;
}

/// The numbers of one case without a call; empty if it cannot be computed.
Report run_without(const std::string& call, Mesh& mesh, const Case& test) {
  woven::removed = call;
  Report report;
  try {
    report = run(mesh, test);
  } catch (const std::exception&) {  // an expected effect of removing the call
  }
  woven::removed.clear();
  return report;
}

/// The effect of removing a call in a case, given the numbers of each rank; empty if there is none.
std::string find_effect(const Case& test, const std::vector<Report>& ranks, Mesh& alone) {
  if (std::ranges::any_of(ranks, &Report::empty)) return "cannot be computed";
  const Report expected = run(alone, test);
  return find_difference(expected, combine(ranks, 0, expected.size()));
}

/// Parameterized by family.
class WovenCalls : public ::testing::TestWithParam<std::string> {};

void expect_effect(const Call& call, const std::string& effect) {
  if (call.cases.empty() && call.name.ends_with(" tp::partial")) return;  // layers without a bias
  EXPECT_NE(effect, "") << "removing " << call.name << " changes nothing in " << call.cases.size() << " cases";
  fmt::print("{}: {}\n", call.name, effect);
}

TEST_P(WovenCalls, AreRequiredByTensorParallelRanks) {
  const MeshShape& shape = kTwoRanks.second;
  const std::vector<Case> cases = cases_on(shape, GetParam());
  const std::vector<Call> calls = find_reached_calls(GetParam(), cases, shape, 3);
  const auto reports = run_ranks(
      2,
      [&](const Environment& environment) {
        Mesh mesh(environment, shape, {.device = at::kCPU});
        Report all;
        for (const Call& call : calls)
          for (const Case* test : call.cases) {
            const Report report = run_without(call.name, mesh, *test);
            all.push_back(static_cast<double>(report.size()));
            all.insert(all.end(), report.begin(), report.end());
          }
        return all;
      },
      kLongTimeout);
  Mesh alone({}, {}, {.device = at::kCPU});
  std::vector<size_t> first(reports.size(), 0);
  for (const Call& call : calls) {
    std::string effect;
    for (const Case* test : call.cases) {
      std::vector<Report> ranks;
      for (size_t rank = 0; rank < reports.size(); ++rank) {
        const auto size = static_cast<std::ptrdiff_t>(reports[rank].at(first[rank]));
        const auto begin = reports[rank].begin() + static_cast<std::ptrdiff_t>(first[rank]) + 1;
        ranks.emplace_back(begin, begin + size);
        first[rank] += static_cast<size_t>(size) + 1;
      }
      if (effect.empty()) effect = find_effect(*test, ranks, alone);
    }
    expect_effect(call, effect);
  }
}

TEST_P(WovenCalls, AreRequiredByStages) {
  const MeshShape& shape = kTwoStages.second;
  const std::vector<Case> cases = cases_on(shape, GetParam());
  if (cases.empty()) GTEST_SKIP() << GetParam() << " is not split into stages";
  Mesh alone({}, {}, {.device = at::kCPU});
  for (const Call& call : find_reached_calls(GetParam(), cases, shape, 1)) {
    ASSERT_FALSE(call.cases.empty()) << call.name;
    // A stage that fails alone would leave the other one waiting, so the processes end after each call.
    const auto reports = run_ranks(2, [&](const Environment& environment) {
      Mesh mesh(environment, shape, {.device = at::kCPU});
      return run_without(call.name, mesh, *call.cases.front());
    });
    expect_effect(call, find_effect(*call.cases.front(), reports, alone));
  }
}

std::set<std::string> families_with_calls() {
  std::set<std::string> families;
  for (const std::string& call : woven::calls()) families.insert(call.substr(0, call.find('.')));
  return families;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, WovenCalls, ::testing::ValuesIn(families_with_calls()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modular::testing
