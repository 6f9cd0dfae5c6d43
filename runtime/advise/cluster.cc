#include "runtime/advise/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace modular {

std::optional<double> parse_speed(const std::string& text) {
  static constexpr std::array<std::pair<std::string_view, double>, 13> kUnits = {{{"B/s", 1.0},
                                                                                  {"KB/s", 1e3},
                                                                                  {"MB/s", 1e6},
                                                                                  {"GB/s", 1e9},
                                                                                  {"TB/s", 1e12},
                                                                                  {"KiB/s", 0x1p10},
                                                                                  {"MiB/s", 0x1p20},
                                                                                  {"GiB/s", 0x1p30},
                                                                                  {"TiB/s", 0x1p40},
                                                                                  {"Kb/s", 1e3 / 8},
                                                                                  {"Mb/s", 1e6 / 8},
                                                                                  {"Gb/s", 1e9 / 8},
                                                                                  {"Tb/s", 1e12 / 8}}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  std::string_view unit(end);
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const auto known = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (end == text.c_str() || known == kUnits.end() || !(number > 0.0 && number < 1e15)) return {};
  return number * known->second;
}

std::string format_bytes(double bytes) {
  return bytes < 0x1p30 ? fmt::format("{:.1f} MiB", bytes / 0x1p20) : fmt::format("{:.1f} GiB", bytes / 0x1p30);
}

std::string find_error(const Cluster& cluster) {
  constexpr int64_t kMost = 1 << 16;
  if (cluster.nodes < 1 || cluster.nodes > kMost)
    return fmt::format("--nodes is {}: give the number of machines, from 1 to {}", cluster.nodes, kMost);
  if (cluster.per_node < 1 || cluster.per_node > kMost / cluster.nodes)
    return fmt::format("--per-node is {} with --nodes {}: give the number of devices per machine, at most {} in total",
                       cluster.per_node, cluster.nodes, kMost);
  const struct {
    const char* option;
    double value;
    const char* example;
  } needed[] = {{"--memory", cluster.memory, "80GiB"},
                {"--link", cluster.link, "450GB/s"},
                {"--between", cluster.between, "25GB/s"},
                {"--host", cluster.host, "25GB/s"},
                {"--flops", cluster.flops, "989e12"}};
  for (const auto& [option, value, example] : needed) {
    const bool matters = cluster.devices() > 1 || std::string_view(option) != "--link";
    const bool crosses = cluster.nodes > 1 || std::string_view(option) != "--between";
    if (matters && crosses && !(value > 0.0))
      return fmt::format("{} is missing: pass e.g. {} {}, or name the device with --device", option, option, example);
  }
  if (!(cluster.attained > 0.0 && cluster.attained <= 1.0))
    return fmt::format(
        "--attained is {}: give the fraction of --flops that large matmuls attain, above 0 and at most 1",
        cluster.attained);
  if (!(cluster.reserve >= 0.0 && cluster.reserve < 1.0))
    return fmt::format("--reserve is {}: give the fraction of --memory that libraries take, at least 0 and less than 1",
                       cluster.reserve);
  if (!(cluster.cost >= 0.0)) return fmt::format("--cost is {}: give the cost of a device per hour", cluster.cost);
  return {};
}

}  // namespace modular
