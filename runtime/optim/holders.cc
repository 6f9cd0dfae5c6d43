#include "runtime/optim/holders.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Of each parameter the number of its boxes, then their offset, start and shape.
std::vector<int64_t> encode(std::span<const ShardedParameter* const> parameters) {
  std::vector<int64_t> numbers;
  for (const ShardedParameter* parameter : parameters) {
    numbers.push_back(static_cast<int64_t>(parameter->boxes.size()));
    for (const ParameterBox& box : parameter->boxes)
      for (const auto* part : {&box.offset, &box.start, &box.shape})
        numbers.insert(numbers.end(), part->begin(), part->end());
  }
  return numbers;
}

std::vector<ParameterBox> decode(const int64_t*& numbers, size_t dims) {
  std::vector<ParameterBox> boxes(static_cast<size_t>(*numbers++));
  for (ParameterBox& box : boxes)
    for (auto* part : {&box.offset, &box.start, &box.shape}) {
      part->assign(numbers, numbers + dims);
      numbers += dims;
    }
  return boxes;
}

bool holds(const std::vector<ParameterBox>& boxes, const ParameterBox& box) {
  return std::ranges::any_of(
      boxes, [&](const ParameterBox& other) { return other.offset == box.offset && other.shape == box.shape; });
}

}  // namespace

std::vector<Holders> holders_of(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                const at::Device& device) {
  const std::vector<int64_t> own = encode(parameters);
  const auto own_size = static_cast<int64_t>(own.size());
  at::Tensor largest = at::full({1}, own_size, at::TensorOptions(device).dtype(at::kLong));
  all_reduce(group, largest, "the number of boxes", c10d::ReduceOp::MAX).wait();

  const int64_t ranks = group ? group->getSize() : 1;
  at::Tensor all = at::zeros({ranks, largest.item<int64_t>()}, largest.options());
  all[group ? group->getRank() : 0].narrow(0, 0, own_size).copy_(at::tensor(own, at::kLong));
  all_gather(group, {all.view(-1)}, "the boxes of parameters").wait();
  all = all.cpu();

  std::vector<Holders> holders(parameters.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t* numbers = all[rank].const_data_ptr<int64_t>();
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto boxes = decode(numbers, parameters[i]->global_shape.size());
      std::vector<bool>& first = holders[i].first.emplace_back();
      for (const ParameterBox& box : boxes)
        first.push_back(std::ranges::none_of(holders[i].boxes, [&](const auto& before) { return holds(before, box); }));
      holders[i].boxes.push_back(std::move(boxes));
    }
  }
  return holders;
}

}  // namespace modular
