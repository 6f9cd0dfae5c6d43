// `modrun advise`: which mesh to train a run on.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "runtime/advise/advice.h"
#include "runtime/advise/report.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

void set_speed(double& speed, const char* option, const std::string& text) {
  if (text.empty()) return;
  const auto read = speed_of(text);
  if (!read)
    throw ConfigError(
        fmt::format("{} is \"{}\": give a number with its unit: B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, "
                    "TiB/s, or bits as Kb/s, Mb/s, Gb/s, Tb/s, e.g. 450GB/s",
                    option, text));
  speed = *read;
}

Cluster cluster_of(const AdviseArguments& given, int64_t peak_flops_of_config) {
  Cluster cluster;
  cluster.nodes = given.nodes;
  cluster.per_node = given.per_node;
  const auto memory = bytes_of(given.memory);
  if (!memory)
    throw ConfigError(
        fmt::format("--memory is \"{}\": give what a device holds with its unit: B, KB, MB, GB, TB, KiB, MiB, GiB or "
                    "TiB, e.g. 80GiB",
                    given.memory));
  cluster.memory = static_cast<double>(*memory);
  set_speed(cluster.link, "--link", given.link);
  set_speed(cluster.between, "--between", given.between);
  set_speed(cluster.host, "--host", given.host);
  if (!given.memory_speed.empty()) set_speed(cluster.memory_speed.emplace(), "--memory-speed", given.memory_speed);
  cluster.flops = given.flops > 0.0 ? given.flops : static_cast<double>(peak_flops_of_config);
  cluster.attained = given.attained;
  cluster.reserve = given.reserve;
  cluster.cost = given.cost;
  return cluster;
}

std::string launch_line(const Cluster& cluster, const std::filesystem::path& config) {
  std::string nodes;
  if (cluster.nodes > 1)
    nodes = fmt::format("--nnodes {} --node-rank N --master-addr HOST --master-port PORT ", cluster.nodes);
  return fmt::format("modrun {}--nproc-per-node {} train {}", nodes, cluster.per_node, config.string());
}

}  // namespace

void show_advice(const Arguments& arguments) {
  const AdviseArguments& given = arguments.advise;
  RunConfig config = read_config_of(arguments);
  if (config.train.epochs > 0.0) {
    int64_t samples = 0;
    for (const DataSet& set : find_data_sets(config))
      samples += prepare_samples(config, set, Split::training, 0)->count();
    count_steps(config, samples);
  }
  const Cluster cluster = cluster_of(given, static_cast<int64_t>(config.metrics.peak_tflops * 1e12));
  Advice advice = given.as_is ? assess(config, cluster) : advise(config, cluster, given.top);
  const std::string report = report_of(advice, config, cluster, given.format);
  const auto print_report = [&] {
    if (given.format == "json") return print_data(report);
    print_result("{}", report);
  };
  if (given.out.empty()) return print_report();
  const std::string launch = launch_line(cluster, given.out);
  std::ofstream out(given.out);
  if (!(out << "# " << launch << "\n\n" << format_toml(advice.configs.front())).flush())
    throw ConfigError(
        fmt::format("--out {} cannot be written: name a file in a folder that is there", given.out.string()));
  print_report();
  std::fflush(stdout);
  print_to(stderr, "{} is written: {}\n", given.out.string(), launch);
}

}  // namespace modular
