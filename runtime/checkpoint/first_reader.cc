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

/// What rank 0 says of a box, and of all when every rank has its own.
enum Answer : int64_t { kUnreadable, kNone, kValues };

std::string wanted_of(std::span<const TensorBox> boxes) {
  json wanted = json::array();
  for (const TensorBox& box : boxes)
    wanted.push_back(
        {box.name, box.global_shape, box.offset, box.local.sizes().vec(), static_cast<int>(box.local.scalar_type())});
  return wanted.dump();
}

/// A box of another rank, as wanted_of says it, with room for its values.
TensorBox wanted_box(const json& wanted) {
  using Sizes = std::vector<int64_t>;
  const auto type = static_cast<at::ScalarType>(wanted.at(4).get<int>());
  return {wanted.at(0).get<std::string>(), wanted.at(1).get<Sizes>(), wanted.at(2).get<Sizes>(),
          at::empty(wanted.at(3).get<Sizes>(), type)};
}

void read_for_all(std::span<const TensorBox> boxes, const ReadBox& read, const ProcessGroup& group) {
  std::exception_ptr error;
  const auto answer = [&](const TensorBox& box, int64_t rank) {
    try {
      if (!error) return read(box, rank) ? kValues : kNone;
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    return kUnreadable;
  };
  for (const TensorBox& box : boxes) answer(box, 0);
  const int64_t ranks = group ? group->getSize() : 1;
  for (int64_t rank = 1; rank < ranks; ++rank)
    for (const json& wanted : json::parse(receive_text(group, rank))) {
      const TensorBox box = wanted_box(wanted);
      const Answer said = answer(box, rank);
      send_number(group, rank, said);
      if (said == kUnreadable) break;
      if (said == kValues) send_values(group, rank, box.local);
    }
  // No rank goes on before all do: what they exchange then is not waited for as long.
  for (int64_t rank = 1; rank < ranks; ++rank) send_number(group, rank, error ? kUnreadable : kNone);
  if (error) std::rethrow_exception(error);
}

void ask_first(std::span<const TensorBox> boxes, const std::string& what, const ProcessGroup& group) {
  send_text(group, 0, wanted_of(boxes));
  for (const TensorBox& box : boxes) {
    const int64_t said = receive_number(group, 0);
    if (said == kUnreadable) break;
    if (said == kNone) continue;
    const bool in_place = box.local.is_cpu() && box.local.is_contiguous();
    const at::Tensor values = in_place ? box.local : at::empty(box.local.sizes(), box.local.scalar_type());
    receive_values(group, 0, values);
    if (!in_place) at::Tensor(box.local).copy_(values);
  }
  if (receive_number(group, 0) == kUnreadable)
    throw CollectiveError(fmt::format("rank 0, which reads {} for all, could not", what));
}

}  // namespace

void read_by_first(std::span<const TensorBox> boxes, const ReadBox& read, const std::string& what, Mesh& mesh) {
  const at::NoGradGuard no_grad;
  const ProcessGroup group = message_group(mesh);
  if (mesh.rank() == 0)
    read_for_all(boxes, read, group);
  else
    ask_first(boxes, what, group);
}

void load_parameters_by_first(const std::filesystem::path& folder, const ModelConfig& model,
                              std::span<const TensorBox> parameters, Head head, Mesh& mesh) {
  std::optional<StoredTensors> stored;  // opened where a failure is told to all
  const auto read = [&](const TensorBox& box, int64_t) {
    if (!stored) stored = open_parameters(folder, model, head);
    const auto found = stored->find(box.name);
    if (found == stored->end()) return false;
    read_box(box.name, found->second, box.offset, box.local);
    return true;
  };
  read_by_first(parameters, read, fmt::format("model.checkpoint {}", folder.string()), mesh);
}

}  // namespace modular
