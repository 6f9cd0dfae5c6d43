#include "runtime/mesh/collectives.h"

#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <utility>

#include "runtime/mesh/status.h"
#include "runtime/mesh/storage.h"

namespace modular {
namespace {

[[noreturn]] void fail(const std::string& what, const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  throw CollectiveError(
      fmt::format("{} failed: {}", what, torch_error ? torch_error->what_without_backtrace() : error.what()));
}

std::string describe(const char* operation, const ProcessGroup& group, const std::string& what) {
  return fmt::format("{} of {} over {} (as rank {} of {})", operation, what, group->getGroupDesc(), group->getRank(),
                     group->getSize());
}

using Works = Pending::Works;

/// Bytes of `tensor` that belong to other ranks of `group`.
double others(const ProcessGroup& group, const at::Tensor& tensor) {
  return static_cast<double>(tensor.nbytes()) * (group->getSize() - 1) / group->getSize();
}

/// Starts a collective. `run()` launches the works, through which this rank receives `bytes`; `finish()` runs after
/// they have completed and ends the collective.
template <class Start>
Pending start(const char* operation, const ProcessGroup& group, const std::string& what, double bytes, Start&& run,
              std::function<void()> finish = {}) {
  const std::string& group_name = group->getGroupDesc();
  for (AxisTraffic* counted :
       {static_cast<AxisTraffic*>(&traffic()), &traffic().over[group_name.substr(0, group_name.find(" ("))]}) {
    counted->collectives += bytes > 0.0;
    counted->bytes += bytes;
  }
  std::string description = describe(operation, group, what);
  RECORD_USER_SCOPE(description);
  try {
    return Pending(run(), std::move(description), std::move(finish));
  } catch (const std::exception& error) {
    fail(description, error);
  }
}

/// Collectives move data only; detach so that no autograd graph is attached.
std::vector<at::Tensor> get_data(const at::Tensor& tensor) { return {tensor.detach()}; }

}  // namespace

void Pending::wait() {
  if (!active()) return;
  const Works works = std::exchange(works_, {});
  const auto finish = std::exchange(finish_, {});
  RECORD_USER_SCOPE("wait for " + what_);
  set_waiting(what_);
  try {
    for (const auto& work : works) work->wait();
    if (finish) finish();
  } catch (const std::exception& error) {
    fail(what_, error);
  }
  set_waiting({});
}

Pending all_reduce(const ProcessGroup& group, at::Tensor tensor, const std::string& what, c10d::ReduceOp op) {
  if (!group) return {};
  return start("all_reduce", group, what, 2 * others(group, tensor), [&]() -> Works {
    auto tensors = get_data(tensor);
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return {group->allreduce(tensors, options)};
  });
}

void sum_coalesced(const ProcessGroup& group, const std::vector<at::Tensor>& tensors, const std::string& what) {
  if (!group || tensors.empty()) return;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape(-1));
  const at::Tensor sum = at::cat(flat);
  if (sum.numel() > 0) all_reduce(group, sum, what).wait();
  int64_t start = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(sum.narrow(0, start, tensor.numel()).view_as(tensor));
    start += tensor.numel();
  }
}

// With Gloo, c10d's all-gather copies its output, and its reduce-scatter sums a copy of the full input on every rank. A
// backend thread makes the all-gather's copy at an arbitrary time, so the memory peak would depend on timing. In host
// memory both are therefore built from collectives that write directly into the destination tensors, with half the
// traffic of c10d's reduction.

Pending all_gather(const ProcessGroup& group, const std::vector<at::Tensor>& tensors, const std::string& what) {
  if (!group) return {};
  double bytes = 0.0;
  for (const at::Tensor& tensor : tensors) bytes += others(group, tensor);
  return start("all_gather", group, what, bytes, [&]() -> Works {
    std::vector<at::Tensor> full, own;
    Works works;
    for (const at::Tensor& tensor : tensors) {
      full.push_back(tensor.detach().view({group->getSize(), -1}));
      own.push_back(full.back()[group->getRank()]);
    }
    if (!tensors.front().is_cpu()) return {group->allgather_into_tensor_coalesced(full, own)};
    for (const at::Tensor& parts : full) {
      for (int rank = 0; rank < group->getSize(); ++rank) {
        std::vector<at::Tensor> part = {parts[rank]};
        c10d::BroadcastOptions options;
        options.rootRank = rank;
        works.push_back(group->broadcast(part, options));
      }
    }
    return works;
  });
}

Pending reduce_scatter(const ProcessGroup& group, const at::Tensor& output, const at::Tensor& input,
                       const std::string& what) {
  if (!group) {
    output.copy_(input);
    return {};
  }
  if (!input.is_cpu()) {
    return start(
        "reduce_scatter", group, what, others(group, input),
        [&, sum = output, full = input]() mutable -> Works { return {group->_reduce_scatter_base(sum, full)}; });
  }
  const at::Tensor terms = at::empty_like(input);  // every rank's contribution to this rank's chunk
  auto start_all_to_all = [&, to = terms, from = input]() mutable -> Works {
    std::vector<int64_t> equal_parts;
    return {group->alltoall_base(to, from, equal_parts, equal_parts)};
  };
  return start("reduce_scatter", group, what, others(group, input), start_all_to_all, [=, size = group->getSize()] {
    const at::Tensor by_rank = terms.view({size, -1}), sum = output.view(-1);
    sum.copy_(by_rank[0]);
    for (int rank = 1; rank < size; ++rank) sum.add_(by_rank[rank]);
    free_storage(terms);
  });
}

Pending all_to_all(const ProcessGroup& group, const at::Tensor& output, std::vector<int64_t> output_sizes,
                   const at::Tensor& input, std::vector<int64_t> input_sizes, const std::string& what) {
  if (!group) {
    output.copy_(input);
    return {};
  }
  const int64_t own = output_sizes.at(static_cast<size_t>(group->getRank()));
  const auto bytes = static_cast<double>(output.numel() - own) * static_cast<double>(output.element_size());
  return start("all_to_all", group, what, bytes, [&, to = output, from = input]() mutable -> Works {
    return {group->alltoall_base(to, from, output_sizes, input_sizes)};
  });
}

Pending broadcast(const ProcessGroup& group, at::Tensor tensor, int64_t source, const std::string& what) {
  if (!group) return {};
  return start("broadcast", group, what, source == group->getRank() ? 0.0 : static_cast<double>(tensor.nbytes()),
               [&]() -> Works {
                 auto tensors = get_data(tensor);
                 c10d::BroadcastOptions options;
                 options.rootRank = source;
                 return {group->broadcast(tensors, options)};
               });
}

bool any_rank(const ProcessGroup& group, bool value, const std::string& what) {
  const at::Tensor holds = at::full({1}, value ? 1 : 0, at::kInt);
  all_reduce(group, holds, what, c10d::ReduceOp::MAX).wait();
  return holds.item<int>() != 0;
}

std::string broadcast_text(const ProcessGroup& group, const std::string& text, const std::string& what) {
  if (!group) return text;
  const at::Tensor size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  broadcast(group, size, 0, fmt::format("the length of {}", what)).wait();
  std::string result = text;
  result.resize(static_cast<size_t>(size.item<int64_t>()));
  if (!result.empty())
    broadcast(group, at::from_blob(result.data(), {size.item<int64_t>()}, at::kByte), 0, what).wait();
  return result;
}

Pending send(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what) {
  return start("send", group, fmt::format("{} to rank {}", what, peer), 0.0, [&]() -> Works {
    auto tensors = get_data(tensor);
    return {group->send(tensors, static_cast<int>(peer), tag)};
  });
}

Pending receive(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what) {
  return start("receive", group, fmt::format("{} from rank {}", what, peer), static_cast<double>(tensor.nbytes()),
               [&]() -> Works {
                 auto tensors = get_data(tensor);
                 return {group->recv(tensors, static_cast<int>(peer), tag)};
               });
}

void barrier(const ProcessGroup& group, const std::string& what) {
  if (!group) return;
  start("barrier", group, what, 0.0, [&]() -> Works { return {group->barrier()}; }).wait();
}

}  // namespace modular
