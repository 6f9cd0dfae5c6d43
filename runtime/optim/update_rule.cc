#include "runtime/optim/update_rule.h"

#include <algorithm>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// For each parameter: the number of its slices, then the offset, start and shape of each.
std::vector<int64_t> encode(std::span<const ShardedParameter* const> parameters) {
  std::vector<int64_t> numbers;
  for (const ShardedParameter* parameter : parameters) {
    numbers.push_back(static_cast<int64_t>(parameter->slices.size()));
    for (const ParameterSlice& slice : parameter->slices)
      for (const auto* part : {&slice.offset, &slice.start, &slice.shape})
        numbers.insert(numbers.end(), part->begin(), part->end());
  }
  return numbers;
}

std::vector<ParameterSlice> decode(const int64_t*& numbers, size_t dims) {
  std::vector<ParameterSlice> slices(static_cast<size_t>(*numbers++));
  for (ParameterSlice& slice : slices)
    for (auto* part : {&slice.offset, &slice.start, &slice.shape}) {
      part->assign(numbers, numbers + dims);
      numbers += dims;
    }
  return slices;
}

bool holds(const std::vector<ParameterSlice>& slices, const ParameterSlice& slice) {
  return std::ranges::any_of(
      slices, [&](const ParameterSlice& other) { return other.offset == slice.offset && other.shape == slice.shape; });
}

}  // namespace

std::vector<Holders> find_holders(std::span<const ShardedParameter* const> parameters, const ProcessGroup& group,
                                  const at::Device& device) {
  const std::vector<int64_t> own = encode(parameters);
  const auto own_size = static_cast<int64_t>(own.size());
  at::Tensor largest = at::full({1}, own_size, at::TensorOptions(device).dtype(at::kLong));
  all_reduce(group, largest, "the number of slices", c10d::ReduceOp::MAX).wait();

  const int64_t ranks = group ? group->getSize() : 1;
  at::Tensor all = at::zeros({ranks, largest.item<int64_t>()}, largest.options());
  all[group ? group->getRank() : 0].narrow(0, 0, own_size).copy_(at::tensor(own, at::kLong));
  all_gather(group, {all.view(-1)}, "the slices of parameters").wait();
  all = all.cpu();

  std::vector<Holders> holders(parameters.size());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t* numbers = all[rank].const_data_ptr<int64_t>();
    for (size_t i = 0; i < parameters.size(); ++i) {
      auto slices = decode(numbers, parameters[i]->global_shape.size());
      std::vector<bool>& first = holders[i].first.emplace_back();
      for (const ParameterSlice& slice : slices)
        first.push_back(
            std::ranges::none_of(holders[i].slices, [&](const auto& before) { return holds(before, slice); }));
      holders[i].slices.push_back(std::move(slices));
    }
  }
  return holders;
}

ShardedParameter state_like(const ShardedParameter& parameter, const std::string& what) {
  ShardedParameter kept = parameter;
  kept.name = "optimizer." + what + "." + parameter.name;
  kept.local = at::zeros_like(parameter.local, at::MemoryFormat::Contiguous);
  kept.grad.reset();
  kept.rounded.reset();
  return kept;
}

}  // namespace modular
