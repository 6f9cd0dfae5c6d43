#include "tests/support/counted_backend.h"

#include <utility>

#include "tests/support/counted_device.h"
#include "tests/support/gloo_beneath.h"

namespace modular::testing {
namespace {

using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Work = c10::intrusive_ptr<c10d::Work>;

class Counted final : public c10d::Backend {
 public:
  Counted(c10::intrusive_ptr<c10d::Backend> inner, int rank, int size)
      : Backend(rank, size), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "counted"; }

  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    Tensors memory = {to_host_memory(tensors[0])};
    return done(inner_->allreduce(memory, options));
  }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    Tensors memory = {to_host_memory(tensors[0])};
    return done(inner_->broadcast(memory, options));
  }

  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions&) override {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const at::Tensor parts = to_host_memory(outputs[i]).view({getSize(), -1});
      for (int rank = 0; rank < getSize(); ++rank) {
        Tensors part = {parts[rank]};
        if (rank == getRank()) part[0].copy_(to_host_memory(inputs[i]).view(-1));
        c10d::BroadcastOptions options;
        options.rootRank = rank;
        done(inner_->broadcast(part, options));
      }
    }
    return c10::make_intrusive<Done>();
  }

  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions&) override {
    Tensors sum = {to_host_memory(input).clone()};
    done(inner_->allreduce(sum));
    to_host_memory(output).view(-1).copy_(sum[0].view({getSize(), -1})[getRank()]);
    return c10::make_intrusive<Done>();
  }

  Work alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_sizes, Splits& input_sizes,
                     const c10d::AllToAllOptions& options) override {
    at::Tensor to = to_host_memory(output), from = to_host_memory(input);
    return done(inner_->alltoall_base(to, from, output_sizes, input_sizes, options));
  }

  // A GPU's stream sends while the program continues: what is sent here is a copy, which the work holds.
  Work send(Tensors& tensors, int to, int tag) override {
    Tensors memory = {to_host_memory(tensors[0]).clone()};
    return inner_->send(memory, to, tag);
  }

  Work recv(Tensors& tensors, int from, int tag) override {
    Tensors memory = {to_host_memory(tensors[0])};
    return inner_->recv(memory, from, tag);
  }

  Work barrier(const c10d::BarrierOptions& options) override { return done(inner_->barrier(options)); }
  void shutdown() override { inner_->shutdown(); }

 private:
  static Work done(const Work& work) {
    work->wait();
    return c10::make_intrusive<Done>();
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
};

}  // namespace

void make_counted_backend(const Store& store, int rank, int size, std::chrono::milliseconds timeout,
                          c10::intrusive_ptr<c10d::Backend>& backend) {
  backend = c10::make_intrusive<Counted>(gloo_beneath("of the counted device", store, rank, size, timeout), rank, size);
}

}  // namespace modular::testing
