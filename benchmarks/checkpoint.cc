// The cost of saving to training steps, interleaved: steps without saving, steps while a checkpoint is written in the
// background, and steps after one in the foreground. Prints one JSON object per measurement. One process, a Llama of
// about 100 million parameters with AdamW.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "generated/llama.h"
#include "runtime/checkpoint/checkpoint_saver.h"
#include "runtime/mesh/mesh.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/parallel_model.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

int main(int count, char** values) {
  using namespace modular;
  std::string folder;
  std::map<std::string, int64_t> numbers = {{"--threads", 2}, {"--batch", 4},  {"--seq", 128},
                                            {"--layers", 12}, {"--rounds", 5}, {"--steps", 4}};
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::string(values[i]) == "--folder") {
      folder = values[i + 1];
    } else {
      TORCH_CHECK(numbers.contains(values[i]), "unknown option ", values[i]);
      numbers[values[i]] = std::stoll(values[i + 1]);
    }
  }
  TORCH_CHECK(!folder.empty(), "--folder is not set: give the folder to write checkpoints to");
  at::set_num_threads(static_cast<int>(numbers["--threads"]));
  install_fused_functions();

  auto config = std::make_shared<ConfigOf<llama::LlamaConfig>>();
  config->value.vocab_size = 10240;
  config->value.hidden_size = 768;
  config->value.intermediate_size = 2048;
  config->value.num_hidden_layers = numbers["--layers"];
  config->value.num_attention_heads = 12;
  config->value.max_position_embeddings = numbers["--seq"];
  config->finish();
  ModelConfig network{.config = config};
  for (const Entry& entry : entries())
    if (entry.architecture == "LlamaForCausalLM") network.entry = &entry;
  TORCH_INTERNAL_ASSERT(network.entry);

  Mesh mesh(Environment{}, MeshShape{}, {.device = at::kCPU});
  ParallelModel model(*network.entry, *config, mesh, {}, /*seed=*/0);
  Optimizer optimizer(model.parameters(), OptimizerOptions{}, mesh);
  std::vector<TensorSlice> slices = get_slices(model);
  for (TensorSlice& slice : get_slices(optimizer.state())) slices.push_back(std::move(slice));
  int64_t bytes = 0;
  for (const TensorSlice& slice : slices) bytes += static_cast<int64_t>(slice.local.nbytes());

  Batch batch;
  batch.input_ids = batch.labels =
      at::randint(config->value.vocab_size, {numbers["--batch"], numbers["--seq"]}, at::kLong);
  CheckpointSaver background({.folder = folder, .keep_last = 1}, network, mesh),
      foreground({.folder = folder, .keep_last = 1, .background = false}, network, mesh);
  double waited = 0.0;  // seconds that the last step waited for the copy
  const auto step = [&] {
    const auto begin = Clock::now();
    model.step({&batch, 1});
    const Clipping clipping = clipping_to(1.0, find_gradient_norm(model.parameters(), mesh));
    const auto copied = Clock::now();
    background.wait_for_copy();
    waited = since(copied);
    optimizer.step(1e-4, clipping);
    model.parameters_changed();
    return since(begin);
  };
  const auto print = [](const char* turn, double stall, double complete, const std::vector<double>& steps) {
    fmt::print("{{\"turn\": \"{}\", \"stall\": {:.6f}, \"complete\": {:.6f}, \"steps\": [{:.6f}]}}\n", turn, stall,
               complete, fmt::join(steps, ", "));
    std::fflush(stdout);
  };

  background.reserve_copies(slices);
  for (int64_t i = 0; i < 2; ++i) step();

  int64_t saved = 0;
  for (int64_t round = 0; round <= numbers["--rounds"]; ++round) {
    std::vector<double> steps;
    for (int64_t i = 0; i < numbers["--steps"]; ++i) steps.push_back(step());
    print("alone", 0.0, 0.0, steps);

    steps.clear();
    auto begin = Clock::now();
    background.begin({.step = ++saved, .values = {}}, slices);
    double stall = since(begin);
    for (bool complete = false; !complete;) {
      steps.push_back(step());
      const auto after = Clock::now();
      complete = background.go_on(background.progress()).has_value();
      stall += waited + since(after);
    }
    // The first round is the first that uses the copy's memory.
    print(round == 0 ? "first background" : "background", stall, since(begin), steps);

    steps.clear();
    begin = Clock::now();
    foreground.begin({.step = ++saved, .values = {}}, slices);
    foreground.finish();
    stall = since(begin);
    for (int64_t i = 0; i < numbers["--steps"]; ++i) steps.push_back(step());
    if (round > 0) print("foreground", stall, stall, steps);
  }

  std::vector<at::Tensor> sources;
  for (const TensorSlice& slice : slices) sources.push_back(slice.local);
  HostCopy copy;
  double fastest = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto copies = copy.begin(sources);
    const auto begin = Clock::now();
    copy.run(/*among_others=*/false);
    fastest = std::min(fastest, since(begin));
  }
  fmt::print("{{\"turn\": \"copy\", \"bytes\": {}, \"stall\": {:.6f}}}\n", bytes, fastest);
}
