#include "runtime/parallel/memory/saved_tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>

namespace modular {
namespace {

thread_local SavedTensors* installed = nullptr;

/// Hooks that autograd stores instead of a tensor.
class Hooks final : public torch::autograd::SavedVariableHooks {
 public:
  ~Hooks() override {
    if (saved_.memory()) saved_.memory()->remove_reader(last_read_);
  }
  void call_pack_hook(const at::Tensor& tensor) override {
    saved_ = installed->keep(tensor);
    if (saved_.memory()) saved_.memory()->add_reader();
  }
  at::Tensor call_unpack_hook() override {
    // A node that runs for the last time reads each of its tensors once, and may write into memory that only it holds.
    if (!saved_.memory()) return torch::autograd::get_current_graph_task_keep_graph() ? saved_.read() : saved_.take();
    at::Tensor tensor = saved_.read();
    saved_.memory()->count_read(last_read_);
    return tensor;
  }

 private:
  SavedTensor saved_;
  SavedMemory::LastRead last_read_ = 0;
};

/// libtorch asks the engine for the hooks of saved tensors. Its default C++ engine has none.
class EngineWithHooks final : public torch::autograd::Engine {
 public:
  ~EngineWithHooks() override { stop(); }

 private:
  /// libtorch starts the device threads once per process, for the first engine that runs. Starts them for this engine
  /// if another one ran first.
  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs, bool keep_graph,
                                         bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    std::call_once(started_, [this] {
      initialize_device_threads_pool();
      if (device_ready_queues_.empty()) start_device_threads();
    });
    return torch::autograd::Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return installed && installed->is_active() ? std::make_unique<Hooks>() : nullptr;
  }

  std::once_flag started_;
};

torch::autograd::Engine& engine() {
  static EngineWithHooks engine;
  return engine;
}

/// Whether a tensor is fully described by its storage, sizes, strides and offset.
bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.has_storage() && tensor.storage().nbytes() > 0 &&
         tensor.dim() > 0 && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

at::Tensor get_bytes(const c10::Storage& storage) {
  const auto count = static_cast<int64_t>(storage.nbytes());
  const at::NoGradGuard no_grad;
  return at::empty({0}, at::TensorOptions().dtype(at::kByte).device(storage.device())).set_(storage, 0, {count}, {1});
}

const c10::Storage& SavedMemory::storage() {
  if (is_here()) return storage_;
  const at::NoGradGuard no_grad;
  if (recipe_) {
    std::vector<at::Tensor> inputs;
    std::ranges::transform(recipe_->inputs, std::back_inserter(inputs), &SavedTensor::read);
    storage_ = recipe_->function(inputs).storage();
  } else {
    fetch();
    storage_ = transfers_->arrived(*std::exchange(arriving_, std::nullopt)).storage();
  }
  return storage_;
}

void SavedMemory::recompute_by(std::shared_ptr<const Recipe> recipe) {
  recipe_ = std::move(recipe);
  storage_ = c10::Storage();
}

void SavedMemory::move_to_host(HostTransfers& transfers) {
  transfers_ = &transfers;
  host_ = transfers.to_host(get_bytes(storage_));
  storage_ = c10::Storage();
}

void SavedMemory::fetch() {
  if (!is_here() && !arriving_ && host_.defined()) arriving_ = transfers_->to_device(host_);
}

void SavedMemory::count_read(LastRead& last) {
  if (std::exchange(last, times_freed_) != times_freed_) ++reads_;
  trim();
}

void SavedMemory::remove_reader(LastRead last) {
  --readers_;
  if (last == times_freed_) --reads_;
  trim();
}

void SavedMemory::trim() {
  if (!is_here() || reads_ < readers_ || !(recipe_ || host_.defined())) return;
  storage_ = c10::Storage();
  reads_ = 0;
  ++times_freed_;
}

SavedTensor::SavedTensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  // The tensor that an operation returned holds the node that saves it, and a view holds its base.
  const at::AutoDispatchBelowADInplaceOrView below;
  itself_ = tensor.detach();
  counter_ = torch::autograd::impl::version_counter(tensor);
  version_ = counter_.current_version();
}

SavedTensor::SavedTensor(const at::Tensor& tensor, std::shared_ptr<SavedMemory> memory)
    : memory_(std::move(memory)),
      options_(tensor.options()),
      sizes_(tensor.sizes().vec()),
      strides_(tensor.strides().vec()),
      offset_(tensor.storage_offset()),
      counter_(torch::autograd::impl::version_counter(tensor)),
      version_(counter_.current_version()) {}

void SavedTensor::check_version(at::IntArrayRef sizes) const {
  TORCH_CHECK(counter_.current_version() == version_, "a value of shape ", sizes,
              " that the backward needs was modified in place after it was used: write the result to a new tensor");
}

at::Tensor SavedTensor::take() {
  at::Tensor tensor = read();
  itself_.reset();
  return tensor;
}

at::Tensor SavedTensor::read() const {
  if (!memory_) {
    if (itself_.defined()) check_version(itself_.sizes());
    return itself_;
  }
  check_version(sizes_);
  const at::NoGradGuard no_grad;
  at::Tensor tensor = at::empty({0}, options_).set_(memory_->storage(), offset_, sizes_, strides_);
  memory_->trim();
  return tensor;
}

void OffloadedUnit::fetch() const {
  const auto begin = [](const OffloadedUnit& unit) {
    for (const auto& memory : unit.memory_)
      if (const auto needed = memory.lock()) needed->fetch();
  };
  begin(*this);
  if (const auto before = before_.lock()) begin(*before);
}

SavedTensors* SavedTensors::recording() {
  return installed && installed->is_active() && at::GradMode::is_enabled() ? installed : nullptr;
}

SavedTensors::SavedTensors(const Recomputation& recompute, const Offload& offload, const at::Device& device,
                           const std::vector<at::Tensor>& persistent)
    : operations_(recompute.operations.begin(), recompute.operations.end()), offload_(offload), transfers_(device) {
  for (const at::Tensor& tensor : persistent) persistent_.insert(tensor.storage().unsafeGetStorageImpl());
}

SavedTensors::Entry& SavedTensors::Storages::entry_for(const at::Tensor& tensor) {
  const auto [entry, is_new] = by_address.try_emplace(tensor.storage().unsafeGetStorageImpl(), nullptr);
  if (is_new) entry->second = &entries.emplace_back(Entry{tensor.storage().getWeakStorageImpl(), {}, {}});
  return *entry->second;
}

SavedTensors::Entry* SavedTensors::Storages::find(const at::Tensor& tensor) {
  const auto found = by_address.find(tensor.storage().unsafeGetStorageImpl());
  return found == by_address.end() ? nullptr : found->second;
}

SavedTensor SavedTensors::keep(const at::Tensor& tensor) {
  if (!is_plain(tensor)) return SavedTensor(tensor);
  Storages& storages = frames_.back();
  const bool keeps_most = operations_.empty() && !offload_.activations;
  if (keeps_most && !storages.find(tensor)) return SavedTensor(tensor);
  Entry& entry = storages.entry_for(tensor);
  if (entry.recipe && entry.version != tensor._version()) return SavedTensor(tensor);  // modified in place since
  if (!entry.memory)
    entry.memory =
        entry.recipe ? std::make_shared<SavedMemory>(entry.recipe) : std::make_shared<SavedMemory>(tensor.storage());
  return SavedTensor(tensor, entry.memory);
}

void SavedTensors::record(const at::Tensor& output, const std::vector<at::Tensor>& inputs, Recipe::Function function,
                          bool from_scores) {
  const auto is_output = [&](const at::Tensor& input) { return is_plain(input) && input.is_alias_of(output); };
  if (!is_plain(output) || std::ranges::any_of(inputs, is_output)) return;
  auto recipe = std::make_shared<Recipe>();
  recipe->function = std::move(function);
  for (const at::Tensor& input : inputs) recipe->inputs.push_back(keep(input));
  Entry& entry = frames_.back().entry_for(output);
  entry.recipe = std::move(recipe);
  entry.version = static_cast<uint32_t>(output._version());
  entry.from_scores = from_scores;
}

bool SavedTensors::is_from_scores(const at::Tensor& tensor) {
  if (!is_plain(tensor)) return false;
  const Entry* const entry = frames_.back().find(tensor);
  return entry && entry->from_scores;
}

SavedTensors::Frame::Frame(SavedTensors* saved, const std::vector<at::Tensor>& inputs) : saved_(saved) {
  if (!saved_) return;
  if (!saved_->is_active()) saved_->last_.reset();
  Storages& storages = saved_->frames_.emplace_back();
  for (const at::Tensor& input : inputs)
    if (is_plain(input) && !input.requires_grad()) storages.shared.insert(input.storage().unsafeGetStorageImpl());
}

SavedTensors::Frame::~Frame() {
  if (saved_) saved_->frames_.pop_back();
}

std::shared_ptr<const OffloadedUnit> SavedTensors::Frame::finish(bool offload) {
  if (!saved_) return nullptr;
  Storages& storages = saved_->frames_.back();
  for (Entry& entry : storages.entries)
    if (entry.recipe && entry.memory && entry.memory->is_here()) entry.memory->recompute_by(entry.recipe);
  for (Entry& entry : storages.entries) entry.recipe.reset();  // drops unused recipes together with their inputs
  if (!offload || !saved_->offload_.activations) return nullptr;

  auto unit = std::make_shared<OffloadedUnit>();
  for (const Entry& entry : storages.entries) {
    if (entry.memory.use_count() <= 1 || !entry.memory->is_here()) continue;
    const c10::Storage& storage = entry.memory->held();
    const c10::StorageImpl* const address = storage.unsafeGetStorageImpl();
    if (storage.nbytes() < saved_->offload_.least_bytes || saved_->persistent_.contains(address) ||
        storages.shared.contains(address))
      continue;
    entry.memory->move_to_host(saved_->transfers_);
    unit->memory_.push_back(entry.memory);
  }
  unit->before_ = saved_->last_;
  saved_->last_ = unit;
  return unit;
}

InstalledSavedTensors::InstalledSavedTensors(SavedTensors* saved) : outer_(std::exchange(installed, saved)) {
  if (saved) torch::autograd::set_default_engine_stub(&engine);
}

InstalledSavedTensors::~InstalledSavedTensors() { installed = outer_; }

}  // namespace modular
