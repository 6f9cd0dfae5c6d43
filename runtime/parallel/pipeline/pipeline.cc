#include "runtime/parallel/pipeline/pipeline.h"

#include <algorithm>
#include <utility>

namespace modular {

using Kind = PipelineAction::Kind;

Pipeline::Pipeline(Mesh& mesh, const PipelineOptions& options, const std::vector<int64_t>& sizes)
    : device_(mesh.device()),
      own_(mesh.coordinate(Axis::pp)),
      options_(options),
      stage_ranks_(stage_placement(options, mesh.size(Axis::pp))),
      messages_(mesh, stage_ranks_) {
  TORCH_INTERNAL_ASSERT(mesh.size(Axis::pp) > 1, "a pipeline needs a pp axis");
  TORCH_INTERNAL_ASSERT(static_cast<int64_t>(options.cuts.size()) == stages() - 1,
                        "a pipeline needs a cut before each stage but the first");
  backwards_ = mesh.group({Axis::pp}, "gradients");
  for (int64_t stage = 0; stage < stages(); ++stage) placed_.emplace_back(stage, options.cuts, sizes);
}

Tensor Pipeline::received() {
  TORCH_INTERNAL_ASSERT(!received_.empty(), "the first stage receives nothing");
  return placed().stack() == 0 ? received_.back() : received_.front();
}

bool Pipeline::second_stack(const Tensor& between) {
  const bool runs = placed().second_stack(between);
  if (runs && !placed().is_last()) between_ = between;
  return runs;
}

std::vector<StageOnRank> Pipeline::own_stages() const {
  std::vector<StageOnRank> own;
  for (const StageOnRank& stage : placed_)
    if (stage_ranks_[static_cast<size_t>(stage.number())] == own_) own.push_back(stage);
  return own;
}

const Pipeline::Prepared& Pipeline::prepared(bool trains, int64_t micro_batches) {
  const auto [entry, is_new] = prepared_.try_emplace({trains, micro_batches});
  Prepared& prepared = entry->second;
  if (is_new) {
    const auto ranks = 1 + *std::ranges::max_element(stage_ranks_);
    prepared.schedule = trains ? training_schedule(options_, ranks, micro_batches)
                               : schedule_forward(stage_ranks_, ranks, micro_batches);
    const std::string problem = find_problem(prepared.schedule, micro_batches, trains);
    TORCH_INTERNAL_ASSERT(problem.empty(), "pipeline schedule: ", problem);
    prepared.simulation = simulate(prepared.schedule);
  }
  return prepared;
}

/// One run of a schedule.
class Pipeline::Run {
 public:
  Run(Pipeline& pipeline, const Prepared& prepared, std::span<const Batch> micro_batches,
      const StageFunctions& functions, double loss_scale)
      : pipeline_(pipeline),
        messages_(pipeline.messages_),
        simulation_(prepared.simulation),
        actions_(prepared.schedule.ranks[static_cast<size_t>(pipeline.own_)]),
        micro_batches_(micro_batches),
        functions_(functions),
        loss_scale_(loss_scale) {}

  PipelineSums run() {
    const auto& starts = simulation_.starts[static_cast<size_t>(pipeline_.own_)];
    for (size_t i = 0; i < actions_.size(); ++i) {
      // Frees a sent tensor once the simulated clock shows that the receiver has had it for the length of an action of
      // this rank, so this wait frees memory and rarely blocks. It cannot deadlock: all ranks wait only for earlier
      // events of one clock.
      if (i > 0) messages_.free_sends_until(starts[i - 1]);
      std::vector<Tensor> arrivals = take_for(actions_[i]);
      expect_next(i);
      pipeline_.running_ = actions_[i].stage;
      perform(actions_[i], std::move(arrivals));
      pipeline_.received_.clear();
    }
    messages_.free_all_sends();

    return {loss_.tensor(), count_.tensor()};
  }

 private:
  using Name = PipelineMessages::Name;
  using Key = std::pair<int64_t, int64_t>;  // stage and micro-batch

  static Key make_key(const PipelineAction& action) { return {action.stage, action.micro_batch}; }
  const Batch& to_batch(const PipelineAction& action) const {
    return micro_batches_[static_cast<size_t>(action.micro_batch)];
  }

  /// Returns the tensors that the action receives from the adjacent stage: none if its inputs are the batch, the loss,
  /// or tensors that this rank kept.
  std::vector<Name> inputs_from_peer(const PipelineAction& action) const {
    const bool is_gradient = action.kind != Kind::forward;
    const int64_t stage = is_gradient ? action.stage + 1 : action.stage;  // the stage after the cut
    if (stage == pipeline_.stages() || (is_gradient && !passes_gradient(action.kind))) return {};
    std::vector<Name> names;
    for (size_t part = 0; part < pipeline_.placed_[static_cast<size_t>(stage)].receives(); ++part)
      names.push_back({is_gradient, stage, action.micro_batch, part});
    return names;
  }

  std::vector<Tensor> take_for(const PipelineAction& action) {
    const std::vector<Name> names = inputs_from_peer(action);
    if (!names.empty() && messages_.is_remote(names.front())) expect(action, names);
    std::vector<Tensor> arrivals;
    for (const Name& name : names) arrivals.push_back(messages_.take(name));
    return arrivals;
  }

  /// Starts to receive the inputs of the action, unless it has already been started.
  void expect(const PipelineAction& action, const std::vector<Name>& names) {
    if (messages_.is_expected(names.front())) return;
    std::vector<Tensor> gradients(names.size());
    if (names.front().is_gradient) gradients = graphs_.at(make_key(action)).empty_gradients();
    for (size_t i = 0; i < names.size(); ++i) messages_.expect(names[i], to_batch(action), gradients[i]);
  }

  /// Simulated time at which the received inputs of the action are produced.
  double produced_at(const PipelineAction& action) const {
    const auto stage = static_cast<size_t>(action.stage);
    return action.kind == Kind::forward ? simulation_.forward_ends[stage - 1][index_of(action)]
                                        : simulation_.backward_ends[stage + 1][index_of(action)];
  }

  /// Starts to receive the inputs of the next action while this one computes, if their shape is known. Skips inputs
  /// that are produced after this action has ended: they may depend on what this action sends, and that send must not
  /// queue behind the receive.
  void expect_next(size_t number) {
    const auto& starts = simulation_.starts[static_cast<size_t>(pipeline_.own_)];
    const double end = starts[number] + ActionTimes().of(actions_[number].kind);
    for (size_t i = number + 1; i < actions_.size(); ++i) {
      const PipelineAction& action = actions_[i];
      const std::vector<Name> names = inputs_from_peer(action);
      if (names.empty() || !messages_.is_remote(names.front())) continue;
      const bool knows_shape = names.front().is_gradient ? graphs_.contains(make_key(action))
                                                         : messages_.knows_shape(names.back(), to_batch(action));
      if (knows_shape && produced_at(action) <= end) expect(action, names);
      return;
    }
  }

  void perform(const PipelineAction& action, std::vector<Tensor> arrivals) {
    switch (action.kind) {
      case Kind::forward:
        return forward(action, std::move(arrivals));
      case Kind::backward_weight:
        return backward_weight(action);
      case Kind::backward_input:
      case Kind::backward:
        return backward(action, std::move(arrivals));
    }
  }

  void forward(const PipelineAction& action, std::vector<Tensor> arrivals) {
    const bool with_graph = at::GradMode::is_enabled(), is_last = action.stage + 1 == pipeline_.stages();
    if (with_graph)
      for (Tensor& arrival : arrivals) arrival.requires_grad_();
    pipeline_.received_ = arrivals;
    const Outputs outputs = functions_.forward(to_batch(action));
    std::vector<Tensor> stage_outputs = {is_last ? outputs.loss_sum : outputs.carried};
    if (Tensor between = std::exchange(pipeline_.between_, {}); between.defined())
      stage_outputs.push_back(std::move(between));
    if (with_graph) graphs_.emplace(make_key(action), StageGraph(stage_outputs, std::move(arrivals)));
    if (!is_last) {
      TORCH_INTERNAL_ASSERT(outputs.carried.defined(), "a stage other than the last must set Outputs::carried");
      const auto next = static_cast<size_t>(action.stage + 1);
      TORCH_INTERNAL_ASSERT(stage_outputs.size() == pipeline_.placed_[next].receives(), "a stage sends ",
                            stage_outputs.size(), " tensors, but the next stage expects ",
                            pipeline_.placed_[next].receives());
      for (size_t part = 0; part < stage_outputs.size(); ++part)
        messages_.send({false, action.stage + 1, action.micro_batch, part}, stage_outputs[part],
                       simulation_.forward_ends[next][index_of(action)], to_batch(action));
    } else if (outputs.loss_sum.defined()) {
      loss_.add(outputs.loss_sum);
      count_.add(outputs.token_count);
    }
  }

  void backward(const PipelineAction& action, std::vector<Tensor> arrivals) {
    const auto entry = graphs_.find(make_key(action));
    StageGraph& graph = entry->second;
    const std::vector<Tensor> inputs = graph.inputs();
    pipeline_.received_ = inputs;  // a recomputed forward reads it again
    if (action.stage + 1 == pipeline_.stages()) {
      arrivals = graph.empty_gradients();
      arrivals.front().fill_(loss_scale_);
    }
    const bool is_cut = action.kind == Kind::backward_input && functions_.can_cut;
    std::vector<Tensor> gradients;
    functions_.backward(action, [&] {
      gradients =
          is_cut ? graph.backward_input(std::exchange(arrivals, {})) : graph.backward(std::exchange(arrivals, {}));
    });
    if (!is_cut) graphs_.erase(entry);
    for (size_t part = 0; part < inputs.size(); ++part) {
      if (!gradients[part].defined()) gradients[part] = at::zeros_like(inputs[part]);
      messages_.send({true, action.stage, action.micro_batch, part}, gradients[part],
                     simulation_.backward_ends[static_cast<size_t>(action.stage - 1)][index_of(action)],
                     to_batch(action));
    }
  }

  void backward_weight(const PipelineAction& action) {
    if (!functions_.can_cut) return;
    StageGraph graph = std::move(graphs_.extract(make_key(action)).mapped());
    functions_.backward(action, [&] { graph.backward_weight(); });
  }

  static size_t index_of(const PipelineAction& action) { return static_cast<size_t>(action.micro_batch); }

  Pipeline& pipeline_;
  PipelineMessages& messages_;
  const Simulation& simulation_;
  const std::vector<PipelineAction>& actions_;
  std::span<const Batch> micro_batches_;
  const StageFunctions& functions_;
  double loss_scale_;
  std::map<Key, StageGraph> graphs_;  // from a forward until its B or W
  RunningSum loss_, count_;
};

PipelineSums Pipeline::train(std::span<const Batch> micro_batches, const StageFunctions& functions, double loss_scale) {
  const Prepared& schedule = prepared(/*trains=*/true, static_cast<int64_t>(micro_batches.size()));
  return Run(*this, schedule, micro_batches, functions, loss_scale).run();
}

PipelineSums Pipeline::evaluate(std::span<const Batch> batches, const StageFunctions& functions) {
  at::NoGradGuard no_grad;
  const Prepared& schedule = prepared(/*trains=*/false, static_cast<int64_t>(batches.size()));
  return Run(*this, schedule, batches, functions, /*loss_scale=*/0.0).run();
}

std::vector<double> Pipeline::sum(std::vector<double> values, const std::string& what) const {
  all_reduce(messages_.ranks(), at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kDouble), what)
      .wait();
  return values;
}

Tensor Pipeline::logits(const Batch& batch, const StageFunctions& functions) {
  Batch with_logits = batch;
  with_logits.want_logits = true;
  Tensor logits;
  const auto forward = [&](const Batch& micro_batch) {
    Outputs outputs = functions.forward(micro_batch);
    if (is_last()) logits = outputs.logits;
    return outputs;
  };
  evaluate({&with_logits, 1}, {.forward = forward, .backward = nullptr});

  const int64_t last = stage_ranks_.back();
  Tensor description = own_ == last ? make_description(logits) : empty_description();
  broadcast(messages_.ranks(), description, last, "the shape of the logits").wait();
  logits = own_ == last ? logits.contiguous() : empty_as_described(description, device_);
  broadcast(messages_.ranks(), logits, last, "the logits").wait();
  return logits;
}

bool Pipeline::is_at_an_end() const {
  const int64_t first = stage_ranks_.front(), last = stage_ranks_.back();
  return first != last && (own_ == first || own_ == last);
}

Tensor Pipeline::communicate_between_ends(const Tensor& own, const std::string& what) {
  const bool is_first = own_ == stage_ranks_.front();
  const int64_t peer = is_first ? stage_ranks_.back() : stage_ranks_.front();
  // Each direction uses a separate group, and both ranks use the two in the same order: NCCL connects two ranks of a
  // group when the second one arrives, and blocks the first until then.
  const ProcessGroup &from_first = messages_.ranks(), &from_last = backwards_;
  Tensor other = at::empty_like(own);
  Pending first, second;
  if (is_first) {
    first = send(from_first, own, peer, /*tag=*/0, what);
    second = receive(from_last, other, peer, /*tag=*/0, what);
  } else {
    first = receive(from_first, other, peer, /*tag=*/0, what);
    second = send(from_last, own, peer, /*tag=*/0, what);
  }
  first.wait();
  second.wait();
  return other;
}

void Pipeline::connect_ends() {
  if (is_at_an_end())
    communicate_between_ends(at::zeros({1}, at::TensorOptions().device(device_)), "the first message between the ends");
}

void Pipeline::sum_between_ends(std::span<Tensor> gradients) {
  if (gradients.empty() || !is_at_an_end()) return;
  std::vector<Tensor> flat;
  for (const Tensor& gradient : gradients) flat.push_back(gradient.detach().flatten());
  const Tensor own = at::cat(flat);
  if (own.numel() == 0) return;  // this tp rank has no rows of the table
  const Tensor other =
      communicate_between_ends(own, "the gradients of parameters that the first and the last stage share");
  int64_t start = 0;
  for (Tensor& gradient : gradients) {
    gradient.add_(other.narrow(0, start, gradient.numel()).view_as(gradient));
    start += gradient.numel();
  }
}

}  // namespace modular
