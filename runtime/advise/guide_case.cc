#include "runtime/advise/guide_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/advise/memory_estimate.h"

namespace modular {
namespace {

/// Describes what fits on one device: the first part of every case of the guide.
std::string describe_fit(const GuideCase& found, const Cluster& cluster) {
  const std::string room = format_bytes(cluster.usable_memory());
  switch (found.fit) {
    case GuideCase::Fit::model:
      return fmt::format("The model fits one device: training needs {} of {} with one row per micro-batch.",
                         format_bytes(found.model_bytes), room);
    case GuideCase::Fit::layer:
      return fmt::format(
          "The model does not fit one device: training needs {}, and a device has {}. Its largest layer fits, with "
          "{}.",
          format_bytes(found.model_bytes), room, format_bytes(found.layer_bytes));
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format("Not even the largest layer fits one device: training needs {}, and a device has {}.",
                         format_bytes(found.layer_bytes), room);
  }
  return {};
}

std::string advise_within_node(const GuideCase& found, const Cluster& cluster) {
  if (cluster.per_node == 1) return {};
  switch (found.fit) {
    case GuideCase::Fit::model:
      return "Replicate the model over the devices of a node (DDP), or shard its state (ZeRO), which may be faster or "
             "slower.";
    case GuideCase::Fit::layer:
      return "With fast links within a node, pipeline stages, ZeRO and tensor parallelism are about equally fast; with "
             "slow links the pipeline is fastest. Tensor-parallel ranks stay within a node.";
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format(
          "Pipeline stages alone do not help: split the layer by tensor parallelism over at most the {} devices of a "
          "node, or shard its state with ZeRO, with recomputation and offloading if necessary.",
          cluster.per_node);
  }
  return {};
}

std::string advise_between_nodes(const GuideCase& found, const Cluster& cluster) {
  const std::string nodes =
      fmt::format("{} nodes with {} links between them ({:.0f} GB/s per node, {:.0f} GB/s per device within a node)",
                  cluster.nodes, found.fast_between ? "fast" : "slow",
                  cluster.between * static_cast<double>(cluster.per_node) / 1e9, cluster.link / 1e9);
  if (found.fast_between)
    return nodes +
           ": ZeRO over all devices is simplest; combined pipeline, tensor and data parallelism communicate less, "
           "which pays off if ZeRO waits for communication.";
  if (found.fit == GuideCase::Fit::model)
    return nodes + ": replicate over nodes, so that gradients cross once per step, and shard within nodes.";
  return nodes +
         ": combine data parallelism, a pipeline over nodes and tensor parallelism within nodes, with ZeRO 1, to "
         "minimize traffic between nodes.";
}

}  // namespace

GuideCase guide_case(const ModelProfile& model, const Cluster& cluster) {
  GuideCase found;
  const Layout alone{.micro_batches = 2};
  found.model_bytes = estimate_memory(model, alone, 1.0, 1).peak;
  // Parameters, gradients, optimizer state, and the compute copy if it has another type.
  const double bytes_per_element =
      8.0 + model.optimizer_bytes + (model.gathered_bytes < 4.0 ? model.gathered_bytes : 0.0);
  const double largest = std::max(model.largest_unit.all(), 0.5 * model.root.all());
  const double layer_activations =
      model.keepings.front().activations.all() / static_cast<double>(std::max<int64_t>(model.layers, 1));
  found.layer_bytes = bytes_per_element * largest + layer_activations;
  if (found.model_bytes > cluster.usable_memory())
    found.fit = found.layer_bytes > cluster.usable_memory() ? GuideCase::Fit::not_even_a_layer : GuideCase::Fit::layer;
  found.many_nodes = cluster.nodes > 1;
  found.fast_between =
      !found.many_nodes || cluster.between * static_cast<double>(cluster.per_node) >= 0.5 * cluster.link;

  found.sentences.push_back(describe_fit(found, cluster));
  if (cluster.devices() == 1 && found.fit != GuideCase::Fit::model)
    found.sentences.emplace_back("On one device, use recomputation, smaller micro-batches and offloading.");
  if (std::string within = advise_within_node(found, cluster); !within.empty())
    found.sentences.push_back(std::move(within));
  if (found.many_nodes) found.sentences.push_back(advise_between_nodes(found, cluster));
  return found;
}

}  // namespace modular
