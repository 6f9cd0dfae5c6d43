// Pixels of image files, as image processors of transformers make them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

namespace modular {

/// Whether a file's name ends as that of an image that read_image() knows: .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::filesystem::path& path);

/// The pixels of a JPEG or PNG file, whatever its name: [channels, height, width] uint8, of three channels red, green
/// and blue, of one their luma. What is transparent is read as if it were not. Throws DataError where the file is
/// neither, or is cut off.
at::Tensor read_image(const std::filesystem::path& path, int64_t channels);

/// The same image in another size: bilinear, over the pixels that a new one covers, and rounded, as Pillow and
/// torchvision do.
/// - image [channels, height, width] uint8
/// - returns [channels, new height, new width] uint8
at::Tensor resized(const at::Tensor& image, int64_t height, int64_t width);

}  // namespace modular
