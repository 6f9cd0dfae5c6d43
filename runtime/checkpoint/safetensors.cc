#include "runtime/checkpoint/safetensors.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/json_text.h"

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace modular {

// Digests of blocks of a file's tensors, which detect corruption on the way to disk and back.

inline constexpr const char* kDigests =
    "digests";  // name of the tensor with the digests, and of the metadata key that describes it
inline constexpr const char* kDigestsAre =
    "XXH3, 64 bits, of each 4 MiB of each other tensor, in the order of the file";
inline constexpr uint64_t kDigestedBlock = uint64_t{4} << 20;

/// Number of blocks of a tensor of `bytes` bytes.
int64_t count_blocks(uint64_t bytes);

/// Digest of block `block` of a tensor of `size` bytes.
int64_t compute_digest(const std::byte* bytes, uint64_t size, int64_t block);

/// Index of each tensor's first digest, and under the name "digests" the number of all digests.
std::map<std::string, int64_t, std::less<>> first_digests(
    const std::map<std::string, TensorHeader, std::less<>>& tensors);

int64_t count_blocks(uint64_t bytes) { return static_cast<int64_t>((bytes + kDigestedBlock - 1) / kDigestedBlock); }

int64_t compute_digest(const std::byte* bytes, uint64_t size, int64_t block) {
  const uint64_t begin = static_cast<uint64_t>(block) * kDigestedBlock;
  return static_cast<int64_t>(XXH3_64bits(bytes + begin, std::min(kDigestedBlock, size - begin)));
}

std::map<std::string, int64_t, std::less<>> first_digests(
    const std::map<std::string, TensorHeader, std::less<>>& tensors) {
  std::vector<std::tuple<uint64_t, uint64_t, std::string>> in_file;
  for (const auto& [name, header] : tensors)
    if (name != kDigests) in_file.emplace_back(header.begin, header.end, name);
  std::ranges::sort(in_file);
  std::map<std::string, int64_t, std::less<>> first;
  int64_t count = 0;
  for (const auto& [begin, end, name] : in_file) {
    first.emplace(name, count);
    count += count_blocks(end - begin);
  }
  first.emplace(kDigests, count);
  return first;
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // limit of the original implementation

constexpr std::pair<std::string_view, at::ScalarType> kTypeNames[] = {
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U64", at::kUInt64},
    {"U32", at::kUInt32},
    {"U16", at::kUInt16},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
};

std::string_view type_name(at::ScalarType type) {
  for (const auto& [name, known] : kTypeNames)
    if (known == type) return name;
  throw std::runtime_error(fmt::format("a safetensors file cannot hold values of type {}", c10::toString(type)));
}

[[noreturn]] void reject(const fs::path& path, const std::string& why) {
  throw std::runtime_error(fmt::format("{} {}", path.string(), why));
}

/// Number of bytes of a tensor, or nullopt if it does not fit in 63 bits. Strides of an empty tensor must fit, too.
std::optional<uint64_t> byte_count(const std::vector<int64_t>& shape, at::ScalarType dtype) {
  uint64_t bytes = c10::elementSize(dtype);
  for (const int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(std::max<int64_t>(size, 1)), &bytes) ||
        bytes > INT64_MAX)
      return {};
  return std::ranges::find(shape, 0) == shape.end() ? bytes : 0;
}

TensorHeader parse_tensor(const fs::path& path, const std::string& name, const json& entry) {
  const auto damaged = [&](const std::string& what) {
    reject(path, fmt::format("is damaged: its header's entry of \"{}\" {}", name, what));
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    damaged("lacks dtype, shape or data_offsets");
  TensorHeader header;
  const json& dtype = entry["dtype"];
  const auto* known = std::ranges::find_if(kTypeNames, [&](const auto& pair) { return dtype == pair.first; });
  if (known == std::end(kTypeNames)) damaged(fmt::format("has the unknown dtype {}", shown(dtype)));
  header.dtype = known->second;
  const auto is_count = [](const json& value) { return value.is_number_unsigned(); };
  const json& shape = entry["shape"];
  if (!shape.is_array() || !std::ranges::all_of(shape, is_count)) damaged("has a shape that is not a list of sizes");
  header.shape = shape.get<std::vector<int64_t>>();
  const json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !std::ranges::all_of(offsets, is_count))
    damaged("has data_offsets that are not a pair of positions");
  header.begin = offsets[0];
  header.end = offsets[1];
  const auto bytes = byte_count(header.shape, header.dtype);
  if (!bytes || header.end < header.begin || header.end - header.begin != *bytes)
    damaged("has data_offsets that do not agree with its shape");
  return header;
}

/// Checks that the tensors fill the data without holes or overlaps, and returns its size.
uint64_t data_size(const fs::path& path, const std::map<std::string, TensorHeader, std::less<>>& tensors) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const auto& [name, header] : tensors) spans.emplace_back(header.begin, header.end);
  std::ranges::sort(spans);
  uint64_t filled = 0;
  for (const auto& [begin, end] : spans) {
    if (begin != filled) reject(path, "is damaged: its tensors overlap or leave holes");
    filled = end;
  }
  return filled;
}

struct Header {
  uint64_t data_begin = 0;
  std::map<std::string, TensorHeader, std::less<>> tensors;
  std::map<std::string, std::string> metadata;
};

Header parse_header(const fs::path& path, std::string_view file) {
  if (file.size() < kLengthBytes) reject(path, fmt::format("is cut off: it has {} bytes and no header", file.size()));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kLongestHeader) reject(path, "is not a safetensors file: its first 8 bytes are not a header's length");
  if (file.size() - kLengthBytes < length)
    reject(path, fmt::format("is cut off: its header needs {} bytes and the file has {}", kLengthBytes + length,
                             file.size()));
  const std::string_view text = file.substr(kLengthBytes, length);
  const json parsed = parse_json(text);
  if (!parsed.is_object())
    reject(path, fmt::format("is not a safetensors file: its header is not a JSON object{}",
                             parsed.is_discarded() ? fmt::format(" ({})", json_problem(text)) : ""));

  Header header;
  header.data_begin = kLengthBytes + length;
  for (const auto& [name, entry] : parsed.items()) {
    if (name != "__metadata__") {
      header.tensors.emplace(name, parse_tensor(path, name, entry));
      continue;
    }
    if (!entry.is_object()) reject(path, "is damaged: its header's __metadata__ is not a JSON object");
    for (const auto& [key, value] : entry.items())
      header.metadata.emplace(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  const uint64_t expected = header.data_begin + data_size(path, header.tensors);
  if (file.size() < expected)
    reject(path, fmt::format("is cut off: it has {} bytes of {}; copy or download it again", file.size(), expected));
  if (file.size() > expected)
    reject(path, fmt::format("is damaged: it has {} bytes where its header accounts for {}", file.size(), expected));
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const fs::path& path, Links links) : path_(path) {
  const OpenFile file = open_to_read(path, links);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) throw_system_error(path, "read");
  const auto size = static_cast<size_t>(status.st_size);
  void* mapped = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) throw_system_error(path, "mapped into memory");
  mapping_ = std::shared_ptr<const std::byte>(static_cast<const std::byte*>(mapped), [size](const std::byte* bytes) {
    if (bytes) ::munmap(const_cast<std::byte*>(bytes), size);
  });
  Header header = parse_header(path, {reinterpret_cast<const char*>(mapping_.get()), size});
  size_ = size;
  data_begin_ = header.data_begin;
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
  const auto described = metadata_.find(kDigests);
  if (described == metadata_.end() || described->second != kDigestsAre) return;
  first_digest_ = first_digests(tensors_);
  const auto digests = tensors_.find(kDigests);
  if (digests == tensors_.end() || digests->second.dtype != at::kLong ||
      digests->second.shape != std::vector<int64_t>{first_digest_.at(kDigests)})
    reject(path, "is damaged: it lacks the digests that its header declares");
}

at::Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) reject(path_, fmt::format("has no tensor \"{}\"", name));
  const TensorHeader& header = found->second;
  const auto options = at::TensorOptions().dtype(header.dtype);
  const std::byte* bytes = mapping_.get() + data_begin_ + header.begin;
  if (reinterpret_cast<uintptr_t>(bytes) % c10::elementSize(header.dtype) !=
      0) {  // the format does not require alignment
    at::Tensor copy = at::empty(header.shape, options);
    std::copy_n(bytes, header.end - header.begin, static_cast<std::byte*>(copy.data_ptr()));
    return copy;
  }
  return at::from_blob(const_cast<std::byte*>(bytes), header.shape, [mapping = mapping_](void*) {}, options);
}

void SafetensorsFile::check_size() const {
  struct stat status{};
  const uint64_t now = ::stat(path_.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
  if (now != size_)
    reject(path_, fmt::format("had {} bytes when it was opened and has {} now: restore the file", size_, now));
}

void SafetensorsFile::verify(std::string_view name, uint64_t begin, uint64_t end) const {
  const auto first = first_digest_.find(name);
  if (first == first_digest_.end() || name == kDigests || begin >= end) return;
  const at::Tensor digests = tensor(kDigests);
  const int64_t* const expected = digests.const_data_ptr<int64_t>() + first->second;
  const TensorHeader& header = tensors_.find(name)->second;
  const std::byte* const bytes = mapping_.get() + data_begin_ + header.begin;
  std::atomic<bool> same = true;
  at::parallel_for(static_cast<int64_t>(begin / kDigestedBlock), count_blocks(end), /*grain_size=*/1,
                   [&](int64_t from, int64_t to) {
                     for (int64_t block = from; block < to; ++block)
                       if (compute_digest(bytes, header.end - header.begin, block) != expected[block]) same = false;
                   });
  if (!same)
    reject(path_,
           fmt::format("is damaged: the values of \"{}\" differ from those that were written. Copy the file again, or "
                       "resume from an older checkpoint",
                       name));
}

SafetensorsWriter SafetensorsWriter::create(const fs::path& path, const std::vector<Tensor>& tensors,
                                            const std::map<std::string, std::string>& metadata, bool with_digests) {
  return create(create_file(path), path, tensors, metadata, with_digests);
}

SafetensorsWriter SafetensorsWriter::create(std::unique_ptr<FileSink> sink, const fs::path& path,
                                            const std::vector<Tensor>& given,
                                            const std::map<std::string, std::string>& given_metadata,
                                            bool with_digests) {
  std::vector<Tensor> tensors = given;
  std::map<std::string, std::string> metadata = given_metadata;
  if (with_digests) {
    int64_t count = 0;
    for (const Tensor& tensor : tensors) count += count_blocks(byte_count(tensor.shape, tensor.dtype).value_or(0));
    tensors.push_back({kDigests, at::kLong, {count}});
    metadata.emplace(kDigests, kDigestsAre);
  }
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::map<std::string, TensorHeader, std::less<>> placed;
  uint64_t size = 0;
  for (const Tensor& tensor : tensors) {
    const auto bytes = byte_count(tensor.shape, tensor.dtype);
    TORCH_INTERNAL_ASSERT(bytes, tensor.name, " is too large");
    header[tensor.name] = {
        {"dtype", type_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {size, size + *bytes}}};
    TORCH_INTERNAL_ASSERT(
        placed.emplace(tensor.name, TensorHeader{tensor.dtype, tensor.shape, size, size + *bytes}).second, tensor.name,
        " is written twice");
    size += *bytes;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');  // aligns the tensors' bytes

  SafetensorsWriter writer(path, std::move(sink));
  writer.data_begin_ = kLengthBytes + text.size();
  writer.tensors_ = std::move(placed);
  if (with_digests) {
    writer.first_digest_ = first_digests(writer.tensors_);
    writer.digests_ = at::zeros({writer.first_digest_.at(kDigests)}, at::kLong);
  }
  writer.sink_->reserve(writer.data_begin_ + size);
  const uint64_t length = text.size();
  writer.sink_->write(reinterpret_cast<const std::byte*>(&length), kLengthBytes, 0);
  writer.sink_->write(reinterpret_cast<const std::byte*>(text.data()), length, kLengthBytes);
  return writer;
}

SafetensorsWriter SafetensorsWriter::open(const fs::path& path) {
  const SafetensorsFile existing(path);
  SafetensorsWriter writer(path, open_file(path));
  writer.tensors_ = existing.tensors();
  writer.data_begin_ = existing.data_begin();
  return writer;
}

void SafetensorsWriter::write(std::string_view name, at::IntArrayRef offset, const at::Tensor& values) {
  TORCH_INTERNAL_ASSERT(!digests_.defined(), name, " is written in slices to a file with digests");
  write_slice(name, offset, values);
}

void SafetensorsWriter::write_slice(std::string_view name, at::IntArrayRef offset, const at::Tensor& values) {
  const auto found = tensors_.find(name);
  TORCH_INTERNAL_ASSERT(found != tensors_.end(), path_.string(), " has no tensor ", name);
  const TensorHeader& header = found->second;
  const auto dims = static_cast<int64_t>(header.shape.size());
  TORCH_INTERNAL_ASSERT(values.dim() == dims && static_cast<int64_t>(offset.size()) == dims);
  for (int64_t dim = 0; dim < dims; ++dim)
    TORCH_INTERNAL_ASSERT(offset[dim] >= 0 && offset[dim] + values.size(dim) <= header.shape[dim], "slice of ", name,
                          " is out of bounds");
  if (values.numel() == 0) return;
  const at::Tensor ready = values.detach().to(at::kCPU, header.dtype).contiguous();

  // The innermost dimensions that the slice covers completely, and the one before them, are contiguous in the file.
  int64_t piece_dim = dims;
  while (piece_dim > 0 && (piece_dim == dims || values.size(piece_dim) == header.shape[piece_dim])) --piece_dim;
  const auto item = static_cast<int64_t>(c10::elementSize(header.dtype));
  const auto sizes = ready.sizes();
  const int64_t run = std::accumulate(sizes.begin() + piece_dim, sizes.end(), item, std::multiplies<>());
  std::vector<int64_t> strides(dims, item);  // in the file, in bytes
  for (int64_t dim = dims - 2; dim >= 0; --dim) strides[dim] = strides[dim + 1] * header.shape[dim + 1];

  const auto* bytes = static_cast<const std::byte*>(ready.const_data_ptr());
  std::vector<int64_t> index(piece_dim, 0);
  for (int64_t done = 0; done < static_cast<int64_t>(ready.nbytes()); done += run) {
    int64_t position = 0;
    for (int64_t dim = 0; dim < dims; ++dim)
      position += (offset[dim] + (dim < piece_dim ? index[dim] : 0)) * strides[dim];
    sink_->write(bytes + done, static_cast<uint64_t>(run),
                 data_begin_ + header.begin + static_cast<uint64_t>(position));
    for (int64_t dim = piece_dim - 1; dim >= 0 && ++index[dim] == sizes[dim]; --dim) index[dim] = 0;
  }
}

void SafetensorsWriter::write(std::string_view name, const at::Tensor& values) {
  const auto header = tensors_.find(name);
  TORCH_INTERNAL_ASSERT(header != tensors_.end() && values.sizes() == header->second.shape, path_.string(),
                        " has no such tensor ", name);
  const at::Tensor ready = values.detach().to(at::kCPU, header->second.dtype).contiguous();
  const auto* bytes = static_cast<const std::byte*>(ready.const_data_ptr());
  int64_t* const digests =
      digests_.defined() ? digests_.data_ptr<int64_t>() + first_digest_.at(std::string(name)) : nullptr;
  for (int64_t block = 0; block < count_blocks(ready.nbytes()); ++block) {
    const uint64_t begin = static_cast<uint64_t>(block) * kDigestedBlock;
    if (digests) digests[block] = compute_digest(bytes, ready.nbytes(), block);
    sink_->write(bytes + begin, std::min(kDigestedBlock, ready.nbytes() - begin),
                 data_begin_ + header->second.begin + begin);
  }
}

void SafetensorsWriter::close() {
  if (digests_.defined()) write_slice(kDigests, {0}, std::exchange(digests_, {}));
  sink_->close();
}

void write_safetensors(const fs::path& path, const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsWriter::Tensor> headers;
  for (const auto& [name, tensor] : tensors) headers.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  auto writer = SafetensorsWriter::create(path, headers, metadata);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor);
  writer.close();
}

}  // namespace modular
