#include "runtime/parallel/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/parallel/known_schedules.h"

namespace modular {
namespace {

using Kind = PipelineAction::Kind;

// Tags of messages between neighbours: two for each micro-batch, and one for descriptions.
constexpr int kDescriptionTag = 0;
int tag_of(Kind kind, int64_t micro_batch) {
  return static_cast<int>(1 + 2 * micro_batch + (kind == Kind::backward ? 1 : 0));
}

constexpr int64_t kMostDimensions = 8;

/// A tensor's type and shape as numbers of a fixed count.
Tensor description_of(const Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.dim() <= kMostDimensions);
  Tensor numbers = at::zeros({2 + kMostDimensions}, at::kLong);
  auto* data = numbers.mutable_data_ptr<int64_t>();
  data[0] = static_cast<int64_t>(tensor.scalar_type());
  data[1] = tensor.dim();
  std::ranges::copy(tensor.sizes(), data + 2);
  return numbers;
}

Tensor empty_as_described(const Tensor& description, const at::Device& device) {
  const auto* data = description.const_data_ptr<int64_t>();
  return at::empty(at::IntArrayRef(data + 2, static_cast<size_t>(data[1])),
                   at::TensorOptions().dtype(static_cast<at::ScalarType>(data[0])).device(device));
}

/// What the shape of activations follows from: tokens and images, of which one batch may hold different numbers.
std::vector<int64_t> shapes_of(const Batch& batch) {
  std::vector<int64_t> shapes;
  for (const Tensor* tensor : {&batch.input_ids, &batch.pixel_values}) {
    shapes.push_back(tensor->defined() ? tensor->dim() : 0);
    if (tensor->defined()) shapes.insert(shapes.end(), tensor->sizes().begin(), tensor->sizes().end());
  }
  return shapes;
}

std::string name_of(Kind kind, int64_t micro_batch) {
  return fmt::format("the {} of micro-batch {}", kind == Kind::forward ? "activations" : "gradients", micro_batch);
}

}  // namespace

Pipeline::Pipeline(Mesh& mesh)
    : device_(mesh.device()),
      stage_(mesh.coordinate(Axis::pp)),
      stages_(mesh.size(Axis::pp)),
      forwards_(mesh.group({Axis::pp})),
      backwards_(mesh.group({Axis::pp}, "gradients")) {
  TORCH_INTERNAL_ASSERT(stages_ > 1, "a pipeline needs a pp axis");
}

Tensor Pipeline::received() {
  TORCH_INTERNAL_ASSERT(received_.defined(), "the first stage receives nothing");
  return received_;
}

PipelineSums Pipeline::train(std::span<const Batch> micro_batches, const StageFunctions& functions, double loss_scale) {
  return run(micro_batches, functions, schedule_1f1b(stages_, static_cast<int64_t>(micro_batches.size())), loss_scale);
}

PipelineSums Pipeline::evaluate(std::span<const Batch> batches, const StageFunctions& functions) {
  at::NoGradGuard no_grad;
  return run(batches, functions,
             schedule_forward(placed_in_loops(stages_, 1), stages_, static_cast<int64_t>(batches.size())), 0.0);
}

PipelineSums Pipeline::run(std::span<const Batch> micro_batches, const StageFunctions& functions,
                           const PipelineSchedule& schedule, double loss_scale) {
  const std::string problem = problem_of(schedule, static_cast<int64_t>(micro_batches.size()));
  TORCH_INTERNAL_ASSERT(problem.empty(), "pipeline schedule: ", problem);
  const auto& actions = schedule.ranks[static_cast<size_t>(stage_)];

  Tensor loss_sum, token_count;
  for (size_t i = 0; i < actions.size(); ++i) {
    const auto [kind, stage, index] = actions[i];
    const Batch& batch = micro_batches[static_cast<size_t>(index)];
    Tensor arrival = receive_for(actions[i], batch);
    // The next one's data may arrive while this one computes, where its shape is known without asking. But not a
    // gradient while a forward computes whose result has to be sent for there to be one: NCCL connects two ranks at
    // their first message, and waits meanwhile.
    const auto expect_next = [&] {
      if (i + 1 < actions.size() &&
          can_expect(actions[i + 1], micro_batches[static_cast<size_t>(actions[i + 1].micro_batch)]))
        start_receiving(actions[i + 1], micro_batches[static_cast<size_t>(actions[i + 1].micro_batch)]);
    };
    const bool after_sending = kind == Kind::forward && i + 1 < actions.size() && actions[i + 1].kind == Kind::backward;
    if (!after_sending) expect_next();

    if (kind == Kind::forward) {
      received_ = arrival;
      if (received_.defined() && at::GradMode::is_enabled()) received_.requires_grad_();
      const Outputs outputs = functions.forward(batch);
      if (!is_last()) {
        TORCH_INTERNAL_ASSERT(outputs.carried.defined(), "a stage that is not the last must pass on");
        send_forward(outputs.carried, index, batch);
      } else if (outputs.loss_sum.defined()) {
        const Tensor loss = outputs.loss_sum.detach().to(at::kDouble);
        loss_sum = loss_sum.defined() ? loss_sum + loss : loss;
        token_count = token_count.defined() ? token_count + outputs.token_count : outputs.token_count;
      }
      if (at::GradMode::is_enabled()) in_flight_[index] = {received_, is_last() ? outputs.loss_sum : outputs.carried};
    } else {
      InFlight micro_batch = std::move(in_flight_.extract(index).mapped());
      received_ = micro_batch.input;  // a forward that is recomputed asks for it again
      if (is_last()) arrival = at::full_like(micro_batch.output, loss_scale);
      functions.backward(micro_batch.output, arrival);
      if (!is_first()) {
        const Tensor gradient = micro_batch.input.grad();
        keep_sending(gradient.defined() ? gradient.contiguous() : at::zeros_like(micro_batch.input), backwards_,
                     stage_ - 1, tag_of(kind, index), name_of(kind, index));
      }
    }
    received_.reset();
    if (after_sending) expect_next();
  }
  for (auto* sending : {&sending_forwards_, &sending_backwards_}) {
    for (auto& [tensor, pending] : *sending) pending.wait();
    sending->clear();
  }

  Tensor totals = at::zeros({2}, at::kDouble);
  if (loss_sum.defined()) {
    totals[0] = loss_sum.cpu();
    totals[1] = token_count.cpu();
  }
  all_reduce(forwards_, totals, "the pipeline's loss").wait();
  return {totals[0].item<double>(), static_cast<int64_t>(totals[1].item<double>())};
}

Tensor Pipeline::receive_for(const PipelineAction& action, const Batch& micro_batch) {
  if (is_source(action)) return {};
  const auto key = std::pair(action.kind == Kind::backward, action.micro_batch);
  if (!arriving_.contains(key)) start_receiving(action, micro_batch);
  Arriving arrival = std::move(arriving_.extract(key).mapped());
  arrival.pending.wait();
  return arrival.tensor;
}

bool Pipeline::is_source(const PipelineAction& action) const {
  return action.kind == Kind::forward ? is_first() : is_last();
}

bool Pipeline::can_expect(const PipelineAction& action, const Batch& micro_batch) const {
  if (is_source(action)) return false;
  return action.kind == Kind::forward ? descriptions_received_.contains(shapes_of(micro_batch))
                                      : in_flight_.contains(action.micro_batch);
}

void Pipeline::start_receiving(const PipelineAction& action, const Batch& micro_batch) {
  const auto [kind, stage, index] = action;
  Tensor tensor;
  if (kind == Kind::backward) {
    tensor = at::empty_like(in_flight_.at(index).output.detach(), at::MemoryFormat::Contiguous);
  } else {
    Tensor& description = descriptions_received_[shapes_of(micro_batch)];
    if (!description.defined()) {
      description = at::zeros({2 + kMostDimensions}, at::kLong);
      receive(forwards_, description, stage_ - 1, kDescriptionTag, "the shape of activations").wait();
    }
    tensor = empty_as_described(description, device_);
  }
  Pending pending = kind == Kind::forward
                        ? receive(forwards_, tensor, stage_ - 1, tag_of(kind, index), name_of(kind, index))
                        : receive(backwards_, tensor, stage_ + 1, tag_of(kind, index), name_of(kind, index));
  arriving_.emplace(std::pair(kind == Kind::backward, index), Arriving{tensor, std::move(pending)});
}

void Pipeline::send_forward(const Tensor& carried, int64_t micro_batch, const Batch& batch) {
  if (descriptions_sent_.insert(shapes_of(batch)).second)
    keep_sending(description_of(carried), forwards_, stage_ + 1, kDescriptionTag, "the shape of activations");
  keep_sending(carried.detach().contiguous(), forwards_, stage_ + 1, tag_of(Kind::forward, micro_batch),
               name_of(Kind::forward, micro_batch));
}

void Pipeline::keep_sending(const Tensor& tensor, const ProcessGroup& group, int64_t peer, int tag,
                            const std::string& what) {
  // In 1F1B what was sent before the last has been received by now, but for the ends of a step: a neighbour takes it
  // before it sends what this stage has just computed with. So this wait gives memory back and rarely waits; it never
  // does so for ever, as the neighbour needs nothing that is not sent yet to come to receive it.
  auto& sending = group == forwards_ ? sending_forwards_ : sending_backwards_;
  if (sending.size() >= 2) {
    sending.front().second.wait();
    sending.pop_front();
  }
  sending.emplace_back(tensor, send(group, tensor, peer, tag, what));
}

Tensor Pipeline::logits(const Batch& batch, const StageFunctions& functions) {
  at::NoGradGuard no_grad;
  Batch asked = batch;
  asked.want_logits = true;
  Tensor logits;
  const StageFunctions watched = {[&](const Batch& given) {
                                    Outputs outputs = functions.forward(given);
                                    logits = outputs.logits;
                                    return outputs;
                                  },
                                  functions.backward};
  run({&asked, 1}, watched, schedule_forward(placed_in_loops(stages_, 1), stages_, 1), 0.0);

  Tensor description = is_last() ? description_of(logits) : at::zeros({2 + kMostDimensions}, at::kLong);
  broadcast(forwards_, description, stages_ - 1, "the shape of the logits").wait();
  logits = is_last() ? logits.contiguous() : empty_as_described(description, device_);
  broadcast(forwards_, logits, stages_ - 1, "the logits").wait();
  return logits;
}

void Pipeline::sum_between_ends(std::span<Tensor> gradients) {
  if (gradients.empty() || (!is_first() && !is_last())) return;
  std::vector<Tensor> flat;
  for (const Tensor& gradient : gradients) flat.push_back(gradient.detach().flatten());
  const Tensor own = at::cat(flat);
  Tensor other = at::empty_like(own);
  // Each direction has its own group, and thus never waits for the other.
  const int64_t peer = is_first() ? stages_ - 1 : 0;
  const std::string what = "the gradients of parameters that the first and the last stage share";
  Pending sent = send(is_first() ? forwards_ : backwards_, own, peer, kDescriptionTag, what);
  receive(is_first() ? backwards_ : forwards_, other, peer, kDescriptionTag, what).wait();
  sent.wait();
  int64_t start = 0;
  for (Tensor& gradient : gradients) {
    gradient.add_(other.narrow(0, start, gradient.numel()).view_as(gradient));
    start += gradient.numel();
  }
}

}  // namespace modular
