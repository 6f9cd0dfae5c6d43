#include "runtime/data/token_dataset.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"
#include "runtime/model/tensors.h"
#include "runtime/parallel/random/mixed_bits.h"

namespace modular {
namespace {

struct Descriptor {
  explicit Descriptor(const std::filesystem::path& path) : value(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) close(value);
  }
  int value;
};

template <class Id>
void widen(const std::vector<char>& bytes, std::span<int64_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    Id id;
    std::memcpy(&id, bytes.data() + i * sizeof(Id), sizeof(Id));
    out[i] = static_cast<int64_t>(id);
  }
}

void read_file(const DataFile& file, const Descriptor& descriptor, int64_t begin, std::span<int64_t> out) {
  struct stat status{};
  if (fstat(descriptor.value, &status) != 0)
    throw DataError(file.path.string() + ": cannot be read: " + std::strerror(errno));
  if (status.st_size != file.bytes)
    throw DataError(file.path.string() + ": had " + std::to_string(file.bytes) + " bytes when the run began and has " +
                    std::to_string(status.st_size) + " now: restore the file and resume");

  std::vector<char> bytes(out.size() * static_cast<size_t>(file.token_bytes));
  for (size_t done = 0; done < bytes.size();) {
    const auto count = pread(descriptor.value, bytes.data() + done, bytes.size() - done,
                             file.header + begin * file.token_bytes + static_cast<int64_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw DataError(file.path.string() +
                      ": cannot be read: " + (count < 0 ? std::strerror(errno) : "it ended early"));
    done += static_cast<size_t>(count);
  }
  if (file.token_bytes == 1) return widen<uint8_t>(bytes, out);
  if (file.token_bytes == 2) return widen<uint16_t>(bytes, out);
  if (file.token_bytes == 4) return widen<uint32_t>(bytes, out);
  widen<int64_t>(bytes, out);
}

constexpr int64_t kBlock = int64_t{1} << 20;  // bytes per read

struct Block {
  const DataFile* file;
  int64_t begin, bytes;
};

/// The largest of some ids of a file; if signed ids are negative, the smallest.
template <class Id>
int64_t most_extreme(const std::vector<char>& bytes, size_t size) {
  const auto* const ids = reinterpret_cast<const Id*>(bytes.data());
  Id low = 0, high = 0;
  for (size_t i = 0; i < size / sizeof(Id); ++i) low = std::min(low, ids[i]), high = std::max(high, ids[i]);
  return low < 0 ? static_cast<int64_t>(low) : static_cast<int64_t>(high);
}

int64_t find_most_extreme(const DataFile& file, const std::vector<char>& bytes, size_t size) {
  if (file.token_bytes == 1) return most_extreme<uint8_t>(bytes, size);
  if (file.token_bytes == 2) return most_extreme<uint16_t>(bytes, size);
  if (file.token_bytes == 4) return most_extreme<uint32_t>(bytes, size);
  return most_extreme<int64_t>(bytes, size);
}

/// Reads the block; throws if it has an id outside the vocabulary.
void check_block(const Block& block, int64_t vocab_size, std::vector<char>& buffer) {
  const DataFile& file = *block.file;
  const auto reject = [&](const std::string& what) { throw DataError(file.path.string() + ": " + what); };
  const int descriptor = ::open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) reject(std::string("cannot be read: ") + std::strerror(errno));
  size_t done = 0;
  ssize_t count = 1;
  while (done < static_cast<size_t>(block.bytes) && count > 0) {
    do
      count = ::pread(descriptor, buffer.data() + done, static_cast<size_t>(block.bytes) - done,
                      block.begin + static_cast<int64_t>(done));
    while (count < 0 && errno == EINTR);
    if (count > 0) done += static_cast<size_t>(count);
  }
  const int error = errno;
  ::close(descriptor);
  if (count < 0) reject(std::string("cannot be read: ") + std::strerror(error));
  const int64_t id = find_most_extreme(file, buffer, done);
  if (id < 0 || id >= vocab_size)
    reject("holds token " + std::to_string(id) + " but model.config.vocab_size is " + std::to_string(vocab_size) +
           ": use a model with a larger vocabulary, or other data");
}

bool may_hold_more(const DataFile& file, int64_t vocab_size) {
  return file.token_bytes > 2 || vocab_size < (int64_t{1} << (8 * file.token_bytes));
}

}  // namespace

/// Files that stay open: opening a file for each sample is slow on network file systems.
class OpenFiles {
 public:
  std::shared_ptr<const Descriptor> get(size_t index, const DataFile& file) {
    const std::lock_guard lock(mutex_);
    if (const auto found = files_.find(index); found != files_.end()) return found->second;
    if (files_.size() >= kMost) files_.clear();
    auto opened = std::make_shared<const Descriptor>(file.path);
    if (opened->value < 0) throw DataError(file.path.string() + ": cannot be read: " + std::strerror(errno));
    return files_[index] = std::move(opened);
  }

 private:
  static constexpr size_t kMost = 256;
  std::mutex mutex_;
  std::unordered_map<size_t, std::shared_ptr<const Descriptor>> files_;
};

TokenStream::TokenStream(std::vector<DataFile> files)
    : files_(std::move(files)), begin_{0}, open_(std::make_shared<OpenFiles>()) {
  for (const auto& file : files_) begin_.push_back(begin_.back() + file.tokens());
}

std::vector<int64_t> TokenStream::file_begins(int64_t begin, int64_t end) const {
  std::vector<int64_t> begins;
  for (auto file = std::ranges::upper_bound(begin_, begin); file != begin_.end() && *file < end; ++file)
    begins.push_back(*file - begin);
  return begins;
}

const DataFile& TokenStream::get_file(int64_t token) const {
  return files_[static_cast<size_t>(std::ranges::upper_bound(begin_, token) - begin_.begin()) - 1];
}

void TokenStream::read(int64_t begin, std::span<int64_t> out) const {
  assert(begin >= 0 && begin + static_cast<int64_t>(out.size()) <= size());
  auto index = static_cast<size_t>(std::ranges::upper_bound(begin_, begin) - begin_.begin()) - 1;
  while (!out.empty()) {
    const auto count = std::min<size_t>(out.size(), static_cast<size_t>(begin_[index + 1] - begin));
    read_file(files_[index], *open_->get(index, files_[index]), begin - begin_[index], out.first(count));
    out = out.subspan(count);
    begin += static_cast<int64_t>(count);
    ++index;
  }
}

void check_tokens(const std::vector<DataFile>& files, int64_t vocab_size, int64_t most_bytes) {
  std::vector<Block> blocks;
  for (const DataFile& file : files)
    if (may_hold_more(file, vocab_size))
      for (int64_t begin = file.header; begin < file.bytes; begin += kBlock)
        blocks.push_back({&file, begin, std::min(kBlock, file.bytes - begin)});
  if (const auto most = static_cast<size_t>(std::max<int64_t>(most_bytes / kBlock, 1)); blocks.size() > most) {
    for (size_t i = 0; i < most; ++i) blocks[i] = blocks[i * blocks.size() / most];
    blocks.resize(most);
  }

  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::optional<size_t> failed;  // the first block that failed
  std::exception_ptr failure;
  const auto work = [&] {
    std::vector<char> buffer(static_cast<size_t>(kBlock));
    for (size_t i; (i = next++) < blocks.size();) try {
        check_block(blocks[i], vocab_size, buffer);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed || i < *failed) failed = i, failure = std::current_exception();
        next = blocks.size();  // all earlier blocks are already being checked
      }
  };
  constexpr size_t kMostThreads = 8;
  const size_t threads =
      std::min({kMostThreads, blocks.size(), size_t{std::max(std::thread::hardware_concurrency(), 1U)}});
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

void pack(std::span<const int64_t> tokens, std::span<const int64_t> file_begins, const Packing& packing,
          std::span<int64_t> documents, std::span<int64_t> positions, std::span<int64_t> labels) {
  int64_t document = 0, begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool begins =
        i > 0 && (tokens[i - 1] == packing.end_of_text || std::ranges::binary_search(file_begins, index));
    if (begins) ++document, begin = index;
    if (begins && packing.is_next_predicted) labels[i] = kIgnoredTarget;
    documents[i] = document;
    positions[i] = packing.first_position + index - begin;
  }
}

TokenDataset::TokenDataset(TokenStream stream, int64_t seq_len, int64_t vocab_size,
                           const std::optional<Masking>& masking, uint64_t seed, const std::optional<Packing>& packing)
    : stream_(std::move(stream)),
      seq_len_(seq_len),
      vocab_size_(vocab_size),
      masking_(masking),
      seed_(seed),
      packing_(packing) {
  if (count() == 0)
    throw DataError("the data has " + std::to_string(stream_.size()) +
                    " tokens, less than one sample of train.seq_len = " + std::to_string(seq_len) +
                    ": use more data or shorter samples");
}

Batch TokenDataset::read(std::span<const SamplePosition> positions, int64_t rows) const {
  Batch batch;
  batch.input_ids = at::zeros({rows, seq_len_}, at::kLong);
  batch.labels = at::full_like(batch.input_ids, kIgnoredTarget);
  if (packing_) batch.documents = at::zeros_like(batch.input_ids);
  if (packing_) batch.position_ids = at::arange(seq_len_).add_(packing_->first_position).repeat({rows, 1});
  for (size_t row = 0; row < positions.size(); ++row) {
    const auto of_row = [&](const at::Tensor& tensor) {
      return std::span(tensor[static_cast<int64_t>(row)].mutable_data_ptr<int64_t>(), static_cast<size_t>(seq_len_));
    };
    const std::span tokens = of_row(batch.input_ids), labels = of_row(batch.labels);
    const int64_t begin = positions[row].sample * seq_len_;
    stream_.read(begin, tokens);
    std::vector<int64_t> text;  // before masking
    if (packing_) text.assign(tokens.begin(), tokens.end());
    const auto wrong = std::ranges::find_if(tokens, [&](int64_t token) { return token < 0 || token >= vocab_size_; });
    if (wrong != tokens.end())
      throw DataError(stream_.get_file(begin + (wrong - tokens.begin())).path.string() + ": holds token " +
                      std::to_string(*wrong) + " but model.config.vocab_size is " + std::to_string(vocab_size_) +
                      ": use a model with a larger vocabulary, or other data");
    if (masking_)
      mask_tokens(tokens, labels, *masking_, vocab_size_,
                  mixed(seed_) + static_cast<uint64_t>(positions[row].position));
    else
      std::ranges::copy(tokens, labels.begin());
    if (packing_)
      pack(text, stream_.file_begins(begin, begin + seq_len_), *packing_, of_row(batch.documents),
           of_row(batch.position_ids), labels);
  }
  return batch;
}

void TokenDataset::validate() const { check_tokens(stream_.files(), vocab_size_); }

std::unique_ptr<Dataset> open_text(const DatasetRequest& request) {
  const auto masking = find_masking(*find_task(request.model.entry->task), request.options);
  std::optional<Packing> packing;
  if (request.options.pack)
    packing = {.end_of_text = request.options.end_of_text,
               .first_position = first_position(request.model),
               .is_next_predicted = !masking};
  return std::make_unique<TokenDataset>(TokenStream(request.files), request.seq_len, vocab_size(request.model), masking,
                                        static_cast<uint64_t>(request.seed), packing);
}

Batch make_blank_text(const DatasetRequest& request, int64_t samples) {
  Batch batch;
  batch.input_ids = at::zeros({samples, request.seq_len}, at::kLong);
  batch.labels = at::zeros({samples, request.seq_len}, at::kLong);
  if (request.options.pack) batch.documents = at::zeros({samples, request.seq_len}, at::kLong);
  if (request.options.pack) batch.position_ids = at::zeros({samples, request.seq_len}, at::kLong);
  return batch;
}

std::string describe_text(const Dataset* dataset) {
  const int64_t tokens = dataset ? dataset->count() * dataset->tokens() : 0;
  return fmt::format("{:.1f} M tokens", static_cast<double>(tokens) * 1e-6);
}

}  // namespace modular
