#include "runtime/metrics/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <stdexcept>

#include "runtime/files/open_file.h"

namespace modular {

namespace fs = std::filesystem;

// A file is records (tensorflow/core/lib/io/record_writer.h) of Event messages (tensorflow/core/util/event.proto), of
// which a dozen fields are needed: two kinds of field and a checksum are written here. The protobuf library would want
// its compiler and TensorFlow's message definitions in the build, and libtorch exports neither it nor a CRC-32C.

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

constexpr std::string_view kPrefix = "events.out.tfevents.";

// CRC-32C (Castagnoli), whose polynomial is reflected here.
constexpr auto kCrcOfByte = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    table[byte] = byte;
    for (int bit = 0; bit < 8; ++bit) table[byte] = (table[byte] >> 1) ^ ((table[byte] & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return table;
}();

/// Masked, as records want it: a checksum of data that holds checksums is weak.
uint32_t masked_crc(std::string_view data) {
  uint32_t crc = ~0u;
  for (const char c : data) crc = (crc >> 8) ^ kCrcOfByte[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <class T>
std::string serialized(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string record(std::string_view data) {
  const std::string length = serialized<uint64_t>(data.size());
  return length + serialized(masked_crc(length)) + std::string(data) + serialized(masked_crc(data));
}

// Fields of a protobuf message: number and kind of the field, then the value.

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string integer_field(uint32_t number, int64_t value) {
  return varint(number << 3) + varint(static_cast<uint64_t>(value));
}
std::string double_field(uint32_t number, double value) { return varint(number << 3 | 1) + serialized(value); }
std::string float_field(uint32_t number, float value) { return varint(number << 3 | 5) + serialized(value); }
/// A string or an inner message.
std::string bytes_field(uint32_t number, std::string_view value) {
  return varint(number << 3 | 2) + varint(value.size()) + std::string(value);
}

// Numbers of fields in Event, in the messages within it, and values of their enumerations.
namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1;
}
namespace value {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr uint32_t kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr uint32_t kType = 1, kShape = 2, kStrings = 8, kDimension = 2, kSize = 1;
constexpr int64_t kString = 7;
}  // namespace tensor

int64_t to_seconds(std::string_view name) {
  int64_t seconds = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), seconds);
  return seconds;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The name of a file that comes after all that are in `folder`: TensorBoard reads them in the order of their names,
/// which begin with the second of their making.
std::string next_name(const fs::path& folder) {
  auto seconds = static_cast<int64_t>(wall_time());
  for (const auto& entry : fs::directory_iterator(folder))
    if (const auto name = entry.path().filename().string(); name.starts_with(kPrefix))
      seconds = std::max(seconds, to_seconds(name) + 1);
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("{}{}.{}.{}.modular", kPrefix, seconds, host.data(), getpid());
}

}  // namespace

EventFile::EventFile(const fs::path& folder, int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw std::runtime_error(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));
  path_ = folder / next_name(folder);
  open_to_write(path_, O_CREAT | O_EXCL);
  out_.open(path_, std::ios::binary);
  write(0, bytes_field(event::kFileVersion, "brain.Event:2"));  // from which on readers heed the session log
  restart(first_step);
}

void EventFile::restart(int64_t next_step) {
  write(next_step, bytes_field(event::kSessionLog, integer_field(session_log::kStatus, session_log::kStart)));
}

void EventFile::scalars(int64_t step, std::span<const Scalar> scalars) {
  std::string values;
  for (const auto& [tag, number] : scalars)
    values += bytes_field(summary::kValue,
                          bytes_field(value::kTag, tag) + float_field(value::kSimpleValue, static_cast<float>(number)));
  write(step, bytes_field(event::kSummary, values));
}

void EventFile::text(int64_t step, std::string_view tag, std::string_view text) {
  // TensorBoard takes text for Markdown, in which an indented block is shown as it is.
  std::string block = "    ";
  for (const char c : text) block += c == '\n' ? "\n    " : std::string(1, c);
  const std::string shape = bytes_field(tensor::kDimension, integer_field(tensor::kSize, 1)),
                    plugin = bytes_field(metadata::kPluginData, bytes_field(metadata::kPluginName, "text"));
  const std::string strings = integer_field(tensor::kType, tensor::kString) + bytes_field(tensor::kShape, shape) +
                              bytes_field(tensor::kStrings, block);
  write(step, bytes_field(event::kSummary, bytes_field(summary::kValue, bytes_field(value::kTag, tag) +
                                                                            bytes_field(value::kTensor, strings) +
                                                                            bytes_field(value::kMetadata, plugin))));
}

void EventFile::write(int64_t step, std::string_view fields) {
  const std::string message =
      double_field(event::kWallTime, wall_time()) + integer_field(event::kStep, step) + std::string(fields);
  out_ << record(message) << std::flush;
  if (!out_) throw std::runtime_error(path_.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace modular
