// Images in folders, one per class, in the layout of torchvision's ImageFolder. Pixels are those that transformers'
// image processors compute.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/files.h"

namespace modular {

/// Whether a file name has an extension that read_image() supports: .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::filesystem::path& path);

/// Pixels of a JPEG or PNG file, whatever its name: [channels, height, width] uint8, red, green and blue for three
/// channels, luma for one. Transparency is ignored. Throws DataError if the file is neither, or is cut off.
at::Tensor read_image(const std::filesystem::path& path, int64_t channels);

/// Resizes an image: bilinear with antialiasing, rounded, as in Pillow and torchvision.
/// - image [channels, height, width] uint8
/// - returns [channels, new height, new width] uint8
at::Tensor resized(const at::Tensor& image, int64_t height, int64_t width);

/// Shape and normalization of a model's input images.
struct ImageShape {
  int64_t channels = 3, height = 224, width = 224;
  // Subtracted from values of 0 to 1, then divided by: one value for all channels, or one per channel.
  std::vector<double> mean = {0.5}, std = {0.5};
};

/// Sorted names of the folders that hold `files`.
std::vector<std::string> image_classes(const std::vector<DataFile>& files);

class ImageDataset final : public Dataset {
 public:
  /// Samples of `files`, whose folders must be among `classes`, with their labels. Throws DataError if one is not.
  ImageDataset(std::vector<DataFile> files, const std::map<std::string, int64_t>& classes, ImageShape shape);

  int64_t count() const override { return static_cast<int64_t>(files_.size()); }
  int64_t tokens() const override { return 1; }
  /// Images are resized to the shape, whatever their aspect ratio, and decoded by several threads. Throws DataError if
  /// a file is not an image, or has changed since it was found.
  Batch read(std::span<const SamplePosition> positions, int64_t samples) const override;

 private:
  at::Tensor image(int64_t number) const;  // [channels, height, width] float32

  std::vector<DataFile> files_;
  std::vector<int64_t> labels_;
  ImageShape shape_;
};

}  // namespace modular
