#include "runtime/advise/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace modular {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

std::string seconds(double time) {
  if (time == 0.0) return "0";
  return time < 0.1 ? fmt::format("{:.2f} ms", time * 1e3) : fmt::format("{:.3g} s", time);
}

std::string to_offload(const Layout& layout) {
  switch (layout.offload) {
    case Offloaded::nothing:
      return "nothing";
    case Offloaded::optimizer:
      return "optimizer";
    case Offloaded::parameters:
      return "parameters";
  }
  return {};
}

struct NamedAxis {
  const char* name;
  AxisTime time;
  double bytes;
};

std::vector<NamedAxis> find_axes(const StepTime& time) {
  return {{"pp", time.pp, time.bytes.pp},
          {"dp_replicate", time.dp_replicate, time.bytes.dp_replicate},
          {"dp_shard", time.dp_shard, time.bytes.dp_shard},
          {"cp", time.cp, time.bytes.cp},
          {"tp", time.tp, time.bytes.tp}};
}

Rows layout_rows(const Advice& advice, const TrainSection& train, const Cluster& cluster) {
  Rows rows = {{"", "mesh", "micro-batches x rows", "schedule", "recompute", "offload", "memory", "step", "samples/s",
                "idle", "run"}};
  if (cluster.cost > 0.0) rows[0].emplace_back("cost");
  for (const Choice& choice : advice.choices) {
    const Layout& layout = choice.layout;
    const StepTime& time = choice.time;
    auto& row = rows.emplace_back();
    row = {fmt::format("{}", rows.size() - 1),
           layout.describe(),
           fmt::format("{} x {:.0f}", layout.micro_batches, choice.rows),
           layout.pp > 1 ? layout.schedule : "",
           advice.model.keepings[layout.keeping].setting,
           to_offload(layout),
           fmt::format("{}{}", format_bytes(choice.memory()), choice.planned ? "" : " (estimate)"),
           seconds(time.total),
           fmt::format("{:.1f}",
                       choice.rows * static_cast<double>(layout.micro_batches * layout.data_parallel()) / time.total),
           fmt::format("{:.0f} %", 100.0 * time.idle_fraction()),
           fmt::format("{:.1f} h", run_hours(train, time))};
    if (cluster.cost > 0.0) row.push_back(fmt::format("{:.0f}", run_cost(train, time, cluster)));
  }
  return rows;
}

Rows time_rows(const Advice& advice) {
  Rows rows = {{"", "compute", "recompute", "update", "bubble"}};
  for (const NamedAxis& axis : find_axes({})) rows[0].push_back(fmt::format("exposed {}", axis.name));
  rows[0].insert(rows[0].end(), {"exposed host", "hidden", "step"});
  for (const Choice& choice : advice.choices) {
    const StepTime& time = choice.time;
    auto& row = rows.emplace_back();
    row = {fmt::format("{}", rows.size() - 1), seconds(time.compute), seconds(time.recomputed), seconds(time.update),
           seconds(time.bubble)};
    for (const NamedAxis& axis : find_axes(time)) row.push_back(seconds(axis.time.exposed));
    row.insert(row.end(), {seconds(time.host.exposed), seconds(time.hidden()), seconds(time.total)});
  }
  return rows;
}

Rows byte_rows(const Advice& advice) {
  Rows rows = {{"", "MiB received per step over"}};
  for (const NamedAxis& axis : find_axes({})) rows[0].emplace_back(axis.name);
  for (const Choice& choice : advice.choices) {
    auto& row = rows.emplace_back();
    row = {fmt::format("{}", rows.size() - 1), ""};
    for (const NamedAxis& axis : find_axes(choice.time)) row.push_back(fmt::format("{:.1f}", axis.bytes / 0x1p20));
  }
  return rows;
}

std::string as_text(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) {
    for (size_t column = 0; column < row.size(); ++column) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      text += column < 2 ? fmt::format("  {:<{}}", row[column], width) : fmt::format("  {:>{}}", row[column], width);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  return text;
}

std::string as_markdown(const Rows& rows) {
  std::string text;
  for (size_t number = 0; number < rows.size(); ++number) {
    text += "|";
    for (const std::string& cell : rows[number]) text += fmt::format(" {} |", cell);
    text += "\n";
    if (number > 0) continue;
    text += "|";
    for (size_t column = 0; column < rows[0].size(); ++column) text += "---|";
    text += "\n";
  }
  return text;
}

std::string get_head(const Advice& advice, const RunConfig& config, const Cluster& cluster) {
  return fmt::format("{} with {:.2f} M parameters, {} rows per step, on {} {} of {} {}",
                     config.network.entry->architecture, advice.model.elements() / 1e6, config.train.batch_size,
                     cluster.nodes, cluster.nodes == 1 ? "node" : "nodes", cluster.per_node,
                     cluster.per_node == 1 ? "device" : "devices");
}

std::string to_tables(const Advice& advice, const RunConfig& config, const Cluster& cluster,
                      const std::string& format) {
  const bool markdown = format == "markdown";
  const auto table = [&](const Rows& rows) { return "\n" + (markdown ? as_markdown(rows) : as_text(rows)); };
  std::string text = get_head(advice, config, cluster) + "\n\n";
  for (const std::string& sentence : advice.guide.sentences) text += fmt::format("- {}\n", sentence);
  text += table(layout_rows(advice, config.train, cluster)) + table(time_rows(advice)) + table(byte_rows(advice));
  text += fmt::format("\n{} layouts estimated, {} fit by estimate, {} planned\n", advice.tried, advice.fitting,
                      advice.planned);
  return text;
}

Json as_json(const MemoryEstimate& memory) {
  return {{"peak", memory.peak},
          {"parameters", memory.parameters},
          {"gathered", memory.gathered},
          {"gradients", memory.gradients},
          {"unreduced", memory.unreduced},
          {"optimizer", memory.optimizer},
          {"activations", memory.activations},
          {"working", memory.working}};
}

Json as_json(const Choice& choice, const Advice& advice, const TrainSection& train, const Cluster& cluster) {
  const Layout& layout = choice.layout;
  const StepTime& time = choice.time;
  Json volume = Json::object();
  for (const NamedAxis& axis : find_axes(time))
    volume[axis.name] = {{"bytes", axis.bytes}, {"seconds", axis.time.all}, {"waited", axis.time.exposed}};
  volume["host"] = {{"seconds", time.host.all}, {"waited", time.host.exposed}};
  const double samples = choice.rows * static_cast<double>(layout.micro_batches * layout.data_parallel());
  Json json = {{"mesh",
                {{"pp", layout.pp},
                 {"dp_replicate", layout.dp_replicate},
                 {"dp_shard", layout.dp_shard},
                 {"cp", layout.cp},
                 {"tp", layout.tp}}},
               {"zero_stage", layout.zero_stage},
               {"micro_batches", layout.micro_batches},
               {"rows", choice.rows},
               {"schedule", layout.schedule},
               {"recompute", advice.model.keepings[layout.keeping].setting},
               {"offload", to_offload(layout)}};
  json["memory"] = choice.planned ? Json(*choice.planned) : Json(nullptr);
  json["estimated_memory"] = as_json(choice.estimated);
  json["fits"] = choice.memory() <= cluster.usable_memory();
  json["seconds"] = {{"step", time.total},    {"compute", time.compute}, {"again", time.recomputed},
                     {"update", time.update}, {"bubble", time.bubble},   {"hidden", time.hidden()}};
  json["communication"] = volume;
  json["idle_fraction"] = time.idle_fraction();
  json["samples_per_second"] = samples / time.total;
  json["mfu"] =
      samples * advice.model.flops_of_row / time.total / (cluster.flops * static_cast<double>(cluster.devices()));
  json["hours"] = run_hours(train, time);
  json["cost"] = run_cost(train, time, cluster);
  return json;
}

Json as_json(const Advice& advice, const RunConfig& config, const Cluster& cluster) {
  static constexpr const char* kFits[] = {"model", "layer", "not even a layer"};
  Json choices = Json::array();
  for (const Choice& choice : advice.choices) choices.push_back(as_json(choice, advice, config.train, cluster));
  return {{"model", config.network.entry->architecture},
          {"parameters", advice.model.elements()},
          {"nodes", cluster.nodes},
          {"per_node", cluster.per_node},
          {"usable_memory", cluster.usable_memory()},
          {"case",
           {{"fits", kFits[static_cast<size_t>(advice.guide.fit)]},
            {"many_nodes", advice.guide.many_nodes},
            {"fast_between", advice.guide.fast_between},
            {"model_bytes", advice.guide.model_bytes},
            {"layer_bytes", advice.guide.layer_bytes},
            {"sentences", advice.guide.sentences}}},
          {"tried", advice.tried},
          {"fitting", advice.fitting},
          {"planned", advice.planned},
          {"choices", choices}};
}

}  // namespace

std::string format_report(const Advice& advice, const RunConfig& config, const Cluster& cluster,
                          const std::string& format) {
  if (format == "json") return as_json(advice, config, cluster).dump(2) + "\n";
  return to_tables(advice, config, cluster, format);
}

}  // namespace modular
