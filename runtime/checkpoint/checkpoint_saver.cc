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

/// Of the thread that writes: where the steps need all processors it gets a few hundredths of one.
constexpr int kNiceness = 15;

constexpr const char* kStages[] = {"", "preparing a checkpoint", "writing a checkpoint", "completing a checkpoint"};

/// Lets this thread have what other threads leave of the processors.
void be_nice() { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness); }

/// The boxes that this rank writes.
std::vector<TensorBox> owned(std::span<const TensorBox> tensors) {
  std::vector<TensorBox> boxes;
  for (const TensorBox& box : tensors)
    if (box.owner && box.local.numel() > 0) boxes.push_back(box);
  return boxes;
}

std::vector<at::Tensor> tensors_of(std::span<const TensorBox> boxes) {
  std::vector<at::Tensor> tensors;
  for (const TensorBox& box : boxes) tensors.push_back(box.local);
  return tensors;
}

void write_rank_file(std::unique_ptr<FileSink> file, const fs::path& path, std::span<const TensorBox> boxes,
                     const std::vector<std::pair<std::string, at::Tensor>>& generators) {
  const std::vector<std::string> keys = box_keys(boxes);
  std::vector<SafetensorsWriter::Tensor> headers;
  for (size_t i = 0; i < boxes.size(); ++i)
    headers.push_back({keys[i], boxes[i].local.scalar_type(), boxes[i].local.sizes().vec()});
  for (const auto& [name, state] : generators) headers.push_back({name, at::kByte, state.sizes().vec()});
  auto writer = SafetensorsWriter::create(std::move(file), path, headers, box_metadata(boxes), /*with_digests=*/true);
  for (size_t i = 0; i < boxes.size(); ++i) writer.write(keys[i], boxes[i].local);
  for (const auto& [name, state] : generators) writer.write(name, state);
  writer.close();
}

}  // namespace

CheckpointSaver::CheckpointSaver(SaveOptions options, const ModelConfig& model, Mesh& mesh)
    : options_(std::move(options)),
      model_(model),
      mesh_(mesh),
      messages_(options_.shared ? ProcessGroup() : message_group(mesh)) {}

void CheckpointSaver::reserve_copies(std::span<const TensorBox> tensors) {
  if (!options_.background) return;
  reserving_ = std::async(std::launch::async, [this, sources = tensors_of(owned(tensors))] {
    be_nice();
    copy_.reserve(sources);
  });
}

void CheckpointSaver::begin(TrainingState state, std::span<const TensorBox> tensors) {
  TORCH_INTERNAL_ASSERT(stage_ == Stage::idle, "a checkpoint is being saved");
  state_ = std::move(state);
  generators_ = generator_states(mesh_.device());
  boxes_ = owned(tensors);
  if (options_.background) {
    if (reserving_.valid()) reserving_.get();
    const std::vector<at::Tensor> copies = copy_.begin(tensors_of(boxes_));
    for (size_t i = 0; i < copies.size(); ++i) boxes_[i].local = copies[i];
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

/// This rank's part of the stage.
void CheckpointSaver::work() {
  const fs::path checkpoint = checkpoint_of_step(options_.folder, state_.step), partial = partial_folder(checkpoint);
  const bool first = mesh_.rank() == 0;
  if (options_.background && stage_ != Stage::preparing) be_nice();
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
      } catch (...) {  // on a full disk it would take what is left
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
  const auto path_of = [&](int64_t rank) { return folder / rank_file_name(rank); };
  const fs::path own = path_of(mesh_.rank());
  const auto write_to = [&](std::unique_ptr<FileSink> file) {
    write_rank_file(std::move(file), own, boxes_, generators_);
  };
  if (!messages_)
    write_to(create_file(own));
  else if (mesh_.rank() == 0)
    receive_files(messages_, [&] { write_to(create_file(own)); }, path_of);
  else
    send_file(messages_, write_to);
}

std::optional<SavedCheckpoint> CheckpointSaver::go_on(SaveProgress of_slowest) {
  if (stage_ == Stage::idle || of_slowest == SaveProgress::under_way) return {};
  work_.get();  // what this rank's own work has to say comes before what others heard of it
  if (of_slowest == SaveProgress::failed)
    throw CollectiveError(fmt::format("another rank failed in {}", kStages[static_cast<size_t>(stage_)]));
  if (stage_ != Stage::completing) {
    start(static_cast<Stage>(static_cast<int>(stage_) + 1));
    return {};
  }
  stage_ = Stage::idle;
  boxes_.clear();
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
                         std::span<const TensorBox> tensors, Mesh& mesh, int64_t keep_last) {
  CheckpointSaver saver({.folder = folder, .keep_last = keep_last, .background = false}, model, mesh);
  saver.begin(state, tensors);
  return saver.finish()->folder;
}

}  // namespace modular
