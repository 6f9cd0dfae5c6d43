// The safetensors format (https://github.com/huggingface/safetensors): a JSON header, then the tensors' bytes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/remote_writer.h"
#include "runtime/files/open_file.h"

namespace modular {

/// A tensor as described by a file's header.
struct TensorHeader {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // offset of its bytes from the end of the header
  uint64_t end = 0;
};

/// A file opened for reading. The bytes are mapped, not loaded.
class SafetensorsFile {
 public:
  /// Throws std::runtime_error if the file does not exist, is cut off, or does not match its header.
  explicit SafetensorsFile(const std::filesystem::path& path, Links links = Links::none);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorHeader, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Offset of the tensors' bytes in the file.
  uint64_t data_begin() const { return data_begin_; }

  /// The tensor's values in the mapped file, which stays mapped as long as they live. They must not be written.
  at::Tensor tensor(std::string_view name) const;

  /// Throws std::runtime_error if the file's size has changed since it was mapped: reading on might crash the process.
  void check_size() const;

  /// Verifies bytes [begin, end) of a tensor against the digests in the file, in parallel, and reads the blocks that
  /// contain them. Does nothing for a file without digests. Throws std::runtime_error on a mismatch.
  void verify(std::string_view name, uint64_t begin, uint64_t end) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::byte> mapping_;
  uint64_t size_ = 0, data_begin_ = 0;
  std::map<std::string, TensorHeader, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, int64_t, std::less<>> first_digest_;  // by tensor; empty if the file has none
};

/// A file opened for writing: the header at once, then slices of the tensors in any order, from any number of processes
/// that see the file.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> shape;
  };

  /// Creates the file in its full size. Throws std::runtime_error on failure (no space, no permission). `with_digests`:
  /// the file gets a tensor "digests" with the XXH3 of each 4 MiB of each other tensor, all of which must then be
  /// written in full.
  static SafetensorsWriter create(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata, bool with_digests = false);

  /// The same into `sink`, which messages call `path`. If the tensors are then written in full and in the order of
  /// `tensors`, the sink receives all bytes in file order.
  static SafetensorsWriter create(std::unique_ptr<FileSink> sink, const std::filesystem::path& path,
                                  const std::vector<Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata, bool with_digests = false);

  /// Opens a file that another process has created.
  static SafetensorsWriter open(const std::filesystem::path& path);

  /// Writes `values`, converted to the tensor's dtype, as tensor[offset, offset + values.sizes()).
  void write(std::string_view name, at::IntArrayRef offset, const at::Tensor& values);
  /// Writes a full tensor.
  void write(std::string_view name, const at::Tensor& values);

  /// Makes the written data durable. Throws std::runtime_error on failure.
  void close();

 private:
  SafetensorsWriter(std::filesystem::path path, std::unique_ptr<FileSink> sink)
      : path_(std::move(path)), sink_(std::move(sink)) {}
  void write_slice(std::string_view name, at::IntArrayRef offset, const at::Tensor& values);

  std::filesystem::path path_;
  std::unique_ptr<FileSink> sink_;
  uint64_t data_begin_ = 0;
  std::map<std::string, TensorHeader, std::less<>> tensors_;
  std::map<std::string, int64_t, std::less<>> first_digest_;
  at::Tensor digests_;  // of the data written so far; undefined in a file without digests
};

/// Writes a complete file.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace modular
