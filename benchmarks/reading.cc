// The rate in samples/s of a run's own readers without a step that consumes them: the batches of one rank, in the run's
// order, on one thread. Prints a JSON object.
//   benchmark_reading SECONDS KEY=VALUE…
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/datasets/run_datasets.h"

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int run(double seconds, const std::vector<std::string>& settings) {
  using namespace modular;
  at::set_num_threads(1);
  const RunConfig config = read_run_config({}, settings);
  const auto opened = std::chrono::steady_clock::now();
  const auto sets = open_training_data(config);
  const Dataset& samples = *sets.front().training;
  const int64_t tokens = samples.tokens();
  const double opening = seconds_since(opened);

  const BatchShape shape{.micro_batch = config.train.batch_size, .micro_batches = 1};
  const MixedSource source = mix(sets, shape, config.train.seed, config.data.group_by_length);
  DataPosition position;
  const auto began = std::chrono::steady_clock::now();
  do {
    source.at(position);
    position = source.after(position);
  } while (seconds_since(began) < seconds);
  fmt::print("{{\"opening\": {}, \"samples_per_second\": {}, \"samples\": {}, \"tokens\": {}}}\n", opening,
             static_cast<double>(position.samples) / seconds_since(began), samples.count(), tokens);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: benchmark_reading SECONDS KEY=VALUE…\n");
    return 2;
  }
  try {
    return run(std::stod(argv[1]), {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "benchmark_reading: {}\n", error.what());
    return 2;
  }
}
