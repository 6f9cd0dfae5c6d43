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

#include "runtime/checkpoint/file_sink.h"
#include "runtime/files/open_file.h"

namespace modular {

/// A tensor as a file's header describes it.
struct TensorHeader {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // of its bytes, from the end of the header
  uint64_t end = 0;
};

/// A file that is read. The bytes are mapped, not loaded.
class SafetensorsFile {
 public:
  /// Throws std::runtime_error where the file is not there, cut off, or not what its header says.
  explicit SafetensorsFile(const std::filesystem::path& path, Links links = Links::none);

  const std::filesystem::path& path() const { return path_; }
  const std::map<std::string, TensorHeader, std::less<>>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Where the tensors' bytes begin in the file.
  uint64_t data_begin() const { return data_begin_; }

  /// The tensor's values in the mapped file, which stays mapped as long as they live. They must not be written.
  at::Tensor tensor(std::string_view name) const;

  /// Throws std::runtime_error where the file's size has changed since it was mapped: to read on might end the process.
  void check_size() const;

  /// Holds bytes [begin, end) of a tensor to the digests that its writer left, in parallel; reads the blocks that they
  /// lie in. Does nothing for a file without digests. Throws std::runtime_error where they are not what was written.
  void verify(std::string_view name, uint64_t begin, uint64_t end) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const std::byte> mapping_;
  uint64_t size_ = 0, data_begin_ = 0;
  std::map<std::string, TensorHeader, std::less<>> tensors_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, int64_t, std::less<>> first_digest_;  // by tensor; empty where the file has none
};

/// A file that is written: the header at once, then slices of the tensors in any order, from any number of processes
/// that see the file.
class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    at::ScalarType dtype = at::kFloat;
    std::vector<int64_t> shape;
  };

  /// Creates the file in its full size. Throws std::runtime_error where that cannot be done (no space, no permission).
  /// `with_digests`: the file gets a tensor "digests" of the XXH3 of each 4 MiB of each other tensor, all of which are
  /// then written whole.
  static SafetensorsWriter create(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata, bool with_digests = false);

  /// The same into `sink`, which messages call `path`. Where the tensors are then written in the order of `tensors`,
  /// whole, every byte goes there in the order of the file.
  static SafetensorsWriter create(std::unique_ptr<FileSink> sink, const std::filesystem::path& path,
                                  const std::vector<Tensor>& tensors,
                                  const std::map<std::string, std::string>& metadata, bool with_digests = false);

  /// A file that another process has created.
  static SafetensorsWriter open(const std::filesystem::path& path);

  /// Writes `values`, converted to the tensor's dtype, as tensor[offset, offset + values.sizes()).
  void write(std::string_view name, at::IntArrayRef offset, const at::Tensor& values);
  /// Writes a full tensor.
  void write(std::string_view name, const at::Tensor& values);

  /// Has the file system store what was written. Throws std::runtime_error where it cannot.
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
  at::Tensor digests_;  // of what was written so far; undefined in a file without
};

/// Writes a whole file.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace modular
