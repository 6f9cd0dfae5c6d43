#include "checks/execute/executed_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "checks/execute/batches.h"
#include "checks/execute/family_program.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/own_gradient.h"
#include "runtime/parallel/parameters/uneven_splits.h"

namespace modular::execute {
namespace {

Tensor random_values(const std::string& name, at::IntArrayRef sizes) {
  return at::randn(sizes, at::detail::createCPUGenerator(std::hash<std::string>()(name)), at::kDouble);
}

/// A stage that reads what the stage before it left.
class SimulatedStage final : public pp::Stage {
 public:
  /// It is in the second stack, where an earlier forward would have left it.
  explicit SimulatedStage(StageOnRank position) : position_(std::move(position)) { position_.second_stack({}); }

  StageOnRank& position() { return position_; }
  void receive(std::vector<Tensor> values) { received_ = std::move(values); }
  /// The first stack's output, if the next stage reads it.
  Tensor take_between() { return std::exchange(between_, {}); }

  bool is_first() const override { return position_.is_first(); }
  bool is_last() const override { return position_.is_last(); }
  Tensor received() override {
    TORCH_CHECK(!received_.empty(), "the first stage receives nothing");
    return position_.stack() == 0 ? received_.back() : received_.front();
  }
  bool first_stack() override { return position_.first_stack(); }
  bool second_stack(const Tensor& between) override {
    const bool runs = position_.second_stack(between);
    if (runs && !position_.is_last()) between_ = between;
    return runs;
  }
  std::pair<int64_t, int64_t> span(int64_t list_size) const override { return position_.span(list_size); }

 private:
  StageOnRank position_;
  std::vector<Tensor> received_;
  Tensor between_;
};

/// How `found` differs from `expected`; empty if it does not.
std::string describe_difference(const std::string& what, const Tensor& expected, const Tensor& found) {
  if (expected.defined() != found.defined())
    return what + (found.defined() ? ": only ranks have it" : ": no rank has it");
  if (!expected.defined()) return "";
  if (expected.sizes() != found.sizes())
    return c10::str(what, ": shape ", found.sizes(), " instead of ", expected.sizes());
  if (expected.numel() == 0) return "";
  const double scale = 1.0 + expected.abs().max().item<double>();
  const double most = (expected - found).abs().max().item<double>();
  return most <= kTolerance * scale ? "" : c10::str(what, ": off by ", most / scale);
}

void add_to(Tensor& sum, const Tensor& added) {
  if (added.defined()) sum = sum.defined() ? sum + added.detach() : added.detach();
}

/// The part of a parameter, or of its gradient, that a rank holds.
Tensor slice(const ModelParameter& parameter, const Tensor& full, int64_t tp, int64_t tp_rank) {
  if (tp == 1 || !parameter.tensor_split) return full;
  const std::vector<int64_t> shape = local_shape(parameter, tp, tp_rank);
  const Tensor local = at::empty(shape, full.options());
  for (const ParameterSlice& part :
       get_slices_on_rank(parameter, tp, tp_rank, {.dim = 0, .begin = 0, .size = shape[0]}))
    part.in_local(local).copy_(part.in_global(full));
  return local;
}

/// The gradient of a rank's part of a parameter, of which several ranks may hold the same slices: their gradients are
/// summed. So are those of parameters of which each rank has the gradient of its positions. `own` has the gradient on
/// each tensor-parallel rank.
Tensor joint_gradient(const ModelParameter& parameter, const std::vector<Tensor>& own, size_t tp_rank, bool sequence) {
  if (sequence && parameter.partial_in_sequence) {
    Tensor sum;
    for (const Tensor& gradient : own) add_to(sum, gradient);
    return sum;
  }
  if (own.size() == 1 || !parameter.tensor_split || !own[tp_rank].defined()) return own[tp_rank];
  const auto tp = static_cast<int64_t>(own.size());
  Tensor sum = own[tp_rank].clone();
  for (const ParameterSlice& part :
       get_slices_on_rank(parameter, tp, static_cast<int64_t>(tp_rank), {.dim = 0, .begin = 0, .size = sum.size(0)})) {
    const auto sharers = static_cast<size_t>(part.kv_replicas), first = tp_rank / sharers * sharers;
    for (size_t other = first; other < first + sharers; ++other)
      if (other != tp_rank && own[other].defined()) part.in_local(sum).add_(part.in_local(own[other]));
  }
  return sum;
}

/// The part of an entry's outputs that a rank has.
struct OutputPart {
  int64_t part = 0, parts = 1;  // of the rows
  Grid grid = {};
  int64_t cp_rank = 0;
  bool has_positions = false;  // whether the logits are those of the rank's positions; otherwise all cp ranks have all
};

/// Computes gradients of the loss and of a random weighting of the logits. What all cp ranks have counts on the first.
void run_backward(const Outputs& outputs, const OutputPart& own) {
  Tensor total = outputs.loss_sum;
  if (outputs.logits.defined() && outputs.logits.is_floating_point()) {
    const int64_t rows = outputs.logits.size(0);
    std::vector<int64_t> shape = outputs.logits.sizes().vec();
    shape[0] = rows * own.parts;
    if (own.has_positions) shape[1] *= own.grid.cp;
    Tensor weights = random_values("logits", shape).narrow(0, own.part * rows, rows);
    if (own.has_positions) weights = take_context_positions(weights, 1, own.grid, own.cp_rank);
    const Tensor weighted = (outputs.logits * weights).sum();
    total = total.defined() ? total + weighted : weighted;
  }
  TORCH_CHECK(total.defined(), "the entry returns neither logits nor a loss");
  torch::autograd::backward({own.has_positions || own.cp_rank == 0 ? total : total * 0}, {});
}

/// Records on this thread while it lives.
class Recording {
 public:
  explicit Recording(Trace* trace) { tracing = trace; }
  ~Recording() { tracing = nullptr; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

/// A traced tensor that differs, as the end of a message; empty without one.
std::string describe_line(const std::optional<TraceDifference>& first, const std::string& file) {
  if (!first) return "";
  return "; the first tensor that differs is " +
         std::string(first->is_gradient ? "the gradient of the one" : "the one") + " computed at " + file + ":" +
         std::to_string(first->line);
}

/// The rows of several results, in order.
Tensor joined(const std::vector<Tensor>& rows) {
  if (rows.empty() || !rows[0].defined()) return {};
  return rows.size() == 1 ? rows[0] : at::cat(rows);
}

}  // namespace

struct ExecutedModel::Stage {
  Model model;
  ParameterTable table;
  std::unique_ptr<SimulatedStage> place;  // null without a pipeline
};

bool split_over(ParameterTable& table, const Entry& entry, const AnyConfig& config, int64_t tp) try {
  const ConfigIntegers integers = config_integers(config);
  for (const Divides& divided : entry.plan->divides) {
    if (divided.axis != "tp") continue;
    const int64_t count = evaluate_monomial(divided.field, integers);
    const bool is_shared = divided.otherwise == Divides::shared && count > 0 && tp % count == 0;
    if (count % tp != 0 && !is_shared && divided.otherwise != Divides::uneven) return false;
  }
  if (!describe_uneven_splits(table, entry, config, tp).empty()) return false;
  for (const auto* tensors : {&table.parameters, &table.buffers})
    for (const ModelParameter& parameter : *tensors)
      for (const SplitPart& part : parameter.parts)
        if (part.size % (part.slices > 0 ? part.slices : tp) != 0 && !part.may_be_uneven) return false;
  return true;
} catch (const std::exception&) {  // the model with as many heads as ranks cannot be built
  return false;
}

std::string Division::name() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " x ") + part; };
  if (grid.tp > 1) add("tp " + std::to_string(grid.tp) + (grid.sequence ? " with parts of the positions" : ""));
  if (grid.cp > 1) add("cp " + std::to_string(grid.cp) + (grid.zigzag ? " by zigzag" : ""));
  if (grid.dp > 1) add("dp " + std::to_string(grid.dp));
  if (micro_batches > 1) add(std::to_string(micro_batches) + " micro-batches");
  if (!cuts.empty()) {
    std::string stages = std::to_string(cuts.size() + 1) + " stages cut before layer";
    for (const int64_t cut : cuts) stages += (cut == cuts.front() ? " " : ", ") + std::to_string(cut);
    add(stages);
  }
  return text.empty() ? "one process" : text;
}

ExecutedModel::ExecutedModel(const Entry& entry, const AnyConfig& config, Batch batch)
    : entry_(entry), config_(config.clone()), batch_(std::move(batch)) {
  at::manual_seed(1);
  const Model model = entry.make(config);
  module_ = model.module;
  init::reset(*module_);
  table_ = parameter_table(*module_, *entry.plan, config, /*stages=*/{});
  sizes_ = stack_sizes(*module_, *entry.plan);
  at::NoGradGuard no_grad;
  // Initial values alone would hide mistakes in biases and norms, which are 0 and 1.
  for (const auto* tensors : {&table_.parameters, &table_.buffers})
    for (const ModelParameter& parameter : *tensors)
      if (Tensor held = parameter.tensor.detach(); held.is_floating_point())
        held.add_(random_values(parameter.name, held.sizes()).to(held.scalar_type()), /*alpha=*/0.15);
  {
    at::AutoGradMode with_gradients(true);
    run({}, {}, /*is_traced=*/false, alone_);
  }
  for (const Tensor& tensor : {alone_.logits, alone_.loss})
    if (tensor.defined() && !tensor.isfinite().all().item<bool>())
      throw std::runtime_error("its results are not finite");
}

int64_t ExecutedModel::layers() const { return std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0}); }

bool ExecutedModel::supports(int64_t tp) {
  ParameterTable split = table_;
  if (!split_over(split, entry_, *config_, tp)) return false;
  tables_[tp] = std::move(split);
  return true;
}

/// The model of a stage on one tp rank. Parameters of other stages are not a number, so that a use shows.
std::unique_ptr<ExecutedModel::Stage> ExecutedModel::build(int64_t tp, int64_t tp_rank, const Division& division,
                                                           int64_t number) const {
  auto stage = std::make_unique<Stage>();
  // libtorch's layers initialize their parameters, which takes longer than a run.
  stage->model = build_on_meta(entry_, *config_);
  std::vector<const StageOnRank*> positions;
  if (!division.cuts.empty()) {
    stage->place = std::make_unique<SimulatedStage>(StageOnRank(number, division.cuts, sizes_));
    positions.push_back(&stage->place->position());
  }
  stage->table = parameter_table(*stage->model.module, *entry_.plan, *config_, positions);
  at::NoGradGuard no_grad;
  const auto fill = [&](std::vector<ModelParameter>& own, const std::vector<ModelParameter>& full) {
    TORCH_CHECK(own.size() == full.size(), "two models of one config have different parameters");
    for (size_t i = 0; i < own.size(); ++i) {
      Tensor values = slice(full[i], full[i].tensor.detach(), tp, tp_rank).clone(at::MemoryFormat::Contiguous);
      if (!own[i].held && values.is_floating_point()) values.fill_(std::numeric_limits<double>::quiet_NaN());
      make_real(own[i].tensor, values);
    }
  };
  fill(stage->table.parameters, table(tp).parameters);
  fill(stage->table.buffers, table(tp).buffers);
  stage->model.module->eval();  // without dropout
  return stage;
}

void ExecutedModel::run(const Division& division, const GridRank& rank, bool is_traced, Result& result) const {
  std::vector<std::unique_ptr<Stage>> stages;
  for (int64_t number = 0; number <= static_cast<int64_t>(division.cuts.size()); ++number)
    stages.push_back(build(division.grid.tp, rank.tp, division, number));

  const bool divides_positions = division.grid.cp > 1 && !entry_.plan->full_loss;
  std::vector<Tensor> logits;
  for (int64_t micro_batch = 0; micro_batch < division.micro_batches; ++micro_batch) {
    const Recording recording(is_traced ? &result.traces.emplace_back() : nullptr);
    const int64_t parts = division.grid.dp * division.micro_batches;
    const int64_t part = rank.dp * division.micro_batches + micro_batch;
    const Batch batch = find_positions(find_rows(batch_, part, parts), entry_, division.grid, rank.cp);
    std::vector<Tensor> carried;
    Outputs outputs;
    for (const auto& stage : stages) {
      Parallel parallel = bound;
      if (stage->place) {
        stage->place->receive(std::move(carried));
        parallel.stage = stage->place.get();
      }
      const Binding binding(parallel);
      outputs = stage->model.forward(batch);
      carried = {outputs.carried};
      if (stage->place)
        if (Tensor between = stage->place->take_between(); between.defined()) carried.push_back(std::move(between));
      TORCH_CHECK(stage == stages.back() || outputs.carried.defined(),
                  "a stage other than the last carries nothing on");
    }
    run_backward(outputs, {part, parts, division.grid, rank.cp, divides_positions});
    for (const auto& stage : stages)
      for (const ModelParameter& parameter : stage->table.parameters) own_gradient(parameter.tensor);
    if (outputs.logits.defined()) logits.push_back(outputs.logits.detach());
    if (!divides_positions && rank.cp > 0) continue;
    add_to(result.loss, outputs.loss_sum);
    add_to(result.targets, outputs.token_count);
  }
  result.logits = joined(logits);
  result.gradients.resize(table_.parameters.size());
  for (const auto& stage : stages)
    for (size_t i = 0; i < stage->table.parameters.size(); ++i) {
      const ModelParameter& parameter = stage->table.parameters[i];
      if (!parameter.held) continue;
      const Tensor gradient = parameter.tensor.grad();
      add_to(result.gradients[i], gradient.defined() ? gradient : at::zeros_like(parameter.tensor));
    }
}

std::string ExecutedModel::difference(const Division& division, const std::vector<Result>& ranks) const {
  const Grid& grid = division.grid;
  const auto tp = static_cast<size_t>(grid.tp);
  const std::vector<ModelParameter>& parameters = table(grid.tp).parameters;
  std::vector<std::vector<Tensor>> gradients(parameters.size(), std::vector<Tensor>(tp));  // [parameter][tp rank]
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (size_t i = 0; i < parameters.size(); ++i) add_to(gradients[i][rank % tp], ranks[rank].gradients[i]);
  for (int64_t tp_rank = 0; tp_rank < grid.tp; ++tp_rank) {
    Result sum;
    std::vector<std::vector<Tensor>> by_cp(static_cast<size_t>(grid.cp));  // [cp rank][dp rank]: logits
    for (int64_t dp_rank = 0; dp_rank < grid.dp; ++dp_rank)
      for (int64_t cp_rank = 0; cp_rank < grid.cp; ++cp_rank) {
        const Result& own = ranks[index_of({tp_rank, cp_rank, dp_rank}, grid)];
        by_cp[static_cast<size_t>(cp_rank)].push_back(own.logits);
        add_to(sum.loss, own.loss);
        add_to(sum.targets, own.targets);
      }
    std::vector<Tensor> logits;
    for (const std::vector<Tensor>& rows : by_cp) logits.push_back(joined(rows));
    if (grid.cp > 1 && !entry_.plan->full_loss && logits.front().defined())
      logits = {join_context_positions(logits, 1, grid)};
    const std::string rank = tp > 1 ? " of tp rank " + std::to_string(tp_rank) : std::string();
    std::string text;
    for (const Tensor& all : logits)
      if (text.empty()) text = describe_difference("the logits" + rank, alone_.logits, all);
    if (text.empty()) text = describe_difference("the loss" + rank, alone_.loss, sum.loss);
    if (text.empty()) text = describe_difference("the number of targets" + rank, alone_.targets, sum.targets);
    for (size_t i = parameters.size(); text.empty() && i-- > 0;)
      text = describe_difference(
          "the gradient of " + parameters[i].name + rank, slice(parameters[i], alone_.gradients[i], grid.tp, tp_rank),
          joint_gradient(parameters[i], gradients[i], static_cast<size_t>(tp_rank), grid.sequence));
    if (!text.empty()) return text;
  }
  return "";
}

/// The line where a difference begins, as the end of a message; empty if it is not known.
std::string ExecutedModel::locate(const Division& division, std::vector<Result>& ranks, const std::string& file) const {
  if (division.grid.zigzag) return "";  // the parts of a tensor do not follow each other
  Result alone;
  run({}, {}, /*is_traced=*/true, alone);
  std::vector<std::deque<Trace>> traces(static_cast<size_t>(division.grid.tp));
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (Trace& trace : ranks[rank].traces) traces[rank % traces.size()].push_back(std::move(trace));
  return describe_line(first_difference(alone.traces.front(), traces, kTolerance), file);
}

std::string ExecutedModel::compare(const Division& division, const std::string& file) {
  const auto run_ranks = [&](bool is_traced) {
    std::vector<Result> ranks(static_cast<size_t>(division.grid.ranks()));
    std::string failure;
    try {
      on_simulated_ranks(division.grid, [&](const GridRank& rank) {
        run(division, rank, is_traced, ranks[index_of(rank, division.grid)]);
      });
    } catch (const c10::Error& error) {
      failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (!failure.empty()) failure = "a rank fails: " + failure.substr(0, failure.find('\n'));
    return std::pair(std::move(ranks), std::move(failure));
  };
  auto [ranks, failure] = run_ranks(/*is_traced=*/false);
  std::string text = failure.empty() ? difference(division, ranks) : failure;
  if (text.empty()) return "";
  auto [traced, again] = run_ranks(/*is_traced=*/true);
  return text + locate(division, traced, file);
}

std::string ExecutedModel::compare_cached(const std::string& file) {
  const Batch batch = find_tokens(batch_, 0, batch_.input_ids.size(1));
  const std::unique_ptr<Stage> stage = build(1, 0, {}, 0);
  at::NoGradGuard no_grad;
  const auto logits = [&](const Batch& part, cache::Cache* cache, Trace* trace) {
    Parallel parallel = bound;
    parallel.cache = cache;
    if (cache) cache->begin({});
    const Binding binding(parallel);
    const Recording recording(trace);
    const Tensor result = stage->model.forward(part).logits;
    if (cache) cache->advance(part.input_ids.size(1));
    return result;
  };
  const int64_t seq = batch.input_ids.size(1);
  Trace alone;
  std::vector<std::deque<Trace>> parts(1);
  const Tensor full = logits(batch, nullptr, &alone);
  cache::Cache cache;
  std::string text;
  int64_t begin = 0;
  for (const int64_t size : {seq / 2, int64_t{1}, int64_t{1}, seq - seq / 2 - 2}) {
    const Tensor found = logits(find_tokens(batch, begin, size), &cache, &parts[0].emplace_back());
    if (cache.spoiled()) return "";
    if (text.empty())
      text = describe_difference(
          c10::str("the logits of tokens ", begin, " to ", begin + size - 1, " after a cached forward"),
          full.narrow(1, begin, size), found);
    begin += size;
  }
  return text.empty() ? "" : text + describe_line(first_difference(alone, parts, kTolerance), file);
}

std::optional<std::string> ExecutedModel::compare_written() {
  const auto found = std::ranges::find_if(written_entries, [&](const WrittenEntry& written) {
    return written.architecture == entry_.architecture && written.task == entry_.task;
  });
  if (found == written_entries.end()) return {};
  const std::unique_ptr<Stage> stage = build(1, 0, {}, 0);
  const std::optional<Outputs> outputs = found->forward(*config_, *stage->model.module, batch_);
  if (!outputs) return {};
  run_backward(*outputs, {});
  std::string text = describe_difference("the logits", alone_.logits, outputs->logits);
  if (text.empty()) text = describe_difference("the loss", alone_.loss, outputs->loss_sum);
  if (text.empty()) text = describe_difference("the number of targets", alone_.targets, outputs->token_count);
  for (size_t i = table_.parameters.size(); text.empty() && i-- > 0;) {
    const Tensor& parameter = stage->table.parameters[i].tensor;
    text = describe_difference("the gradient of " + table_.parameters[i].name, alone_.gradients[i],
                               parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  }
  return text;
}

}  // namespace modular::execute
