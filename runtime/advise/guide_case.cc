#include "runtime/advise/guide_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/advise/memory_estimate.h"

namespace modular {
namespace {

/// The guide's cases of one node, which those of many begin with as well.
std::string say_fit(const GuideCase& found, const Cluster& cluster) {
  const std::string room = in_words(cluster.usable_memory());
  switch (found.fit) {
    case GuideCase::Fit::model:
      return fmt::format("The model fits one device: it takes {} of {} to train, a row at a time.",
                         in_words(found.model_bytes), room);
    case GuideCase::Fit::layer:
      return fmt::format(
          "The model does not fit one device: it takes {} to train, and a device has {}. Its largest layer fits, with "
          "{}.",
          in_words(found.model_bytes), room, in_words(found.layer_bytes));
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format("Not even the largest layer fits one device: it takes {} to train, and a device has {}.",
                         in_words(found.layer_bytes), room);
  }
  return {};
}

std::string say_within_node(const GuideCase& found, const Cluster& cluster) {
  if (cluster.per_node == 1) return {};
  switch (found.fit) {
    case GuideCase::Fit::model:
      return "Replicate it over the devices of a node (DDP), or divide its state (ZeRO), which may be faster or "
             "slower.";
    case GuideCase::Fit::layer:
      return "Within a node pipeline stages, ZeRO and tensor parallelism are about as fast as one another where its "
             "links are; over slow ones the pipeline is fastest. Tensor-parallel ranks stay within a node.";
    case GuideCase::Fit::not_even_a_layer:
      return fmt::format(
          "Pipeline stages alone do not help: divide the layer by tensor parallelism over at most the {} devices of a "
          "node, or divide its state by ZeRO, with recomputation and offloading if need be.",
          cluster.per_node);
  }
  return {};
}

std::string say_between(const GuideCase& found, const Cluster& cluster) {
  const std::string nodes =
      fmt::format("{} nodes with {} lines between them ({:.0f} GB/s of each node, {:.0f} GB/s of a device within one)",
                  cluster.nodes, found.fast_between ? "fast" : "slow",
                  cluster.between * static_cast<double>(cluster.per_node) / 1e9, cluster.link / 1e9);
  if (found.fast_between)
    return nodes +
           ": ZeRO over all devices is simplest; pipeline, tensor and data parallelism together exchange less, and are "
           "worth it where ZeRO waits.";
  if (found.fit == GuideCase::Fit::model)
    return nodes + ": replicate over nodes, where gradients cross once a step, and divide within them.";
  return nodes +
         ": let data parallelism, a pipeline over nodes and tensor parallelism within them work together, with ZeRO 1, "
         "so that little crosses.";
}

}  // namespace

GuideCase guide_case(const ModelProfile& model, const Cluster& cluster) {
  GuideCase found;
  const Layout alone{.micro_batches = 2};
  found.model_bytes = estimate_memory(model, alone, 1.0, 1).peak;
  // Parameters, gradients, state, and what is computed with where that is another type.
  const double of_element = 8.0 + model.optimizer_bytes + (model.gathered_bytes < 4.0 ? model.gathered_bytes : 0.0);
  const double largest = std::max(model.largest_unit.all(), 0.5 * model.root.all());
  const double of_a_layer =
      model.keepings.front().activations.all() / static_cast<double>(std::max<int64_t>(model.layers, 1));
  found.layer_bytes = of_element * largest + of_a_layer;
  if (found.model_bytes > cluster.usable_memory())
    found.fit = found.layer_bytes > cluster.usable_memory() ? GuideCase::Fit::not_even_a_layer : GuideCase::Fit::layer;
  found.many_nodes = cluster.nodes > 1;
  found.fast_between =
      !found.many_nodes || cluster.between * static_cast<double>(cluster.per_node) >= 0.5 * cluster.link;

  found.sentences.push_back(say_fit(found, cluster));
  if (cluster.devices() == 1 && found.fit != GuideCase::Fit::model)
    found.sentences.emplace_back("One device leaves recomputation, smaller micro-batches and offloading.");
  if (std::string within = say_within_node(found, cluster); !within.empty())
    found.sentences.push_back(std::move(within));
  if (found.many_nodes) found.sentences.push_back(say_between(found, cluster));
  return found;
}

}  // namespace modular
