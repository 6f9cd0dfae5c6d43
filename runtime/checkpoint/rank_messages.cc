#include "runtime/checkpoint/rank_messages.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <chrono>
#include <vector>

#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

/// Ranks take turns, so the last one waits until all others have transferred their part of a model. The connection
/// detects a rank that is gone, and the training steps detect one that hangs.
constexpr auto kTurnTimeout = std::chrono::hours(24);

/// Not the functions of collectives.h: they count messages and report what this rank waits for, which only the main
/// thread may do.
template <class Start>
void transfer(const ProcessGroup& group, int64_t rank, const at::Tensor& values, Start&& start) {
  if (values.numel() == 0) return;
  try {
    std::vector<at::Tensor> tensors = {values.detach()};
    start(tensors)->wait();
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    throw CollectiveError(fmt::format("the transfer of a checkpoint's parts between ranks {} and {} failed: {}",
                                      group->getRank(), rank,
                                      torch_error ? torch_error->what_without_backtrace() : error.what()));
  }
}

at::Tensor as_bytes(std::string& text) {
  return at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte);
}

}  // namespace

ProcessGroup message_group(Mesh& mesh) { return mesh.host_group("checkpoints", kTurnTimeout); }

void send_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values) {
  transfer(group, rank, values, [&](auto& tensors) { return group->send(tensors, static_cast<int>(rank), 0); });
}

void receive_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values) {
  transfer(group, rank, values, [&](auto& tensors) { return group->recv(tensors, static_cast<int>(rank), 0); });
}

void send_number(const ProcessGroup& group, int64_t rank, int64_t number) {
  send_values(group, rank, at::full({1}, number, at::kLong));
}

int64_t receive_number(const ProcessGroup& group, int64_t rank) {
  const at::Tensor number = at::zeros({1}, at::kLong);
  receive_values(group, rank, number);
  return number.item<int64_t>();
}

void send_text(const ProcessGroup& group, int64_t rank, std::string text) {
  send_number(group, rank, static_cast<int64_t>(text.size()));
  send_values(group, rank, as_bytes(text));
}

std::string receive_text(const ProcessGroup& group, int64_t rank) {
  std::string text(static_cast<size_t>(receive_number(group, rank)), '\0');
  receive_values(group, rank, as_bytes(text));
  return text;
}

}  // namespace modular
