// Images in folders, one for each class, as torchvision's ImageFolder has them.
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

/// What a model reads of an image.
struct ImageShape {
  int64_t channels = 3, height = 224, width = 224;
  // Subtracted from values of 0 to 1, and divided by: one for all channels, or one for each.
  std::vector<double> mean = {0.5}, std = {0.5};
};

/// The names of the folders that hold `files`, sorted.
std::vector<std::string> image_classes(const std::vector<DataFile>& files);

class ImageSamples final : public Samples {
 public:
  /// Of `files`, whose folders are among `classes`, with their labels. Throws DataError where one is not.
  ImageSamples(std::vector<DataFile> files, const std::map<std::string, int64_t>& classes, ImageShape shape);

  int64_t count() const override { return static_cast<int64_t>(files_.size()); }
  int64_t tokens() const override { return 1; }
  /// Resized to the shape, whatever their sides' ratio. Images are decoded by several threads. Throws DataError where a
  /// file is none, or has changed since it was found.
  Batch read(std::span<const SamplePosition> places, int64_t samples) const override;

 private:
  at::Tensor image(int64_t number) const;  // [channels, height, width] float32

  std::vector<DataFile> files_;
  std::vector<int64_t> labels_;
  ImageShape shape_;
};

}  // namespace modular
