// `modrun bench`: compares parallelism strategies on the user's own model, data and machine. Each strategy is measured
// by separate jobs (`modrun measure`), and the strategies take turns, so that a temporarily slower machine affects all
// of them.
#include <stdlib.h>

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "runtime/config/config_field.h"
#include "runtime/datasets/partitions.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/launch/launcher.h"
#include "runtime/launch/temporary_folder.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/status.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/optim/optimizer.h"
#include "runtime/plan/run_plan.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/preflight.h"
#include "runtime/train/resolved_config.h"

namespace modular {

namespace {

/// Measurements of the steps after warm-up; the maximum over ranks unless stated otherwise.
struct Measurement {
  std::vector<double> seconds;  // per step, on rank 0
  double samples_per_step = 0.0;
  double memory_peak = 0.0;  // bytes
  double collectives = 0.0;  // collectives per step
  double bytes = 0.0;        // bytes per step that a rank receives
  double loss = 0.0;         // mean over the mesh at the last step
};

using Clock = std::chrono::steady_clock;

/// Time at which the device has finished all submitted work.
Clock::time_point now_on(const at::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  return Clock::now();
}

/// Maximum over ranks.
double largest(Mesh& mesh, double value, const char* what) {
  at::Tensor all = at::full({1}, value, at::kDouble);
  all_reduce(mesh.control(), all, what, c10d::ReduceOp::MAX).wait();
  return all.item<double>();
}

/// Trains `warm_up` and then `steps` steps of `run`, from its first sample and from initial weights, regardless of
/// model.checkpoint. Writes nothing. Collective.
Measurement measure(Run& run, Mesh& mesh, int64_t warm_up, int64_t steps) {
  const RunConfig& config = run.config;
  const auto seed = static_cast<uint64_t>(config.train.seed);
  ParallelModel model(*config.network.entry, *config.network.config, mesh, config.parallel_options(), seed);
  Optimizer optimizer(model.parameters(), config.optim, mesh);
  open_partitions(config, run.sets);
  const BatchShape shape = config.batch_shape(run.mesh, mesh.coordinate(kRowAxes));
  const MixedSource source = mix(run.sets, shape, config.train.seed, config.data.group_by_length);
  DataPosition position;

  Measurement measured{.samples_per_step = static_cast<double>(shape.global())};
  Traffic before;
  for (int64_t step = 0; step < warm_up + steps; ++step) {
    set_phase(fmt::format("step {} of the measurement", step + 1));
    auto batches = source.at(position);
    position = source.after(position);
    barrier(mesh.control(), "the ranks before a step");
    if (step == warm_up) before = traffic();
    const auto begin = now_on(mesh.device());
    const LaunchedStep launched = model.launch_step(batches, step);
    const GradientNorm gradient = find_gradient_norm(model.parameters(), mesh, launched.loss());
    optimizer.step(config.schedule().at(step), clipping_to(config.optim.max_grad_norm, gradient));
    model.parameters_changed();
    measured.loss = model.finish_step(launched).loss;
    if (step >= warm_up)
      measured.seconds.push_back(std::chrono::duration<double>(now_on(mesh.device()) - begin).count());
  }
  const auto a_step = [&](double count) { return count / static_cast<double>(steps); };
  measured.collectives = largest(mesh, a_step(static_cast<double>(traffic().collectives - before.collectives)),
                                 "the number of collectives");
  measured.bytes = largest(mesh, a_step(traffic().bytes - before.bytes), "the bytes received");
  measured.memory_peak = largest(mesh, static_cast<double>(memory_peak(mesh.device())), "the memory");
  return measured;
}

namespace fs = std::filesystem;

struct MeasureArguments : ConfigArguments {
  int64_t steps = 50, warm_up = 3;
  fs::path report;  // empty for standard output
};

struct BenchArguments : ConfigArguments {
  int64_t ranks = 2;
  std::vector<std::string> strategies = {"none", "dp", "ddp", "zero1", "zero2", "fsdp", "tp", "pp"};
  int64_t steps = 50, rounds = 5;  // steps of all rounds
  std::string format = "markdown";
};

constexpr int64_t kWarmUp = 3;  // steps per turn that are not counted

/// How a strategy distributes a run over `ranks` ranks.
struct Strategy {
  std::string_view name;
  std::string_view axis;  // the axis that gets all ranks; empty for one rank
  int64_t zero_stage = 0;
  bool threads = false;  // that many replicas on threads of one rank
};
constexpr Strategy kStrategies[] = {
    {"none", ""},
    {"dp", "", 0, /*threads=*/true},
    {"ddp", "dp_replicate"},
    {"zero1", "dp_shard", 1},
    {"zero2", "dp_shard", 2},
    {"fsdp", "dp_shard", 3},
    {"tp", "tp"},
    {"cp", "cp"},
    {"pp", "pp"},
};

/// A strategy in this bench and its measurements.
struct Entrant {
  const Strategy& strategy;
  int64_t ranks = 1;
  std::vector<std::string> overrides;  // in addition to the user's
  std::string error;                   // why it does not run; empty if it does
  std::string launch;                  // command to train with this strategy
  std::vector<Measurement> turns;
};

std::vector<std::string> make_trial_config(const Strategy& strategy, int64_t ranks, int64_t micro_batches) {
  std::vector<std::string> overrides;
  for (const std::string_view axis : {"pp", "dp_replicate", "dp_shard", "cp", "tp"})
    overrides.push_back(fmt::format("parallel.{}={}", axis, axis == strategy.axis ? ranks : 1));
  if (strategy.zero_stage > 0) overrides.push_back(fmt::format("parallel.zero_stage={}", strategy.zero_stage));
  overrides.push_back(fmt::format("parallel.dp_threads={}", strategy.threads ? ranks : 1));
  if (strategy.axis != "pp") overrides.emplace_back("parallel.cuts=[]");
  // More micro-batches shorten the pipeline bubble.
  if (strategy.axis == "pp")
    overrides.push_back(fmt::format("train.micro_batches={}", std::max(micro_batches, 2 * ranks)));
  return overrides;
}

const Strategy& strategy_named(const std::string& name) {
  const auto found = std::ranges::find(kStrategies, name, &Strategy::name);
  if (found != std::end(kStrategies)) return *found;
  std::vector<std::string_view> known;
  for (const Strategy& strategy : kStrategies) known.push_back(strategy.name);
  throw ConfigError(fmt::format("--strategies has unknown \"{}\": choose from {}", name, fmt::join(known, ", ")));
}

MeasureArguments with(const BenchArguments& arguments, const std::vector<std::string>& overrides) {
  MeasureArguments measured{arguments};
  measured.overrides.insert(measured.overrides.end(), overrides.begin(), overrides.end());
  return measured;
}

PreparedCommand prepare_measure(const MeasureArguments& arguments, const Environment& env) {
  auto config = read_run_config_for(arguments);
  fit_memory(config, env.world_size);
  const auto run = std::make_shared<Run>(prepare_run(std::move(config), {.measured = true}, env.world_size));
  PreparedCommand command;
  command.mesh = run->mesh;
  command.options = run->config.mesh_options();
  command.options.resolved_config = resolved_config(env.world_size, run->config, run->sets, /*reads_weights=*/false);
  command.options.resolved_config.emplace_back("--steps and --warm-up",
                                               fmt::format("{}, {}", arguments.steps, arguments.warm_up));
  command.before_ranks = [run] { validate_datasets(run->config, run->sets); };
  command.run = [run, arguments](Mesh& mesh) {
    const Measurement measured = measure(*run, mesh, arguments.warm_up, arguments.steps);
    if (mesh.rank() != 0) return 0;
    const nlohmann::ordered_json report = {{"seconds", measured.seconds},
                                           {"samples_per_step", measured.samples_per_step},
                                           {"memory_peak", measured.memory_peak},
                                           {"collectives", measured.collectives},
                                           {"bytes", measured.bytes},
                                           {"loss", measured.loss}};
    if (arguments.report.empty()) {
      print_data(report.dump(2) + "\n");
    } else if (!(std::ofstream(arguments.report) << report.dump(2) << "\n").flush()) {
      throw std::runtime_error(fmt::format("{} cannot be written", arguments.report.string()));
    }
    return 0;
  };
  return command;
}

/// Why the run of `arguments` cannot be measured; empty if it can.
std::string find_error(const MeasureArguments& arguments, int64_t ranks) {
  try {
    prepare_measure(arguments, {.world_size = ranks});
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Runs one turn of an entrant.
Measurement take_turn(const BenchArguments& arguments, const Entrant& entrant, int64_t steps, const fs::path& report) {
  auto words = config_words("measure", with(arguments, entrant.overrides));
  words.insert(words.end(),
               {"--steps", std::to_string(steps), "--warm-up", std::to_string(kWarmUp), "--report", report.string()});
  const int status = launch_self({.ranks_per_node = entrant.ranks}, words);
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with status {}", entrant.strategy.name, status));
  std::ifstream in(report);
  const auto json = nlohmann::json::parse(in);
  return {.seconds = json.at("seconds"),
          .samples_per_step = json.at("samples_per_step"),
          .memory_peak = json.at("memory_peak"),
          .collectives = json.at("collectives"),
          .bytes = json.at("bytes"),
          // JSON has no non-finite numbers.
          .loss = json.at("loss").is_null() ? std::numeric_limits<double>::quiet_NaN() : json.at("loss").get<double>()};
}

/// Samples/s by the median step of all turns.
double samples_per_second(const Entrant& entrant) {
  std::vector<double> seconds;
  for (const Measurement& turn : entrant.turns) seconds.insert(seconds.end(), turn.seconds.begin(), turn.seconds.end());
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  const double median = seconds.size() % 2 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return entrant.turns.front().samples_per_step / median;
}

/// A word quoted for a POSIX shell.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The command to train with this strategy. Omits options at their defaults, unless the user's own options distribute
/// the run over several ranks already.
std::string launch_line(const BenchArguments& arguments, const ParallelSection& given, const Entrant& entrant) {
  static const std::set<std::string> by_default = {
      "parallel.pp=1", "parallel.dp_replicate=1", "parallel.dp_shard=1",  "parallel.cp=1",
      "parallel.tp=1", "parallel.cuts=[]",        "parallel.dp_threads=1"};
  const bool says_all = given.pp > 1 || given.dp_replicate > 1 || given.dp_shard > 1 || given.cp > 1 || given.tp > 1 ||
                        given.dp_threads > 1;
  std::vector<std::string> words = {"modrun"};
  if (entrant.ranks > 1) words.insert(words.end(), {"--nproc-per-node", std::to_string(entrant.ranks)});
  words.emplace_back("train");
  if (!arguments.config.empty()) words.push_back(arguments.config.string());
  for (const auto& setting : arguments.overrides) words.insert(words.end(), {"--set", quoted(setting)});
  if (arguments.trust_folder) words.emplace_back("--trust-folder");
  for (const auto& setting : entrant.overrides)
    if (says_all || !by_default.contains(setting)) words.insert(words.end(), {"--set", setting});
  return fmt::format("{}", fmt::join(words, " "));
}

nlohmann::ordered_json as_json(const std::vector<Entrant>& entrants) {
  auto rows = nlohmann::ordered_json::array();
  for (const Entrant& entrant : entrants) {
    nlohmann::ordered_json row = {{"strategy", entrant.strategy.name}};
    if (!entrant.error.empty()) {
      row["rejected"] = entrant.error;
    } else {
      const Measurement& last = entrant.turns.back();
      row["launch"] = entrant.launch;
      row["ranks"] = entrant.ranks;
      row["samples_per_second"] = samples_per_second(entrant);
      row["memory_bytes"] = last.memory_peak;
      row["collectives_per_step"] = last.collectives;
      row["bytes_per_step"] = last.bytes;
      row["loss"] = last.loss;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string as_markdown(const std::vector<Entrant>& entrants) {
  const auto alone = std::ranges::find_if(
      entrants, [](const Entrant& entrant) { return entrant.strategy.name == "none" && entrant.error.empty(); });
  std::string text =
      "| strategy | samples/s | speed-up | memory/rank | collectives/step | received/step | loss | launch |\n"
      "|---|---|---|---|---|---|---|---|\n";
  std::string rejected;
  for (const Entrant& entrant : entrants) {
    if (!entrant.error.empty()) {
      rejected += fmt::format("{} does not run: {}\n", entrant.strategy.name, entrant.error);
      continue;
    }
    const Measurement& last = entrant.turns.back();
    const double rate = samples_per_second(entrant);
    const std::string speed_up =
        alone == entrants.end() ? "" : fmt::format("{:.2f}", rate / samples_per_second(*alone));
    text += fmt::format("| {} | {:.1f} | {} | {:.0f} MiB | {:.0f} | {:.2f} MiB | {:.4f} | `{}` |\n",
                        entrant.strategy.name, rate, speed_up, last.memory_peak / (1 << 20), last.collectives,
                        last.bytes / (1 << 20), last.loss, entrant.launch);
  }
  if (!rejected.empty()) text.append("\n").append(rejected);
  return text;
}

void run_bench(const BenchArguments& arguments) {
  const auto config = read_run_config_for(arguments);
  const int64_t ranks = arguments.ranks;
  std::vector<Entrant> entrants;
  for (const auto& name : arguments.strategies) {
    const Strategy& strategy = strategy_named(name);
    Entrant& entrant = entrants.emplace_back(Entrant{strategy, strategy.axis.empty() ? 1 : ranks});
    entrant.overrides = make_trial_config(strategy, ranks, config.train.micro_batches);
    entrant.launch = launch_line(arguments, config.parallel, entrant);
    entrant.error = find_error(with(arguments, entrant.overrides), entrant.ranks);
  }
  if (std::ranges::none_of(entrants, [](const Entrant& entrant) { return entrant.error.empty(); }))
    throw ConfigError(fmt::format("none of the strategies runs: {}", entrants.front().error));

  const auto first = std::ranges::find_if(entrants, [](const Entrant& entrant) { return entrant.error.empty(); });
  prepare_measure(with(arguments, first->overrides), {.world_size = first->ranks}).before_ranks();

  // The same cores for each strategy's ranks.
  setenv("OMP_NUM_THREADS", std::to_string(threads_per_rank(ranks)).c_str(), /*overwrite=*/0);
  const std::string threads = getenv("OMP_NUM_THREADS");
  at::set_num_threads(1);                            // the launcher handles signals on its only thread
  setenv("MODULAR_LAUNCHED", "1", /*overwrite=*/1);  // the checks of a job have been done here
  const TemporaryFolder folder("name another by TMPDIR");
  const int64_t rounds = std::min(arguments.rounds, arguments.steps);
  for (int64_t round = 0; round < rounds; ++round)
    for (Entrant& entrant : entrants) {
      if (!entrant.error.empty()) continue;
      // Splits --steps over all rounds.
      const int64_t steps = arguments.steps * (round + 1) / rounds - arguments.steps * round / rounds;
      // A process with several replicas gets the threads of that many ranks.
      const int64_t replicas = entrant.strategy.threads ? ranks : 1;
      setenv("OMP_NUM_THREADS", std::to_string(replicas * std::atoll(threads.c_str())).c_str(), /*overwrite=*/1);
      entrant.turns.push_back(take_turn(arguments, entrant, steps, folder.path() / "report.json"));
      print_to(stderr, "round {} of {}: {} {:.1f} samples/s\n", round + 1, rounds, entrant.strategy.name,
               samples_per_second(entrant));
    }

  if (arguments.format == "json") return print_data(as_json(entrants).dump(2) + "\n");
  print_result("{}, {} samples per step, {} ranks with OMP_NUM_THREADS={}, median of {} steps in {} turns\n\n{}",
               config.network.entry->architecture, config.train.batch_size, ranks, threads, arguments.steps, rounds,
               as_markdown(entrants));
}

}  // namespace

ParsedCommand declare_bench(CLI::App& app) {
  const auto arguments = std::make_shared<BenchArguments>();
  add_config_options(app, *arguments);
  app.add_option("--ranks", arguments->ranks, "ranks per strategy; default: 2")->check(above_zero());
  app.add_option("--strategies", arguments->strategies,
                 "strategies: none (one rank), dp (one process, one thread per replica), ddp, zero1, zero2, fsdp, tp "
                 "and pp")
      ->delimiter(',');
  app.add_option("--steps", arguments->steps, "measured steps per strategy, over all rounds")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--rounds", arguments->rounds, "rounds in which the strategies take turns")
      ->check(above_zero())
      ->capture_default_str();
  app.add_option("--format", arguments->format, "markdown or json")->check(CLI::IsMember({"markdown", "json"}));
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return run_bench(*arguments), 0; });
}

ParsedCommand declare_measure(CLI::App& app) {
  const auto arguments = std::make_shared<MeasureArguments>();
  add_config_options(app, *arguments);
  app.add_option("--steps", arguments->steps, "measured steps")->check(above_zero())->capture_default_str();
  app.add_option("--warm-up", arguments->warm_up, "steps before the measured ones")
      ->check(not_negative())
      ->capture_default_str();
  app.add_option("--report", arguments->report, "JSON file to write; default: standard output");
  return RankCommand([arguments](const Environment& env) { return prepare_measure(*arguments, env); });
}

}  // namespace modular
