#include "runtime/mesh/collectives.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "runtime/mesh/status.h"

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

template <class Start>
Pending start(const char* operation, const ProcessGroup& group, const std::string& what, Start&& run) {
  std::string description = describe(operation, group, what);
  try {
    return Pending(run(), std::move(description));
  } catch (const std::exception& error) {
    fail(description, error);
  }
}

/// Gloo's collectives take no gradient-requiring tensors' graph along; what they touch is data.
std::vector<at::Tensor> data_of(const at::Tensor& tensor) { return {tensor.detach()}; }

}  // namespace

void Pending::wait() {
  if (!work_) return;
  const auto work = std::move(work_);
  work_.reset();
  set_waiting(what_);
  try {
    work->wait();
  } catch (const std::exception& error) {
    fail(what_, error);
  }
  set_waiting({});
}

Pending all_reduce(const ProcessGroup& group, at::Tensor tensor, const std::string& what, c10d::ReduceOp op) {
  if (!group) return {};
  return start("all_reduce", group, what, [&] {
    auto tensors = data_of(tensor);
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return group->allreduce(tensors, options);
  });
}

Pending all_gather(const ProcessGroup& group, at::Tensor output, at::Tensor input, const std::string& what) {
  if (!group) {
    output.copy_(input);
    return {};
  }
  return start("all_gather", group, what, [&] { return group->_allgather_base(output, input); });
}

Pending reduce_scatter(const ProcessGroup& group, at::Tensor output, at::Tensor input, const std::string& what,
                       c10d::ReduceOp op) {
  if (!group) {
    output.copy_(input);
    return {};
  }
  return start("reduce_scatter", group, what, [&] {
    c10d::ReduceScatterOptions options;
    options.reduceOp = op;
    return group->_reduce_scatter_base(output, input, options);
  });
}

Pending broadcast(const ProcessGroup& group, at::Tensor tensor, int64_t source, const std::string& what) {
  if (!group) return {};
  return start("broadcast", group, what, [&] {
    auto tensors = data_of(tensor);
    c10d::BroadcastOptions options;
    options.rootRank = source;
    return group->broadcast(tensors, options);
  });
}

Pending send(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what) {
  return start("send", group, fmt::format("{} to rank {}", what, peer), [&] {
    auto tensors = data_of(tensor);
    return group->send(tensors, static_cast<int>(peer), tag);
  });
}

Pending receive(const ProcessGroup& group, at::Tensor tensor, int64_t peer, int tag, const std::string& what) {
  return start("receive", group, fmt::format("{} from rank {}", what, peer), [&] {
    auto tensors = data_of(tensor);
    return group->recv(tensors, static_cast<int>(peer), tag);
  });
}

void barrier(const ProcessGroup& group, const std::string& what) {
  if (!group) return;
  start("barrier", group, what, [&] { return group->barrier(); }).wait();
}

}  // namespace modular
