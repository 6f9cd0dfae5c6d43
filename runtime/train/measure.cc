#include "runtime/train/measure.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <chrono>

#include "runtime/datasets/partitions.h"
#include "runtime/evaluation/evaluation.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/status.h"
#include "runtime/mesh/traffic.h"
#include "runtime/optim/optimizer.h"
#include "runtime/train/device_usage.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;

/// Time at which the device has finished all submitted work.
Clock::time_point now_on(const at::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  return Clock::now();
}

/// Maximum over ranks.
double largest(Mesh& mesh, double value, const char* what) {
  at::Tensor all = at::full({1}, value, at::kDouble);
  all_reduce(mesh.control(), all, what, c10d::ReduceOp::MAX).wait();
  return all.item<double>();
}

}  // namespace

Measurement measure(Run& run, Mesh& mesh, int64_t warm_up, int64_t steps) {
  const RunConfig& config = run.config;
  const auto seed = static_cast<uint64_t>(config.train.seed);
  ParallelModel model(*config.network.entry, *config.network.config, mesh, config.parallel_options(), seed);
  Optimizer optimizer(model.parameters(), config.optim, mesh);
  open_partitions(config, run.sets);
  const BatchShape shape = config.batch_shape(run.mesh, data_parallel_rank(mesh));
  const MixedSource source = mix(run.sets, shape, config.train.seed, config.data.group_by_length);
  DataPosition position;

  Measurement measured{.samples_per_step = static_cast<double>(shape.global())};
  Traffic before;
  for (int64_t step = 0; step < warm_up + steps; ++step) {
    set_phase(fmt::format("step {} of the measurement", step + 1));
    auto batches = source.at(position);
    position = source.after(position);
    barrier(mesh.control(), "the ranks before a step");
    if (step == warm_up) before = traffic();
    const auto begin = now_on(mesh.device());
    const LaunchedStep launched = model.launch_step(batches, step);
    const GradientNorm gradient = find_gradient_norm(model.parameters(), mesh, launched.loss());
    optimizer.step(config.schedule().at(step), clipping_to(config.optim.max_grad_norm, gradient));
    model.parameters_changed();
    measured.loss = model.finish_step(launched).loss;
    if (step >= warm_up)
      measured.seconds.push_back(std::chrono::duration<double>(now_on(mesh.device()) - begin).count());
  }
  const auto a_step = [&](double count) { return count / static_cast<double>(steps); };
  measured.exchanges =
      largest(mesh, a_step(static_cast<double>(traffic().exchanges - before.exchanges)), "the number of collectives");
  measured.bytes = largest(mesh, a_step(traffic().bytes - before.bytes), "the bytes received");
  measured.memory_peak = largest(mesh, static_cast<double>(memory_peak(mesh.device())), "the memory");
  return measured;
}

}  // namespace modular
