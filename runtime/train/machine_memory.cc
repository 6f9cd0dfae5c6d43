#include "runtime/train/machine_memory.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/config/config_errors.h"
#include "runtime/data/model_inputs.h"
#include "runtime/optim/optimizer.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// The number in a file that holds one; nullopt otherwise.
std::optional<int64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  int64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

/// Whether the run computes on GPUs, whose own memory is the limit.
bool is_on_gpus(const TrainSection& train) { return train.device != "cpu" && fs::exists("/dev/nvidiactl"); }

std::string gibibytes(double bytes) { return fmt::format("{:.1f} GiB", bytes / 0x1p30); }

std::string ranks_of_machine(int64_t ranks) {
  return ranks == 1 ? "the one rank of this machine" : fmt::format("the {} ranks of this machine", ranks);
}

/// A rank's samples per step if they are cut out of texts, with length train.seq_len; 0 for other samples.
double samples_of_rank(const RunConfig& config, const MeshShape& mesh) {
  if (config.reads(&DataFormat::holds_samples)) return 0.0;
  return static_cast<double>(config.train.batch_size) / static_cast<double>(mesh.ranks(kRowAxes));
}

/// Checks the memory of a step's ids and labels, which are read before the step, and of the first layer's hidden states
/// of a micro-batch.
void check_batch_memory(const RunConfig& config, const MeshShape& mesh, int64_t local_ranks, int64_t memory) {
  const auto length = static_cast<double>(config.train.seq_len), ranks = static_cast<double>(local_ranks);
  const double samples = samples_of_rank(config, mesh);
  const auto unless_it_fits = [&](double bytes, std::string_view what, std::string_view remedy) {
    if (bytes * ranks <= static_cast<double>(memory)) return;
    throw_option_error(
        config, "train.batch_size",
        fmt::format("train.batch_size = {} samples of train.seq_len = {} tokens: {} take {} on {}, which has "
                    "{} of memory: {}",
                    config.train.batch_size, config.train.seq_len, what, gibibytes(bytes * ranks),
                    ranks_of_machine(local_ranks), gibibytes(static_cast<double>(memory)), remedy));
  };
  unless_it_fits(samples * length * 2.0 * sizeof(int64_t), "their ids and labels", "lower one of the two");
  if (is_on_gpus(config.train) || config.train.micro_batches < 1) return;  // 0: as many as fit
  const double micro_batch = samples / static_cast<double>(config.train.micro_batches);
  const auto hidden = static_cast<double>(model_count(config.network, "hidden_size").value_or(0));
  unless_it_fits(
      micro_batch * length * hidden * (config.parallel.bf16 ? 2.0 : 4.0) / static_cast<double>(mesh[Axis::cp]),
      fmt::format("the hidden states of one layer, with train.micro_batches = {},", config.train.micro_batches),
      "raise train.micro_batches, or lower one of the two");
}

}  // namespace

int64_t machine_memory() {
  struct sysinfo machine{};
  ::sysinfo(&machine);
  int64_t memory = static_cast<int64_t>(machine.totalram + machine.totalswap) * static_cast<int64_t>(machine.mem_unit);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (const auto allowed = number_in(file)) memory = std::min(memory, *allowed);
  return memory;
}

double least_memory(const RunConfig& config, const MeshShape& mesh) {
  double all = 0.0, trained = 0.0;
  for (const ModelParameter& parameter : model_parameters(config.network)) {
    const auto elements = static_cast<double>(c10::multiply_integers(parameter.global_shape));
    all += elements;
    if (parameter.trainable) trained += elements;
  }
  if (!config.optim.frozen.empty() || config.network.lora) trained = 0.0;  // lower bound
  const int64_t stage = config.parallel.zero_stage;
  const auto shards = static_cast<double>(mesh.ranks(kShardAxes));
  const double elements = all / (stage >= 3 ? shards : 1.0) + trained / (stage >= 2 ? shards : 1.0) +
                          trained * optimizer_kind(config.optim.name).least_state(config.optim) / shards;
  return elements * sizeof(float) / static_cast<double>(mesh[Axis::tp] * mesh[Axis::pp]);
}

void check_machine_memory(const RunConfig& config, const MeshShape& mesh, int64_t local_ranks, int64_t memory) {
  check_batch_memory(config, mesh, local_ranks, memory);
  if (is_on_gpus(config.train)) return;
  const double needed = least_memory(config, mesh) * static_cast<double>(local_ranks);
  if (needed <= static_cast<double>(memory)) return;
  throw ConfigError(
      fmt::format("{} is too large: its parameters, their gradients and the state of {} take {} on {}, which has {} of "
                  "memory: use more machines, another optimizer, or a smaller model",
                  config.network.entry->architecture, config.optim.name, gibibytes(needed),
                  ranks_of_machine(local_ranks), gibibytes(static_cast<double>(memory))));
}

}  // namespace modular
