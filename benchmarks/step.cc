// A training step of the generated Llama, served: the driver (benchmarks/throughput) says how many steps to run, this
// answers how long they took. Each line of input is a number of steps; each line of output is JSON with the wall and
// the processor seconds of them. Of several ranks the first reads and answers.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>

#include "benchmarks/shares.h"
#include "generated/llama.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/mesh.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/clip.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"

namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Arguments {
  int threads = 2;
  int64_t batch = 16, seq = 256;
  std::string parallel = "fsdp";  // of several ranks: ddp, fsdp (ZeRO-3), zero1 or zero2
  bool plain = false;             // nothing fused
  bool bf16 = false;              // compute in bfloat16
  bool shares = false;            // print where a step's time goes, and stop
  double dropout = 0.0;           // of attention's shares
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
    } else if (name == "--batch") {
      arguments.batch = next();
    } else if (name == "--seq") {
      arguments.seq = next();
    } else if (name == "--parallel") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      arguments.parallel = values[++i];
    } else if (name == "--dropout") {
      TORCH_CHECK(i + 1 < count, name, " needs a value");
      arguments.dropout = std::stod(values[++i]);
    } else if (name == "--plain") {
      arguments.plain = true;
    } else if (name == "--bf16") {
      arguments.bf16 = true;
    } else if (name == "--shares") {
      arguments.shares = true;
    } else {
      TORCH_CHECK(false, "unknown option ", name);
    }
  }
  return arguments;
}

}  // namespace

int main(int count, char** values) {
  using namespace modular;
  const Arguments arguments = parse(count, values);
  at::set_num_threads(arguments.threads);
  if (!arguments.plain) install_fused_functions();

  ConfigOf<llama::LlamaConfig> config;
  config.value.vocab_size = 256;
  config.value.hidden_size = 256;
  config.value.intermediate_size = 688;
  config.value.num_hidden_layers = 6;
  config.value.num_attention_heads = 8;
  config.value.max_position_embeddings = arguments.seq;
  config.value.attention_dropout = arguments.dropout;
  config.finish();

  const Entry* llama = nullptr;
  for (const Entry& entry : entries())
    if (entry.architecture == "LlamaForCausalLM") llama = &entry;
  TORCH_INTERNAL_ASSERT(llama);
  const auto environment = Environment::from_process();
  MeshShape shape;
  shape[arguments.parallel == "ddp" ? Axis::dp_replicate : Axis::dp_shard] = environment.world_size;
  Mesh mesh(environment, shape, {.device = at::kCPU, .collective_timeout = std::chrono::hours(2)});
  ParallelOptions options;
  options.bf16 = arguments.bf16;
  options.zero_stage = arguments.parallel == "zero1" ? 1 : arguments.parallel == "zero2" ? 2 : 3;
  ParallelModel model(*llama, config, mesh, options, /*seed=*/0);
  Optimizer optimizer(model.parameters(), OptimizerOptions{}, mesh);

  Batch batch;
  batch.input_ids = batch.labels =
      at::randint(config.value.vocab_size, {arguments.batch / environment.world_size, arguments.seq}, at::kLong);
  const auto step = [&] {
    const double loss = model.step({&batch, 1}).loss;
    clip_gradients(model.parameters(), gradient_norm(model.parameters(), mesh), 1.0);
    optimizer.step(1e-3);
    model.parameters_changed();
    return loss;
  };

  if (arguments.shares) {
    for (int warm_up = 0; warm_up < 3; ++warm_up) step();
    print_shares(arguments.bf16 ? "bfloat16" : "float32", [&] {
      for (int i = 0; i < 5; ++i) step();
    });
    return 0;
  }
  const auto asked_steps = [&] {
    at::Tensor steps = at::zeros({1}, at::kLong);
    if (std::string line; mesh.rank() == 0 && std::getline(std::cin, line)) steps.fill_(std::stoi(line));
    broadcast(mesh.world(), steps, 0, "the number of steps").wait();
    return steps.item<int64_t>();
  };
  while (const int64_t asked = asked_steps()) {
    const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double loss = 0.0;
    for (int64_t i = 0; i < asked; ++i) loss = step();
    if (mesh.rank() != 0) continue;
    std::printf("{\"wall\": %.6f, \"processor\": %.6f, \"loss\": %.6f}\n", seconds(CLOCK_MONOTONIC) - wall,
                seconds(CLOCK_PROCESS_CPUTIME_ID) - processor, loss);
    std::fflush(stdout);
  }
}
