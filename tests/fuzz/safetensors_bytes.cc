#include "tests/fuzz/safetensors_bytes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace modular::fuzz {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr int64_t kMostValues = 1000;  // so that files stay small

struct Type {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kTypes = {
    Type{"F64", 8},  Type{"F32", 4},     Type{"F16", 2},     Type{"BF16", 2}, Type{"I64", 8},    Type{"I32", 4},
    Type{"I16", 2},  Type{"I8", 1},      Type{"U64", 8},     Type{"U32", 4},  Type{"U16", 2},    Type{"U8", 1},
    Type{"BOOL", 1}, Type{"F8_E4M3", 1}, Type{"F8_E5M2", 1}, Type{"F4", 1},   Type{"float32", 4}};

constexpr std::array<std::string_view, 9> kHeaderWords = {"dtype", "shape", "data_offsets", "__metadata__", "digests",
                                                          "boxes", "F32",   "I64",          "BOOL"};

int64_t get_width(std::string_view dtype) {
  const auto* const known = std::ranges::find(kTypes, dtype, &Type::name);
  return known == kTypes.end() ? 1 : known->bytes;
}

/// Number of values of a tensor, or the largest int64_t on overflow.
int64_t volume(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return std::numeric_limits<int64_t>::max();
  return count;
}

json get_header(const std::vector<StoredBytes>& tensors, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t begin = 0;
  for (const StoredBytes& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + tensor.bytes.size()}}};
    begin += tensor.bytes.size();
  }
  return header;
}

std::string with_length(const std::string& header) {
  const uint64_t length = header.size();
  std::string text(kLengthBytes, '\0');
  std::memcpy(text.data(), &length, kLengthBytes);
  return text + header;
}

std::string get_data(const std::vector<StoredBytes>& tensors) {
  std::string data;
  for (const StoredBytes& tensor : tensors) data += tensor.bytes;
  return data;
}

/// Values of the tensor's own type at the limits of ids and labels.
void fill_anew(StoredBytes& tensor, Random& random) {
  if (volume(tensor.shape) > kMostValues) tensor.shape = {kMostValues};
  const auto width = static_cast<size_t>(get_width(tensor.dtype));
  std::string bytes(static_cast<size_t>(volume(tensor.shape)) * width, '\0');
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    const int64_t id = random.one_in(20) ? static_cast<int64_t>(random.next()) : static_cast<int64_t>(random.below(4));
    std::memcpy(bytes.data() + at, &id, width);
  }
  tensor.bytes = std::move(bytes);
}

void change_shape(std::vector<int64_t>& shape, Random& random) {
  const auto at = static_cast<std::ptrdiff_t>(random.below(shape.size() + 1));
  const bool is_there = at < static_cast<std::ptrdiff_t>(shape.size());
  switch (random.below(6)) {
    case 0:
      shape.clear();
      break;
    case 1:
      if (is_there) shape.erase(shape.begin() + at);
      break;
    case 2:
      shape.insert(shape.begin() + at, 1);
      break;
    case 3:
      if (is_there) shape[static_cast<size_t>(at)] = 0;
      break;
    case 4:
      if (is_there) shape[static_cast<size_t>(at)] += 1;
      break;
    default:
      // Empty, whatever the other size is.
      shape = {0, int64_t{1} << (20 + random.below(40))};
      if (random.one_in(2)) std::swap(shape[0], shape[1]);
  }
}

void change(std::vector<StoredBytes>& tensors, std::span<const std::string_view> names, Random& random) {
  if (tensors.empty()) return;
  StoredBytes& tensor = random.pick(tensors);
  switch (random.below(6)) {
    case 0:
      tensor.dtype = random.pick(kTypes).name;
      break;
    case 1:
      change_shape(tensor.shape, random);
      break;
    case 2:
      if (!names.empty()) tensor.name = random.pick(names);
      break;
    case 3: {
      StoredBytes copied = tensor;
      copied.name = names.empty() ? "another" : std::string(random.pick(names));
      return tensors.push_back(std::move(copied));
    }
    case 4:
      return void(tensors.erase(tensors.begin() + (&tensor - tensors.data())));
    default:
      break;
  }
  fill_anew(tensor, random);
}

}  // namespace

StoredBytes stored_bytes(const std::string& name, const at::Tensor& values) {
  const at::Tensor ready = values.contiguous();
  return {name,
          ready.scalar_type() == at::kLong   ? "I64"
          : ready.scalar_type() == at::kByte ? "U8"
                                             : "F32",
          ready.sizes().vec(), std::string(static_cast<const char*>(ready.const_data_ptr()), ready.nbytes())};
}

std::string safetensors_file(const std::vector<StoredBytes>& tensors, const Metadata& metadata) {
  return with_length(get_header(tensors, metadata).dump()) + get_data(tensors);
}

std::string mutated_safetensors_file(const std::string& file, std::span<const std::string_view> words, Random& random) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), std::min(file.size(), kLengthBytes));
  if (file.size() < kLengthBytes || length > file.size() - kLengthBytes) return mutated_text(file, words, random);
  const std::string header = file.substr(kLengthBytes, length), data = file.substr(kLengthBytes + length);
  switch (random.below(6)) {
    case 0:
      return mutated_text(file, words, random);
    case 1: {  // another length
      std::string changed = file;
      length = random.one_in(2) ? length + random.below(5) - 2 : random.next() >> random.below(64);
      std::memcpy(changed.data(), &length, kLengthBytes);
      return changed;
    }
    case 2:  // other values
      return with_length(header) + mutated_text(data, {}, random);
    default: {
      const json parsed = json::parse(header, nullptr, /*allow_exceptions=*/false);
      if (parsed.is_discarded()) return with_length(mutated_text(header, words, random)) + data;
      return with_length(mutated_json_text(parsed, words, random)) + data;
    }
  }
}

std::string mutated_safetensors(std::vector<StoredBytes> tensors, const Metadata& metadata,
                                std::span<const std::string_view> names, Random& random) {
  for (size_t left = random.below(4); left > 0; --left) change(tensors, names, random);
  const std::string file = safetensors_file(tensors, metadata);
  return random.one_in(3) ? file : mutated_safetensors_file(file, kHeaderWords, random);
}

}  // namespace modular::fuzz
