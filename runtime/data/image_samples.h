// Images in folders, one per class, in the layout of torchvision's ImageFolder.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/files.h"
#include "runtime/data/samples.h"

namespace modular {

/// Shape and normalization of a model's input images.
struct ImageShape {
  int64_t channels = 3, height = 224, width = 224;
  // Subtracted from values of 0 to 1, then divided by: one value for all channels, or one per channel.
  std::vector<double> mean = {0.5}, std = {0.5};
};

/// Sorted names of the folders that hold `files`.
std::vector<std::string> image_classes(const std::vector<DataFile>& files);

class ImageSamples final : public Samples {
 public:
  /// Samples of `files`, whose folders must be among `classes`, with their labels. Throws DataError if one is not.
  ImageSamples(std::vector<DataFile> files, const std::map<std::string, int64_t>& classes, ImageShape shape);

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
