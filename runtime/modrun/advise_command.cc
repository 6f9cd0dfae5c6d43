// `modrun advise`: recommends a mesh for a run.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <limits>

#include "runtime/advise/advice.h"
#include "runtime/config/known_devices.h"
#include "runtime/mesh/libraries.h"
#include "runtime/mesh/print.h"
#include "runtime/modrun/commands.h"
#include "runtime/modrun/run_config.h"
#include "runtime/train/device_usage.h"
#include "runtime/train/machine_memory.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

/// The cluster to advise on, and what to print.
struct AdviseArguments : ConfigArguments {
  int64_t nodes = 1, top = 5;
  std::optional<int64_t> per_node;
  std::string device, memory, link, between, host = "25GB/s", memory_speed;
  std::optional<double> flops, attained;
  double reserve = 0.08, cost = 0.0;
  std::string format = "text";
  bool as_is = false;         // use the config's own mesh instead of searching
  std::filesystem::path out;  // config to write; empty for none
};

void set_speed(double& speed, const char* option, const std::string& text) {
  if (text.empty()) return;
  const auto read = parse_speed(text);
  if (!read)
    throw ConfigError(
        fmt::format("{} is \"{}\": give a number with its unit: B/s, KB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, "
                    "TiB/s, or bits as Kb/s, Mb/s, Gb/s, Tb/s, e.g. 450GB/s",
                    option, text));
  speed = *read;
}

constexpr int64_t kUsualDevices = 8;     // per machine
constexpr double kOfDataSheet = 0.5;     // fraction of the peak that large matmuls reach
constexpr double kOfMeasuredPeak = 0.8;  // of a peak measured with large matmuls
// Bytes between CPU ranks are copied into and out of the kernel, and summed.
constexpr double kCopiesOfALink = 4.0;

/// Memory bandwidth of all cores in bytes/s, measured by copies of tensors larger than the caches.
double copy_rate() {
  constexpr int kTimes = 3;
  const at::Tensor from = at::ones({int64_t{16} << 20}), to = at::zeros_like(from);
  double least = std::numeric_limits<double>::infinity();
  for (int time = 0; time < kTimes; ++time) {
    const auto begin = std::chrono::steady_clock::now();
    to.copy_(from);
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 2.0 * static_cast<double>(from.nbytes()) / least;
}

void use(Cluster& cluster, const KnownDevice& device, bool bf16) {
  cluster.memory = device.memory;
  cluster.link = device.link;
  cluster.between = device.between;
  cluster.memory_speed = device.memory_speed;
  cluster.flops = bf16 ? device.bf16 : device.fp32;
}

/// Ranks on a machine like this one share its cores and memory.
void use_cpu(Cluster& cluster, bool bf16) {
  const auto ranks = static_cast<double>(std::max<int64_t>(cluster.per_node, 1));
  cluster.memory = static_cast<double>(machine_memory()) / ranks;
  cluster.flops = matrix_rate(bf16) / ranks;
  cluster.memory_speed = copy_rate() / ranks;
  cluster.link = *cluster.memory_speed / kCopiesOfALink;
  cluster.attained = kOfMeasuredPeak;
}

/// The device of --device or, if no device options are given, this machine's. Null for CPU, nullopt if unknown.
std::optional<const KnownDevice*> find_device(const AdviseArguments& given, bool has_peak) {
  if (given.device == "cpu") return nullptr;
  if (!given.device.empty()) {
    if (const KnownDevice* const named = device_by_name(given.device)) return named;
    throw ConfigError(
        fmt::format("--device is \"{}\": write cpu, or one of {}; or leave it out, and give --memory, "
                    "--flops, --link and --memory-speed of another device",
                    given.device, names_of_known_devices()));
  }
  if (has_peak || given.flops || !given.memory.empty() || !given.link.empty() || !given.memory_speed.empty()) return {};
  if (gpu_count() == 0) return nullptr;
  const std::string make = cuda_library().device_model(at::Device(at::kCUDA, 0));
  if (const KnownDevice* const here = device_by_make(make)) return here;
  throw ConfigError(
      fmt::format("no data sheet for {} is known: give --memory, --flops, --link and --memory-speed, or name a similar "
                  "device by --device: {}",
                  make, names_of_known_devices()));
}

Cluster make_cluster(const AdviseArguments& given, const MetricsSection& metrics, const ParallelSection& parallel) {
  const double peak_of_config = metrics.peak_tflops * 1e12;
  const bool bf16 = parallel.bf16;
  const auto device = find_device(given, peak_of_config > 0.0);
  const bool is_cpu = device && !*device, is_named = !given.device.empty();
  Cluster cluster;
  cluster.nodes = given.nodes;
  cluster.per_node = given.per_node.value_or(is_cpu ? 1 : device && !is_named ? gpu_count() : kUsualDevices);
  if (is_cpu) use_cpu(cluster, bf16);
  if (device && *device) {
    if (!parallel.float8.empty() && (*device)->fp8 == 0.0)
      throw ConfigError(
          fmt::format("parallel.float8 is for devices with 8-bit matmuls, which {} does not have: leave it out, or "
                      "name another --device",
                      (*device)->name));
    use(cluster, **device, bf16);
  }
  if (!given.memory.empty()) {
    const auto memory = get_bytes(given.memory);
    if (!memory)
      throw ConfigError(
          fmt::format("--memory is \"{}\": give a device's memory with its unit: B, KB, MB, GB, TB, KiB, MiB, GiB or "
                      "TiB, e.g. 80GiB",
                      given.memory));
    cluster.memory = static_cast<double>(*memory);
  }
  set_speed(cluster.link, "--link", given.link);
  set_speed(cluster.between, "--between", given.between);
  set_speed(cluster.host, "--host", given.host);
  if (!given.memory_speed.empty()) set_speed(cluster.memory_speed.emplace(), "--memory-speed", given.memory_speed);
  if (peak_of_config > 0.0) cluster.flops = peak_of_config;
  if (given.flops) cluster.flops = *given.flops;
  if (given.flops || peak_of_config > 0.0 || !is_cpu) cluster.attained = kOfDataSheet;
  if (given.attained) cluster.attained = *given.attained;
  cluster.reserve = given.reserve;
  cluster.cost = given.cost;
  if (device)
    print_to(stderr,
             "{}, {}: {} of memory, {:.4g} TFLOP/s in {}, {:.4g} GB/s memory bandwidth, {:.4g} GB/s to another one\n",
             is_cpu ? "cpu" : (*device)->name,
             is_cpu ? "measured here, per rank" : fmt::format("by its data sheet ({})", (*device)->data_sheet),
             format_bytes(cluster.memory), cluster.flops * 1e-12, bf16 ? "bfloat16" : "float32",
             cluster.speed_of_memory() * 1e-9, cluster.link * 1e-9);
  return cluster;
}

std::string launch_line(const Cluster& cluster, const std::filesystem::path& config) {
  std::string nodes;
  if (cluster.nodes > 1)
    nodes = fmt::format("--nnodes {} --node-rank N --master-addr HOST --master-port PORT ", cluster.nodes);
  return fmt::format("modrun {}--nproc-per-node {} train {}", nodes, cluster.per_node, config.string());
}

void show_advice(const AdviseArguments& given) {
  RunConfig config = read_run_config_for(given);
  if (config.train.epochs > 0.0) {
    int64_t samples = 0;
    for (const RunDataset& set : open_training_data(config)) samples += set.training->count();
    config.train.steps = count_steps(config.train, samples);
  }
  const Cluster cluster = make_cluster(given, config.metrics, config.parallel);
  Advice advice = given.as_is ? assess(config, cluster) : advise(config, cluster, given.top);
  const std::string report = format_report(advice, config, cluster, given.format);
  const auto print_report = [&] {
    if (given.format == "json") return print_data(report);
    print_result("{}", report);
  };
  if (given.out.empty()) return print_report();
  const std::string launch = launch_line(cluster, given.out);
  std::ofstream out(given.out);
  if (!(out << "# " << launch << "\n\n" << format_toml(advice.configs.front())).flush())
    throw ConfigError(fmt::format("--out {} cannot be written: name a file in an existing folder", given.out.string()));
  print_report();
  std::fflush(stdout);
  print_to(stderr, "wrote {}: {}\n", given.out.string(), launch);
}

}  // namespace

ParsedCommand declare_advise(CLI::App& app) {
  const auto arguments = std::make_shared<AdviseArguments>();
  add_config_options(app, *arguments);
  app.add_option("--nodes", arguments->nodes, "machines")->capture_default_str();
  app.add_option("--per-node", arguments->per_node,
                 "devices per machine; default: this machine's if they are used, else 8");
  app.add_option("--device", arguments->device,
                 "cpu, or a device with a known data sheet: " + names_of_known_devices() +
                     "; default: this machine's, unless other device options are given");
  app.add_option("--memory", arguments->memory, "memory per device, e.g. 80GiB; default: by --device");
  app.add_option("--link", arguments->link, "bandwidth between devices of a machine, per direction, e.g. 450GB/s");
  app.add_option("--between", arguments->between,
                 "bandwidth between devices of two machines if all devices communicate, e.g. 25GB/s");
  app.add_option("--host", arguments->host, "bandwidth between a device and host memory")->capture_default_str();
  app.add_option("--flops", arguments->flops,
                 "a device's peak in operations/s, e.g. 989e12; default: metrics.peak_tflops, or by --device");
  app.add_option("--attained", arguments->attained,
                 "fraction of that peak that large matmuls reach; default: 0.5, or 0.8 of a measured peak");
  app.add_option("--memory-speed", arguments->memory_speed,
                 "bandwidth of device memory, e.g. 3.35TB/s; default: by --device, or one byte per 250 of --flops");
  app.add_option("--reserve", arguments->reserve, "fraction of --memory for libraries and fragmentation")
      ->capture_default_str();
  app.add_option("--cost", arguments->cost, "cost per device and hour, in any currency");
  app.add_option("--top", arguments->top, "number of meshes to show")->check(above_zero())->capture_default_str();
  app.add_flag("--as-is", arguments->as_is, "evaluate CONFIG's own mesh and options there, without a search");
  app.add_option("--out", arguments->out, "write CONFIG with the best mesh as a TOML file to train with");
  app.add_option("--format", arguments->format, "text, markdown or json")
      ->check(CLI::IsMember({"text", "markdown", "json"}));
  return LocalCommand([arguments](const LaunchOptions&, int64_t) { return show_advice(*arguments), 0; });
}

}  // namespace modular
