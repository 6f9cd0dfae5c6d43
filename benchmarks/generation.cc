// Greedy generation with a model of benchmarks/models.json, driven by benchmarks/generation: each line of input is a
// number of generations; each line of output is JSON with their wall and CPU seconds.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/shares.h"
#include "runtime/checkpoint/model_config.h"
#include "runtime/mesh/mesh.h"
#include "runtime/ops/cpu/cpu_caching_allocator.h"
#include "runtime/ops/fused.h"
#include "runtime/parallel/parallel_model.h"
#include "runtime/train/sampling.h"

namespace {

double seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

int main(int count, char** values) {
  using namespace modular;
  int threads = 2;
  std::string models = "benchmarks/models.json", name = "smollm2-135m";
  int64_t prompt = 32;
  bool bf16 = false, shares = false;
  SampleSection section;
  section.tokens = 64, section.batch = 1, section.temperature = 0.0;
  CLI::App app;
  app.add_option("--threads", threads);
  app.add_option("--models", models);
  app.add_option("--model", name);
  app.add_option("--batch", section.batch, "number of prompts generated together");
  app.add_option("--prompt", prompt, "tokens per prompt");
  app.add_option("--tokens", section.tokens, "tokens to generate per prompt");
  app.add_flag("--bf16", bf16, "compute in bfloat16");
  app.add_flag("--shares", shares, "print a breakdown of the time and exit");
  CLI11_PARSE(app, count, values);
  at::set_num_threads(threads);
  cpu::install_cpu_caching_allocator();
  install_fused_functions();

  const auto spec = nlohmann::json::parse(std::ifstream(models)).at(name);
  nlohmann::json described = spec.at("config");
  described["architectures"] = nlohmann::json::array({spec.at("entry")});
  const ModelConfig network = parse_config(described.dump(), name);
  Mesh mesh(Environment{}, MeshShape{});
  ParallelOptions options;
  options.bf16 = bf16;
  ParallelModel model(*network.entry, *network.config, mesh, options, /*seed=*/0);

  const at::Tensor ids = at::randint(2, 200, {section.batch, prompt}, at::kLong);
  std::vector<std::vector<int64_t>> prompts;
  for (int64_t row = 0; row < section.batch; ++row)
    prompts.emplace_back(ids[row].const_data_ptr<int64_t>(), ids[row].const_data_ptr<int64_t>() + prompt);
  const auto generate = [&] {
    for (const auto& text : sample(model, prompts, section, /*context=*/prompt + section.tokens, /*seed=*/0, {}))
      TORCH_CHECK(static_cast<int64_t>(text.size()) == section.tokens, "a text has ", text.size(), " tokens");
  };
  if (shares) {
    generate();
    print_shares(bf16 ? "bfloat16" : "float32", record(generate, nullptr));
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int left = std::stoi(line); left > 0; --left) generate();
    std::printf("{\"wall\": %.6f, \"processor\": %.6f}\n", seconds(CLOCK_MONOTONIC) - wall,
                seconds(CLOCK_PROCESS_CPUTIME_ID) - processor);
    std::fflush(stdout);
  }
}
