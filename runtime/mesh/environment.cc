#include "runtime/mesh/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace modular {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}

/// Parses `text` as a number. With `rest`, a prefix is enough, and `rest` receives the text after it.
std::optional<int64_t> number_in(std::string_view text, int64_t smallest, int64_t largest,
                                 std::string_view* rest = nullptr) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || (!rest && parsed.ptr != end) || value < smallest || value > largest) return {};
  if (rest) *rest = {parsed.ptr, end};
  return value;
}

std::optional<int64_t> number(const char* name, int64_t smallest, int64_t largest) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  const auto value = number_in(*text, smallest, largest);
  if (!value)
    throw std::runtime_error(fmt::format("the environment variable {} is \"{}\": it must be an integer from {} to {}",
                                         name, *text, smallest, largest));
  return value;
}

constexpr int64_t kMaxRanks = std::numeric_limits<int32_t>::max();

/// The variable names of one launcher.
struct Names {
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
};

int64_t required(const char* name, const char* because, int64_t smallest, int64_t largest) {
  const auto value = number(name, smallest, largest);
  if (!value) throw std::runtime_error(fmt::format("{} is set but {} is not: set both, or neither", because, name));
  return *value;
}

Environment read(const Names& names) {
  Environment environment;
  environment.world_size = required(names.world_size, names.rank, 1, kMaxRanks);
  environment.rank = required(names.rank, names.world_size, 0, kMaxRanks);
  if (environment.rank >= environment.world_size)
    throw std::runtime_error(fmt::format("{}={} must be below {}={}", names.rank, environment.rank, names.world_size,
                                         environment.world_size));
  environment.local_rank = number(names.local_rank, 0, kMaxRanks).value_or(0);
  environment.local_world_size = number(names.local_world_size, 1, kMaxRanks).value_or(1);
  if (environment.local_rank >= environment.local_world_size)
    throw std::runtime_error(fmt::format("{}={} must be below {}={}", names.local_rank, environment.local_rank,
                                         names.local_world_size, environment.local_world_size));
  return environment;
}

/// Number of tasks on this node, from Slurm's "2(x3),1" (which lists all nodes) or from the count per node.
int64_t slurm_local_tasks(int64_t local_rank) {
  if (const auto text = variable("SLURM_STEP_TASKS_PER_NODE")) {
    std::string_view rest;
    const auto tasks = number_in(*text, 1, kMaxRanks, &rest);
    if (!tasks)
      throw std::runtime_error(
          fmt::format("the environment variable SLURM_STEP_TASKS_PER_NODE is \"{}\": it must begin with an integer "
                      "from 1 to {}, as in \"4(x2)\": unset it, or start the job with srun",
                      *text, kMaxRanks));
    const bool same_everywhere = rest.find(',') == std::string_view::npos;
    if (same_everywhere) return std::max(*tasks, local_rank + 1);
  }
  return number("SLURM_NTASKS_PER_NODE", 1, kMaxRanks).value_or(local_rank + 1);
}

Environment from_slurm() {
  Environment environment;
  environment.world_size = required("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 1, kMaxRanks);
  environment.rank = required("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 0, environment.world_size - 1);
  environment.local_rank = number("SLURM_LOCALID", 0, kMaxRanks).value_or(0);
  environment.local_world_size = slurm_local_tasks(environment.local_rank);
  if (const auto nodes = variable("SLURM_STEP_NODELIST")) environment.master_addr = first_slurm_host(*nodes);
  // All ranks must choose the same port before they can communicate, so it is derived from the job and step ids, as is
  // common with Slurm.
  const int64_t job = number("SLURM_JOB_ID", 0, std::numeric_limits<int64_t>::max()).value_or(0);
  const int64_t step = number("SLURM_STEP_ID", 0, std::numeric_limits<uint32_t>::max()).value_or(0);
  environment.master_port = static_cast<uint16_t>(15000 + (job * 16 + step % 16) % 15000);
  return environment;
}

}  // namespace

std::string first_slurm_host(const std::string& node_list) {
  const size_t end = node_list.find_first_of(",[");
  std::string host = node_list.substr(0, end);
  if (end == std::string::npos || node_list[end] == ',') return host;
  const size_t number_end = node_list.find_first_of(",-]", end + 1);
  if (number_end == std::string::npos)
    throw std::runtime_error(fmt::format("cannot read Slurm's node list \"{}\": set MASTER_ADDR", node_list));
  host += node_list.substr(end + 1, number_end - end - 1);
  // The text after the bracket belongs to the name of every host.
  const size_t bracket = node_list.find(']', number_end);
  if (bracket == std::string::npos)
    throw std::runtime_error(fmt::format("cannot read Slurm's node list \"{}\": set MASTER_ADDR", node_list));
  const size_t name_end = node_list.find_first_of(",[", bracket + 1);
  return host + node_list.substr(bracket + 1, name_end == std::string::npos ? name_end : name_end - bracket - 1);
}

Environment Environment::from_process() {
  Environment environment;
  if (variable("RANK") || variable("WORLD_SIZE")) {
    environment = read({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  } else if (variable("SLURM_STEP_NUM_TASKS") && variable("SLURM_PROCID")) {
    // Not SLURM_NTASKS: it is also set in a batch script's own shell, where a single process runs.
    environment = from_slurm();
  } else if (variable("OMPI_COMM_WORLD_RANK")) {
    environment = read(
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  } else {
    return environment;
  }

  if (const auto address = variable("MASTER_ADDR")) {
    environment.master_addr = *address;
  } else if (!environment.one_machine() && environment.master_addr == "127.0.0.1") {
    throw std::runtime_error("the job spans machines but MASTER_ADDR is not set: set it to the host name of rank 0");
  }
  if (const auto port = number("MASTER_PORT", 1, std::numeric_limits<uint16_t>::max()))
    environment.master_port = static_cast<uint16_t>(*port);
  if (environment.world_size > 1 && environment.master_port == 0)
    throw std::runtime_error(
        "MASTER_PORT is not set: set it to a free port of rank 0's machine, the same on all ranks");

  const auto agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  environment.launcher_hosts_store = agent == "True" || agent == "1";
  environment.attempt = number("TORCHELASTIC_RESTART_COUNT", 0, kMaxRanks).value_or(0);
  environment.store_prefix = variable("MODULAR_STORE_PREFIX").value_or("");
  return environment;
}

}  // namespace modular
