#include "runtime/data/token_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace modular {
namespace {

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

}  // namespace modular
