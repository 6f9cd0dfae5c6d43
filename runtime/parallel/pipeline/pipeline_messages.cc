#include "runtime/parallel/pipeline/pipeline_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/model/parallel.h"

namespace modular {
namespace {

constexpr int64_t kMaxDimensions = 8;

/// Returns what determines the shape of activations: the shapes of tokens and images, whose numbers differ between
/// batches, and of the decoder's inputs; and whether ranks hold a part of the positions.
std::vector<int64_t> find_shapes(const Batch& batch) {
  std::vector<int64_t> shapes = {bound.sequence != nullptr};
  for (const Tensor* tensor : {&batch.input_ids, &batch.pixel_values, &batch.decoder_input_ids, &batch.labels}) {
    shapes.push_back(tensor->defined() ? tensor->dim() : 0);
    if (tensor->defined()) shapes.insert(shapes.end(), tensor->sizes().begin(), tensor->sizes().end());
  }
  return shapes;
}

std::string describe(const PipelineMessages::Name& name) {
  return fmt::format("the {} of micro-batch {} {} stage {}", name.is_gradient ? "gradients" : "activations",
                     name.micro_batch, name.is_gradient ? "from" : "for", name.stage);
}

}  // namespace

Tensor empty_description() { return at::zeros({2 + kMaxDimensions}, at::kLong); }

Tensor make_description(const Tensor& tensor) {
  TORCH_INTERNAL_ASSERT(tensor.dim() <= kMaxDimensions);
  Tensor numbers = empty_description();
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

PipelineMessages::PipelineMessages(Mesh& mesh, std::vector<int64_t> stage_ranks)
    : device_(mesh.device()), own_(mesh.coordinate(Axis::pp)), stage_ranks_(std::move(stage_ranks)) {
  ranks_ = mesh.group({Axis::pp});
  // Each direction uses a separate group: with NCCL, messages in both directions through one communicator would block
  // each other.
  const std::string names[2][2] = {{"activations to lower ranks", ""}, {"gradients", "gradients to higher ranks"}};
  for (const bool is_gradient : {false, true})
    for (const bool upwards : {false, true})
      for (size_t stage = 1; stage < stage_ranks_.size(); ++stage) {
        const int64_t before = stage_ranks_[stage - 1], after = stage_ranks_[stage];
        if (before == after || (before < after) == (upwards == is_gradient)) continue;
        groups_[{is_gradient, upwards}] = mesh.group({Axis::pp}, names[is_gradient ? 1 : 0][upwards ? 1 : 0]);
      }
  connect();
}

/// NCCL connects two ranks at their first message, and both block until then. All ranks therefore connect here in the
/// same order, not in a step, where one of them may have other work to do first.
void PipelineMessages::connect() {
  Tensor empty = at::zeros({1}, at::TensorOptions().device(device_));
  for (const bool is_gradient : {false, true})
    for (int64_t stage = 1; stage < static_cast<int64_t>(stage_ranks_.size()); ++stage) {
      const Name name{is_gradient, stage, 0};
      const int64_t from = source(name), to = destination(name);
      if (from == to) continue;
      const ProcessGroup& between = group(is_gradient, from, to);
      if (own_ == from) modular::send(between, empty, to, tag(name), "the first message").wait();
      if (own_ == to) receive(between, empty, from, tag(name), "the first message").wait();
    }
}

int64_t PipelineMessages::source(const Name& name) const {
  return stage_ranks_[static_cast<size_t>(name.is_gradient ? name.stage : name.stage - 1)];
}

int64_t PipelineMessages::destination(const Name& name) const {
  return stage_ranks_[static_cast<size_t>(name.is_gradient ? name.stage - 1 : name.stage)];
}

const ProcessGroup& PipelineMessages::group(bool is_gradient, int64_t from, int64_t to) const {
  return groups_.at({is_gradient, from < to});
}

int64_t PipelineMessages::crossing(const Name& name) const {
  return name.stage * static_cast<int64_t>(kMaxParts) + static_cast<int64_t>(name.part);
}

int PipelineMessages::tag(const Name& name) const {
  // Smaller tags are used for descriptions.
  const auto crossings = static_cast<int64_t>(stage_ranks_.size() * kMaxParts);
  return static_cast<int>(crossings * (1 + name.micro_batch) + crossing(name));
}

void PipelineMessages::send(const Name& name, const Tensor& value, double received_at, const Batch& batch) {
  const int64_t to = destination(name);
  const Tensor sent = value.detach();
  if (to == own_) {
    handed_over_.emplace(name, sent);
    return;
  }
  const ProcessGroup& between = group(name.is_gradient, own_, to);
  const auto keep = [&](const Tensor& tensor, int tag, const std::string& what) {
    sending_.push_back({tensor, modular::send(between, tensor, to, tag, what), received_at});
  };
  if (!name.is_gradient && descriptions_sent_.emplace(crossing(name), find_shapes(batch)).second)
    keep(make_description(sent), static_cast<int>(crossing(name)), "the shape of activations");
  keep(sent.contiguous(), tag(name), describe(name));
}

bool PipelineMessages::knows_shape(const Name& name, const Batch& batch) const {
  return name.is_gradient || descriptions_received_.contains({crossing(name), find_shapes(batch)});
}

void PipelineMessages::expect(const Name& name, const Batch& batch, const Tensor& gradient) {
  TORCH_INTERNAL_ASSERT(!is_expected(name), describe(name), " is already expected");
  const int64_t from = source(name);
  const ProcessGroup& between = group(name.is_gradient, from, own_);
  Tensor tensor = gradient;
  if (!name.is_gradient) {
    Tensor& description = descriptions_received_[{crossing(name), find_shapes(batch)}];
    if (!description.defined()) {
      description = empty_description();
      receive(between, description, from, static_cast<int>(crossing(name)), "the shape of activations").wait();
    }
    tensor = empty_as_described(description, device_);
  }
  arriving_.emplace(name, Arriving{tensor, receive(between, tensor, from, tag(name), describe(name))});
}

Tensor PipelineMessages::take(const Name& name) {
  if (!is_remote(name)) return std::move(handed_over_.extract(name).mapped());
  Arriving arrival = std::move(arriving_.extract(name).mapped());
  arrival.pending.wait();
  return arrival.tensor;
}

void PipelineMessages::free_sends_until(double time) {
  for (Sending& sending : sending_)
    if (sending.received_at <= time) sending.pending.wait();
  std::erase_if(sending_, [=](const Sending& sending) { return sending.received_at <= time; });
}

void PipelineMessages::free_all_sends() {
  for (Sending& sending : sending_) sending.pending.wait();
  sending_.clear();
}

}  // namespace modular
