#include "runtime/checkpoint/checkpoint_saver.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <c10/util/ScopeExit.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/checkpoint/remote_writer.h"
#include "runtime/mesh/collectives.h"

namespace modular {
namespace {

constexpr size_t kAlignment = 64;                  // of each tensor in the memory
constexpr int64_t kPieceBytes = int64_t{8} << 20;  // small, since a thread may have to wait for another thread's piece

/// Uses huge pages if available: a copy into small pages takes three times as long.
std::shared_ptr<std::byte> allocate(size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error(
        fmt::format("cannot allocate {} MiB for a checkpoint's background copy: set "
                    "checkpoint.background to false, which needs no copy",
                    bytes >> 20));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), [bytes](std::byte* begin) { ::munmap(begin, bytes); }};
}

}  // namespace

std::vector<size_t> HostCopy::make_room(const std::vector<at::Tensor>& sources) {
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (const at::Tensor& source : sources) {
    offsets.push_back(bytes);
    bytes += (source.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  pieces_.clear();
  if (bytes > capacity_) {
    memory_.reset();  // freed before the larger allocation
    memory_ = allocate(bytes);
    capacity_ = bytes;
  }
  return offsets;
}

void HostCopy::reserve(const std::vector<at::Tensor>& sources) {
  make_room(sources);
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t offset = 0; offset < capacity_; offset += page)
    *const_cast<volatile std::byte*>(memory_.get() + offset) = {};
}

std::vector<at::Tensor> HostCopy::begin(const std::vector<at::Tensor>& sources) {
  const std::vector<size_t> offsets = make_room(sources);
  std::vector<at::Tensor> copies;
  for (size_t i = 0; i < sources.size(); ++i) {
    const at::Tensor source = sources[i].detach();
    copies.push_back(at::from_blob(
        memory_.get() + offsets[i], source.sizes(), [memory = memory_](void*) {}, source.options().device(at::kCPU)));
    if (source.numel() == 0) continue;
    if (!source.is_cpu() || !source.is_contiguous()) {
      pieces_.push_back({copies.back(), source});
      continue;
    }
    const at::Tensor from = source.view(-1), to = copies.back().view(-1);
    const int64_t step = std::max<int64_t>(1, kPieceBytes / static_cast<int64_t>(source.element_size()));
    for (int64_t first = 0; first < from.numel(); first += step) {
      const int64_t count = std::min(step, from.numel() - first);
      pieces_.push_back({to.narrow(0, first, count), from.narrow(0, first, count)});
    }
  }
  begun_ = 0;
  done_ = 0;
  return copies;
}

void HostCopy::run(bool among_others) {
  for (size_t i = 0; (i = begun_.fetch_add(1)) < pieces_.size();) {
    const auto& [to, from] = pieces_[i];
    const auto count = c10::make_scope_exit([this] {  // counts failed pieces too: other threads wait for them
      if (done_.fetch_add(1) + 1 == pieces_.size()) done_.notify_all();
    });
    // libtorch's copy would start a second thread pool for a thread other than the one that computes the steps.
    if (among_others && from.is_cpu() && from.is_contiguous())
      std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
    else
      at::Tensor(to).copy_(from);
  }
  for (size_t done = 0; (done = done_.load()) < pieces_.size();) done_.wait(done);
}

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
