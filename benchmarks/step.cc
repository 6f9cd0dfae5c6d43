// A training step of a model of benchmarks/models.json, driven by benchmarks/throughput: each line of input is a number
// of steps; each line of output is JSON with their wall and CPU seconds, and on a GPU the peak of the memory of
// tensors. With several ranks, the first one reads and answers.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "benchmarks/machine_rates.h"
#include "benchmarks/recording.h"
#include "benchmarks/shares.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/metrics/step_trace.h"
#include "runtime/model/tasks.h"
#include "runtime/ops/cpu/cpu_caching_allocator.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/train/device_usage.h"

namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Arguments {
  int threads = 2;
  std::string models = "benchmarks/models.json", model = "llama-5m";
  std::string parallel = "fsdp";       // with several ranks: ddp, fsdp (ZeRO-3), zero1 or zero2
  std::string device = "cpu";          // or cuda
  std::string trace;                   // file for the trace of one step, after which the program exits
  bool plain = false;                  // no fused functions
  bool bf16 = false;                   // compute in bfloat16
  std::vector<std::string> float8;     // modules whose linear layers compute in float8
  std::vector<std::string> recompute;  // operations whose results the backward recomputes
  bool shares = false;                 // print a breakdown of a step's time and exit
  bool roof = false;                   // print the machine's rates and each kind of operation against them, and exit
  double dropout = -1.0;               // of the attention weights, for Llamas; the config's if negative
};

Arguments parse(int count, char** values) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    const auto next = [&] {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      return std::stoi(values[++i]);
    };
    if (name == "--threads") {
      arguments.threads = next();
    } else if (name == "--models" || name == "--model") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      (name == "--models" ? arguments.models : arguments.model) = values[++i];
    } else if (name == "--parallel" || name == "--device" || name == "--trace") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      (name == "--parallel" ? arguments.parallel
       : name == "--device" ? arguments.device
                            : arguments.trace) = values[++i];
    } else if (name == "--dropout") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      arguments.dropout = std::stod(values[++i]);
    } else if (name == "--plain") {
      arguments.plain = true;
    } else if (name == "--recompute") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      arguments.recompute.emplace_back(values[++i]);
    } else if (name == "--float8") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      arguments.float8.emplace_back(values[++i]);
    } else if (name == "--bf16") {
      arguments.bf16 = true;
    } else if (name == "--shares") {
      arguments.shares = true;
    } else if (name == "--roof") {
      arguments.roof = true;
    } else {
      TORCH_CHECK(false, "unknown option ", name);
    }
  }
  return arguments;
}

using json = nlohmann::json;

/// Random ids, images and labels of the sizes in `spec`.
modular::Batch random_batch(const json& spec, const modular::Entry& entry, int64_t ranks) {
  using enum modular::Task::Labels;
  const modular::Task& task = *modular::find_task(entry.task);
  const json& config = spec.at("config");
  const int64_t rows = spec.at("batch").get<int64_t>() / ranks, ids = 200;  // smaller than every vocabulary
  modular::Batch batch;
  if (spec.contains("seq")) {
    batch.input_ids = at::randint(2, ids, {rows, spec["seq"].get<int64_t>()}, at::kLong);
    if (spec.contains("last_id")) batch.input_ids.select(1, -1).fill_(spec["last_id"].get<int64_t>());
  }
  if (const int64_t image = spec.value("image", 0)) batch.pixel_values = at::randn({rows, 3, image, image});
  if (task.labels == each_row)
    batch.labels = at::randint(config.value("num_labels", 1), {rows}, at::kLong);
  else if (task.labels == each_target_token)
    batch.labels = at::randint(2, ids, {rows, spec.at("target_seq").get<int64_t>()}, at::kLong);
  else
    batch.labels = batch.input_ids;
  return batch;
}

/// Initializes the model on its device, with the distributions of a new model but other random numbers: those that are
/// the same on every mesh take a CPU ten seconds per billion.
void initialize_on_device(modular::ParallelModel& model) {
  for (modular::ShardedParameter& parameter : model.parameters()) {
    const bool is_vector = parameter.global_shape.size() == 1;
    is_vector ? parameter.local.fill_(parameter.name.ends_with("bias") ? 0.0 : 1.0)
              : parameter.local.normal_(0.0, 0.02);
  }
  for (modular::ShardedParameter& buffer : model.buffers()) buffer.local.zero_();
  model.parameters_changed();
}

}  // namespace

int main(int count, char** values) {
  using namespace modular;
  const Arguments arguments = parse(count, values);
  at::set_num_threads(arguments.threads);
  if (!arguments.plain) cpu::install_cpu_caching_allocator();

  const json spec = json::parse(std::ifstream(arguments.models)).at(arguments.model);
  json described = spec.at("config");
  described["architectures"] = json::array({spec.at("entry")});
  if (arguments.dropout >= 0.0) described["attention_dropout"] = arguments.dropout;
  const ModelConfig network = parse_config(described.dump(), arguments.model);
  const auto environment = Environment::from_process();
  MeshShape shape;
  shape[arguments.parallel == "ddp" ? Axis::dp_replicate : Axis::dp_shard] = environment.world_size;
  Mesh mesh(environment, shape, {.device = at::Device(arguments.device), .collective_timeout = std::chrono::hours(2)});
  // After Mesh, which loads the GPU's library.
  if (!arguments.plain) install_fused_functions();
  ParallelOptions options;
  options.bf16 = arguments.bf16;
  options.float8 = arguments.float8;
  options.recompute.operations = arguments.recompute;
  options.zero_stage = arguments.parallel == "zero1" ? 1 : arguments.parallel == "zero2" ? 2 : 3;
  options.initialize = mesh.device().is_cpu();
  ParallelModel model(*network.entry, *network.config, mesh, options, /*seed=*/0);
  if (!options.initialize) initialize_on_device(model);
  Optimizer optimizer(model.parameters(), OptimizerOptions{}, mesh);

  Batch batch = random_batch(spec, *network.entry, environment.world_size);
  const auto step = [&] {
    const LaunchedStep launched = model.launch_step({&batch, 1});
    optimizer.step(1e-3, clipping_to(1.0, find_gradient_norm(model.parameters(), mesh, launched.loss())));
    model.parameters_changed();
    return model.finish_step(launched).loss;
  };

  if (arguments.shares || arguments.roof) {
    const auto rates = arguments.roof ? std::optional(measure_machine(arguments.threads)) : std::nullopt;
    const char* const type = arguments.bf16 ? "bfloat16" : "float32";
    for (int warm_up = 0; warm_up < 3; ++warm_up) step();
    if (rates) {
      // The fastest of ten steps, because other load on the machine slows the rest.
      Recording fastest = record(step, &*rates);
      for (int i = 1; i < 10; ++i)
        if (Recording another = record(step, &*rates); another.seconds < fastest.seconds) fastest = std::move(another);
      print_roofline((arguments.model + ", " + type).c_str(), fastest, arguments.bf16 ? rates->bf16 : rates->float32);
    } else {
      print_shares(type, record(
                             [&] {
                               for (int i = 0; i < 5; ++i) step();
                             },
                             nullptr));
    }
    return 0;
  }
  if (!arguments.trace.empty()) {
    for (int warm_up = 0; warm_up < 3; ++warm_up) step();
    StepTrace trace(arguments.trace, {0}, mesh.device());
    trace.begin(0);
    step();
    trace.end(0);
    return 0;
  }
  const auto read_steps = [&] {
    at::Tensor steps = at::zeros({1}, at::kLong);
    if (std::string line; mesh.rank() == 0 && std::getline(std::cin, line)) steps.fill_(std::stoi(line));
    broadcast(mesh.control(), steps, 0, "the number of steps").wait();
    return steps.item<int64_t>();
  };
  while (const int64_t steps = read_steps()) {
    const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double loss = 0.0;
    for (int64_t i = 0; i < steps; ++i) loss = step();
    if (mesh.rank() != 0) continue;
    json answer = {{"wall", seconds(CLOCK_MONOTONIC) - wall},
                   {"processor", seconds(CLOCK_PROCESS_CPUTIME_ID) - processor},
                   {"loss", loss}};
    if (!mesh.device().is_cpu()) answer["memory"] = memory_peak(mesh.device());
    std::printf("%s\n", answer.dump().c_str());
    std::fflush(stdout);
  }
}
