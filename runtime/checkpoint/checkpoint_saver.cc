#include "runtime/checkpoint/checkpoint_saver.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/checkpoint_folders.h"
#include "runtime/checkpoint/generator_states.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/rank_messages.h"
#include "runtime/checkpoint/sent_files.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// Of the writing thread: if the steps use all cores, it gets a few hundredths of one core.
constexpr int kNiceness = 15;

constexpr const char* kStages[] = {"", "preparing a checkpoint", "writing a checkpoint", "completing a checkpoint"};

/// Lets this thread use only CPU time that other threads leave.
void lower_priority() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness); }

/// The slices that this rank writes.
std::vector<TensorSlice> owned(std::span<const TensorSlice> tensors) {
  std::vector<TensorSlice> slices;
  for (const TensorSlice& slice : tensors)
    if (slice.owner && slice.local.numel() > 0) slices.push_back(slice);
  return slices;
}

std::vector<at::Tensor> find_tensors(std::span<const TensorSlice> slices) {
  std::vector<at::Tensor> tensors;
  for (const TensorSlice& slice : slices) tensors.push_back(slice.local);
  return tensors;
}

void write_rank_file(std::unique_ptr<FileSink> file, const fs::path& path, std::span<const TensorSlice> slices,
                     const std::vector<std::pair<std::string, at::Tensor>>& generators) {
  const std::vector<std::string> keys = slice_keys(slices);
  std::vector<SafetensorsWriter::Tensor> headers;
  for (size_t i = 0; i < slices.size(); ++i)
    headers.push_back({keys[i], slices[i].local.scalar_type(), slices[i].local.sizes().vec()});
  for (const auto& [name, state] : generators) headers.push_back({name, at::kByte, state.sizes().vec()});
  auto writer =
      SafetensorsWriter::create(std::move(file), path, headers, slice_metadata(slices), /*with_digests=*/true);
  for (size_t i = 0; i < slices.size(); ++i) writer.write(keys[i], slices[i].local);
  for (const auto& [name, state] : generators) writer.write(name, state);
  writer.close();
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaveOptions options, const ModelConfig& model, Mesh& mesh)
    : options_(std::move(options)),
      model_(model),
      mesh_(mesh),
      messages_(options_.shared ? ProcessGroup() : message_group(mesh)) {}

void CheckpointSaver::reserve_copies(std::span<const TensorSlice> tensors) {
  if (!options_.background) return;
  reserving_ = std::async(std::launch::async, [this, sources = find_tensors(owned(tensors))] {
    lower_priority();
    copy_.reserve(sources);
  });
}

void CheckpointSaver::begin(TrainingState state, std::span<const TensorSlice> tensors) {
  TORCH_INTERNAL_ASSERT(stage_ == Stage::idle, "a checkpoint is being saved");
  state_ = std::move(state);
  generators_ = generator_states(mesh_.device());
  slices_ = owned(tensors);
  if (options_.background) {
    if (reserving_.valid()) reserving_.get();
    const std::vector<at::Tensor> copies = copy_.begin(find_tensors(slices_));
    for (size_t i = 0; i < copies.size(); ++i) slices_[i].local = copies[i];
  }
  start(Stage::preparing);
}

void CheckpointSaver::start(Stage stage) {
  stage_ = stage;
  progress_ = SaveProgress::under_way;
  work_ = std::async(options_.background ? std::launch::async : std::launch::deferred, [this] {
    try {
      work();
      progress_ = SaveProgress::done;
    } catch (...) {
      progress_ = SaveProgress::failed;
      throw;
    }
  });
}

/// Does this rank's part of the stage.
void CheckpointSaver::work() {
  const fs::path checkpoint = checkpoint_of_step(options_.folder, state_.step), partial = partial_folder(checkpoint);
  const bool first = mesh_.rank() == 0;
  if (options_.background && stage_ != Stage::preparing) lower_priority();
  switch (stage_) {
    case Stage::idle:
      break;
    case Stage::preparing:
      copy_.run(/*among_others=*/true);
      if (!first) break;
      fs::create_directories(options_.folder);
      remove_leftovers(options_.folder);
      begin_folder(checkpoint);
      break;
    case Stage::writing:
      try {
        write_files(partial);
      } catch (...) {  // a partial file would fill the rest of a full disk
        std::error_code ignored;
        fs::remove(partial / rank_file_name(mesh_.rank()), ignored);
        throw;
      }
      break;
    case Stage::completing:
      if (!first) break;
      write_file(partial / "config.json", format_config(model_, "float32"));
      write_index(partial, state_, mesh_.shape(), mesh_.world_size());
      if (options_.full) write_pretrained(open_parameters(partial, model_), model_, partial, {});
      publish_folder(checkpoint);
      list_newest(options_.folder, checkpoint, options_.keep_last, state_.best_step);
      break;
  }
}

void CheckpointSaver::write_files(const fs::path& folder) {
  const auto path_to = [&](int64_t rank) { return folder / rank_file_name(rank); };
  const fs::path own = path_to(mesh_.rank());
  const auto write_to = [&](std::unique_ptr<FileSink> file) {
    write_rank_file(std::move(file), own, slices_, generators_);
  };
  if (!messages_)
    write_to(create_file(own));
  else if (mesh_.rank() == 0)
    receive_files(messages_, [&] { write_to(create_file(own)); }, path_to);
  else
    send_file(messages_, write_to);
}

std::optional<SavedCheckpoint> CheckpointSaver::go_on(SaveProgress slowest) {
  if (stage_ == Stage::idle || slowest == SaveProgress::under_way) return {};
  work_.get();  // this rank's own error is more informative than the CollectiveError below
  if (slowest == SaveProgress::failed)
    throw CollectiveError(fmt::format("another rank failed in {}", kStages[static_cast<size_t>(stage_)]));
  if (stage_ != Stage::completing) {
    start(static_cast<Stage>(static_cast<int>(stage_) + 1));
    return {};
  }
  stage_ = Stage::idle;
  slices_.clear();
  return SavedCheckpoint{state_.step, checkpoint_of_step(options_.folder, state_.step)};
}

std::optional<SavedCheckpoint> CheckpointSaver::finish() {
  while (stage_ != Stage::idle) {
    work_.wait();
    at::Tensor slowest = at::full({1}, static_cast<int64_t>(progress_.load()), at::kLong);
    all_reduce(mesh_.control(), slowest, kStages[static_cast<size_t>(stage_)], c10d::ReduceOp::MAX).wait();
    if (auto saved = go_on(static_cast<SaveProgress>(slowest.item<int64_t>()))) return saved;
  }
  return {};
}

fs::path save_checkpoint(const fs::path& folder, const ModelConfig& model, const TrainingState& state,
                         std::span<const TensorSlice> tensors, Mesh& mesh, int64_t keep_last) {
  CheckpointSaver saver({.folder = folder, .keep_last = keep_last, .background = false}, model, mesh);
  saver.begin(state, tensors);
  return saver.finish()->folder;
}

}  // namespace modular
