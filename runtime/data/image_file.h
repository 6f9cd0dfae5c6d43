// Pixels of image files, as transformers' image processors compute them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

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

}  // namespace modular
