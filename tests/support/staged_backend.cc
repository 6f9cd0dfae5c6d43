#include "tests/support/staged_backend.h"

#include <utility>

#include "tests/support/gloo_beneath.h"

namespace modular::testing {
namespace {

using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Work = c10::intrusive_ptr<c10d::Work>;

/// A tensor of the GPU in host memory, which goes back to it where something has been written to it.
class Staged {
 public:
  explicit Staged(at::Tensor tensor) : tensor_(std::move(tensor)), host_{tensor_.cpu().contiguous()} {}
  Tensors& host() { return host_; }
  void back() const { tensor_.copy_(host_[0].view(tensor_.sizes())); }

 private:
  at::Tensor tensor_;
  Tensors host_;
};

class Stages final : public c10d::Backend {
 public:
  Stages(c10::intrusive_ptr<c10d::Backend> inner, int rank, int size) : Backend(rank, size), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "staged"; }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return change(tensors[0], [&](Tensors& host) { return inner_->allreduce(host, options); });
  }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return change(tensors[0], [&](Tensors& host) { return inner_->broadcast(host, options); });
  }

  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    for (size_t i = 0; i < outputs.size(); ++i)
      for (int rank = 0; rank < getSize(); ++rank) {
        at::Tensor part = outputs[i].view({getSize(), -1})[rank];
        if (rank == getRank()) part.copy_(inputs[i].view(-1));
        c10d::BroadcastOptions options;
        options.rootRank = rank;
        change(part, [&](Tensors& host) { return inner_->broadcast(host, options); });
      }
    return c10::make_intrusive<Done>();
  }

  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions&) override {
    Staged sum(input);
    inner_->allreduce(sum.host())->wait();
    output.view(-1).copy_(sum.host()[0].view({getSize(), -1})[getRank()]);
    return c10::make_intrusive<Done>();
  }

  Work alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_sizes, Splits& input_sizes,
                     const c10d::AllToAllOptions& options) override {
    Staged from(input);
    return change(output, [&](Tensors& host) {
      return inner_->alltoall_base(host[0], from.host()[0], output_sizes, input_sizes, options);
    });
  }

  // Of a copy, which the work holds: the program continues.
  Work send(Tensors& tensors, int to, int tag) override {
    Staged sent(tensors[0]);
    return inner_->send(sent.host(), to, tag);
  }

  Work recv(Tensors& tensors, int from, int tag) override {
    return change(tensors[0], [&](Tensors& host) { return inner_->recv(host, from, tag); });
  }

  Work barrier(const c10d::BarrierOptions& options) override {
    inner_->barrier(options)->wait();
    return c10::make_intrusive<Done>();
  }
  void shutdown() override { inner_->shutdown(); }

 private:
  template <class Operation>
  static Work change(const at::Tensor& tensor, const Operation& operation) {
    Staged staged(tensor);
    operation(staged.host())->wait();
    staged.back();
    return c10::make_intrusive<Done>();
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace

void make_staged_backend(const Store& store, int rank, int size, std::chrono::milliseconds timeout,
                         c10::intrusive_ptr<c10d::Backend>& backend) {
  backend = c10::make_intrusive<Stages>(gloo_beneath("by way of the host", store, rank, size, timeout), rank, size);
}

}  // namespace modular::testing
