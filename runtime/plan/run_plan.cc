#include "runtime/plan/run_plan.h"

#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/datasets/run_datasets.h"
#include "runtime/ops/fused.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/pipeline/pipeline_schedule.h"
#include "runtime/plan/fake_rank.h"
#include "runtime/train/preflight.h"

namespace modular {
namespace {

using Rows = std::function<Batch(int64_t rows)>;

/// Creates batches of the run's shapes. The text's content does not matter; examples may have more tensors than text.
Rows to_batch_rows(const RunConfig& config) {
  const DataFormat& format = *find_data_format(config.data_formats().front());
  if (format.make_blank)
    return [make_blank = format.make_blank, request = make_request(config, Split::training)](int64_t rows) {
      return make_blank(request, rows);
    };
  const std::vector<RunDataset> sets = open_training_data(config);
  const auto tokens = [](const RunDataset& set) { return set.training->tokens(); };
  return [longest = std::ranges::max_element(sets, {}, tokens)->training](int64_t rows) {
    return longest->read(std::vector<SamplePosition>(static_cast<size_t>(rows)), rows);
  };
}

/// Limits libtorch to one thread for a scope.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// The log of the spans that the runtime records.
thread_local MemoryLog* spans_log = nullptr;

class LoggedSpans {
 public:
  explicit LoggedSpans(MemoryLog& log) {
    spans_log = &log;
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(
                                       [](const at::RecordFunction& span) -> std::unique_ptr<at::ObserverContext> {
                                         if (is_logged(span.name())) spans_log->begin(span.name());
                                         return nullptr;
                                       },
                                       [](const at::RecordFunction& span, at::ObserverContext*) {
                                         if (is_logged(span.name())) spans_log->end();
                                       })
                                       .scopes({at::RecordScope::USER_SCOPE}));
  }
  ~LoggedSpans() { at::removeCallback(handle_); }
  LoggedSpans(const LoggedSpans&) = delete;
  LoggedSpans& operator=(const LoggedSpans&) = delete;

 private:
  static bool is_logged(std::string_view name) {
    return name == "forward" || name == "backward" || name == "backward of inputs" || name == "optimizer" ||
           name == "gradient norm";
  }
  at::CallbackHandle handle_;
};

Environment environment_for(int64_t rank, const MeshShape& shape) {
  Environment environment;
  environment.rank = rank;
  environment.world_size = shape.ranks();
  environment.local_world_size = shape.ranks();
  return environment;
}

/// The traffic since this object was constructed.
class TrafficSince {
 public:
  std::map<std::string, AxisTraffic> found() const {
    std::map<std::string, AxisTraffic> since;
    for (const auto& [axes, now] : traffic().over) {
      const auto was = before_.over.find(axes);
      const AxisTraffic then = was == before_.over.end() ? AxisTraffic() : was->second;
      if (now.collectives > then.collectives)
        since[axes] = {now.collectives - then.collectives, now.bytes - then.bytes};
    }
    return since;
  }

 private:
  Traffic before_ = traffic();
};

/// Bytes that CheckpointSaver copies before it writes.
int64_t copied_for_checkpoints(const CheckpointSection& checkpoint, ParallelModel& model, Optimizer& optimizer) {
  if (!checkpoint.background || checkpoint.every < 0) return 0;
  int64_t bytes = 0;
  for (const std::vector<TensorSlice>& slices : {get_slices(model), get_slices(optimizer.state())})
    for (const TensorSlice& slice : slices)
      if (slice.owner) bytes += static_cast<int64_t>(slice.local.nbytes());
  return bytes;
}

/// Without a pipeline, the traffic of a step is linear in its micro-batches, and the third micro-batch finds memory as
/// the second left it. So a few micro-batches determine the rest.
constexpr int64_t kFewMicroBatches = 3;

RankPlan plan_rank(const RunConfig& config, const MeshShape& shape, const BatchShape& batch, const Rows& rows,
                   int64_t rank, const std::shared_ptr<FakePeers>& peers) {
  RankPlan plan;
  plan.rank = rank;
  const auto log = std::make_shared<MemoryLog>();
  const LoggedMemory memory(log);
  const FakeKernels kernels;
  const FakeGroups groups(peers);
  const LoggedSpans spans(*log);

  log->begin("construction");
  Mesh mesh(environment_for(rank, shape), shape, {.device = at::kCPU});
  ParallelOptions options = config.parallel_options();
  options.initialize = false;
  ParallelModel model(*config.network.entry, *config.network.config, mesh, options, 1);
  log->end();
  plan.start = log->peak(0, log->now());
  log->begin("state");
  Optimizer optimizer(model.parameters(), config.optim, mesh);
  log->end();
  plan.checkpoint_copy = copied_for_checkpoints(config.checkpoint, model, optimizer);

  const auto step = [&](int64_t micro_batches) {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < micro_batches; ++i) {
      batches.push_back(rows(batch.micro_batch));
      batches.back().samples = at::arange(batches.back().leading().size(0), at::kLong);
    }
    const TrafficSince before;
    model.step(batches);
    optimizer.step(1e-3, clipping_to(config.optim.max_grad_norm, find_gradient_norm(model.parameters(), mesh)));
    model.parameters_changed();
    return before.found();
  };
  const size_t begin = log->now();
  const bool is_short = shape[Axis::pp] > 1 || batch.micro_batches <= kFewMicroBatches;
  const int64_t most = is_short ? batch.micro_batches : kFewMicroBatches;
  step(most);  // records the order of units
  plan.traffic = step(most);
  if (!is_short)
    for (const auto& [axes, less] : step(most - 1)) {
      AxisTraffic& all = plan.traffic[axes];
      const int64_t further = batch.micro_batches - most;
      all.collectives += further * (all.collectives - less.collectives);
      all.bytes += static_cast<double>(further) * (all.bytes - less.bytes);
    }
  plan.step = log->peak(begin, log->now());
  return plan;
}

/// The global rank at a pp coordinate, with coordinate 0 on all other axes.
int64_t rank_at(const MeshShape& shape, int64_t pp) { return pp * (shape.ranks() / shape[Axis::pp]); }

/// The plans of the pipeline's ranks, which run in `order`. Ranks other than the first may receive values that have not
/// been sent yet, and guess their shapes. A model with two stacks has activations of two shapes, so a guess may be
/// wrong: a rank that fails because of that runs again when more shapes are known.
std::vector<RankPlan> plan_ranks(const RunConfig& config, const RunPlan& plan, const Rows& rows,
                                 const std::vector<int64_t>& order) {
  std::vector<RankPlan> ranks(order.size());
  const auto peers = std::make_shared<FakePeers>();
  std::exception_ptr failure;
  do {
    const size_t known = peers->shapes.size();
    failure = nullptr;
    peers->guessed.clear();
    for (const int64_t coordinate : order) {
      try {
        ranks[static_cast<size_t>(coordinate)] =
            plan_rank(config, plan.mesh, plan.batch, rows, rank_at(plan.mesh, coordinate), peers);
      } catch (const std::exception&) {
        if (peers->guessed_right()) throw;
        failure = std::current_exception();
      }
    }
    if (failure && peers->shapes.size() == known) std::rethrow_exception(failure);
  } while (failure || !peers->guessed_right());
  return ranks;
}

/// Size in MiB, with the bytes if it is small.
std::string format_size(int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 100 ? fmt::format("{:.2f} MiB ({} bytes)", mebibytes, bytes)
                         : fmt::format("{:.0f} MiB", mebibytes);
}

}  // namespace

int64_t RunPlan::peak() const { return std::ranges::max(ranks, {}, &RankPlan::peak).peak(); }

RunPlan make_run_plan(const RunConfig& config, int64_t world_size) {
  RunPlan plan;
  plan.mesh = check_run_config(config, world_size);
  if (config.parallel.dp_threads > 1)
    throw ConfigError(
        "run plans do not support replicas on threads: set parallel.dp_threads to 1, or remove parallel.memory and "
        "set train.micro_batches to at least 1");
  plan.batch = config.batch_shape(plan.mesh, 0);
  install_fused_functions();
  const OneThread one_thread;
  const Rows rows = to_batch_rows(config);

  const int64_t pp = plan.mesh[Axis::pp];
  std::vector<int64_t> order(static_cast<size_t>(pp)), stages = {0};
  std::iota(order.begin(), order.end(), 0);
  std::vector<int64_t> stored = {1};
  if (pp > 1) {
    const auto pipeline = config.parallel_options().pipeline;
    stages = stage_placement(pipeline, pp);
    stored = simulate(training_schedule(pipeline, pp, plan.batch.micro_batches)).most_stored;
    std::swap(order[0], order[static_cast<size_t>(stages[0])]);  // the first stage, whose activation shapes are known
  }
  plan.ranks = plan_ranks(config, plan, rows, order);
  for (size_t i = 0; i < plan.ranks.size(); ++i) plan.ranks[i].stored = stored[i];
  if (pp > 1)
    for (size_t stage = 0; stage < stages.size(); ++stage)
      plan.ranks[static_cast<size_t>(stages[stage])].stages.push_back(static_cast<int64_t>(stage));
  return plan;
}

void fit_memory(RunConfig& config, int64_t world_size) {
  if (config.parallel.memory.empty() && config.train.micro_batches > 0) return;
  if (config.parallel.memory.empty())
    throw ConfigError(
        "train.micro_batches is 0, the fewest that fit into parallel.memory, but parallel.memory is not set: set it, "
        "e.g. to 16GiB");
  const int64_t memory = get_bytes(config.parallel.memory).value();
  const bool chooses = config.train.micro_batches == 0;
  if (chooses) config.train.micro_batches = 1;
  const MeshShape mesh = config.parallel.mesh_shape(world_size);
  const int64_t rows = config.batch_shape(mesh, 0).micro_batch * config.train.micro_batches;  // per rank and step
  const auto peak = [&](int64_t micro_batches) {
    RunConfig tried = config;
    tried.train.micro_batches = micro_batches;
    return make_run_plan(tried, world_size).peak();
  };
  const auto reject_above = [&](int64_t micro_batches, const char* remedy) {
    const int64_t needed = peak(micro_batches);
    if (needed > memory)
      throw ConfigError(
          fmt::format("a rank needs {} with micro-batches of {} rows, but parallel.memory = \"{}\" is {}: {}",
                      format_size(needed), rows / micro_batches, config.parallel.memory, format_size(memory), remedy));
  };
  if (!chooses)
    return reject_above(config.train.micro_batches,
                        "set train.micro_batches to 0 for the fewest that fit, or raise parallel.memory");

  const auto pipeline = config.parallel_options().pipeline;
  std::vector<int64_t> choices;
  std::string error;
  for (int64_t micro_batches = 1; micro_batches <= rows; ++micro_batches) {
    if (rows % micro_batches != 0) continue;
    error = pipeline_error(pipeline, mesh[Axis::pp], micro_batches).sentence;
    if (error.empty()) choices.push_back(micro_batches);
  }
  if (choices.empty()) throw ConfigError(error);
  // Not by bisection: two micro-batches may need more than one, because the first one's gradients wait for the second.
  const auto fits = [&](int64_t micro_batches) { return peak(micro_batches) <= memory; };
  const auto first = std::ranges::find_if(choices, fits);
  if (first == choices.end())
    reject_above(choices.back(),
                 "raise parallel.memory, shorten train.seq_len, set parallel.recompute, or use more ranks");
  else
    config.train.micro_batches = *first;
}

}  // namespace modular
