#include "runtime/checkpoint/first_reader.h"

#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/rank_messages.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

using nlohmann::json;

/// Rank 0's answer for a slice, and its final answer after all ranks have their slices.
enum Answer : int64_t { kUnreadable, kNone, kValues };

std::string describe_wanted(std::span<const TensorSlice> slices) {
  json wanted = json::array();
  for (const TensorSlice& slice : slices)
    wanted.push_back({slice.name, slice.global_shape, slice.offset, slice.local.sizes().vec(),
                      static_cast<int>(slice.local.scalar_type())});
  return wanted.dump();
}

/// A slice of another rank, parsed from describe_wanted(), with memory for its values.
TensorSlice wanted_slice(const json& wanted) {
  using Sizes = std::vector<int64_t>;
  const auto type = static_cast<at::ScalarType>(wanted.at(4).get<int>());
  return {wanted.at(0).get<std::string>(), wanted.at(1).get<Sizes>(), wanted.at(2).get<Sizes>(),
          at::empty(wanted.at(3).get<Sizes>(), type)};
}

void read_for_all(std::span<const TensorSlice> slices, const ReadSlice& read, const ProcessGroup& group) {
  std::exception_ptr error;
  const auto answer = [&](const TensorSlice& slice, int64_t rank) {
    try {
      if (!error) return read(slice, rank) ? kValues : kNone;
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    return kUnreadable;
  };
  for (const TensorSlice& slice : slices) answer(slice, 0);
  const int64_t ranks = group ? group->getSize() : 1;
  for (int64_t rank = 1; rank < ranks; ++rank)
    for (const json& wanted : json::parse(receive_text(group, rank))) {
      const TensorSlice slice = wanted_slice(wanted);
      const Answer reply = answer(slice, rank);
      send_number(group, rank, reply);
      if (reply == kUnreadable) break;
      if (reply == kValues) send_values(group, rank, slice.local);
    }
  // No rank continues before all ranks are done: the timeout of the collectives that follow is shorter.
  for (int64_t rank = 1; rank < ranks; ++rank) send_number(group, rank, error ? kUnreadable : kNone);
  if (error) std::rethrow_exception(error);
}

void receive_from_rank0(std::span<const TensorSlice> slices, const std::string& what, const ProcessGroup& group) {
  send_text(group, 0, describe_wanted(slices));
  for (const TensorSlice& slice : slices) {
    const int64_t reply = receive_number(group, 0);
    if (reply == kUnreadable) break;
    if (reply == kNone) continue;
    const bool in_place = slice.local.is_cpu() && slice.local.is_contiguous();
    const at::Tensor values = in_place ? slice.local : at::empty(slice.local.sizes(), slice.local.scalar_type());
    receive_values(group, 0, values);
    if (!in_place) at::Tensor(slice.local).copy_(values);
  }
  if (receive_number(group, 0) == kUnreadable)
    throw CollectiveError(fmt::format("rank 0 failed to read {} for all ranks", what));
}

}  // namespace

void read_by_first(std::span<const TensorSlice> slices, const ReadSlice& read, const std::string& what, Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const ProcessGroup group = message_group(mesh);
  if (mesh.rank() == 0)
    read_for_all(slices, read, group);
  else
    receive_from_rank0(slices, what, group);
}

void load_parameters_by_first(const std::filesystem::path& folder, const ModelConfig& model,
                              std::span<const TensorSlice> parameters, Head head, Mesh& mesh) {
  std::optional<StoredTensors> stored;  // opened inside read_by_first(), which reports a failure to all ranks
  const auto read = [&](const TensorSlice& slice, int64_t) {
    if (!stored) stored = open_parameters(folder, model, head);
    const auto found = stored->find(slice.name);
    if (found == stored->end()) return false;
    read_slice(slice.name, found->second, slice.offset, slice.local);
    return true;
  };
  read_by_first(parameters, read, fmt::format("model.checkpoint {}", folder.string()), mesh);
}

}  // namespace modular
