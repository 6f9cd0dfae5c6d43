// What vision models share beside their layers: which images they take, positions of patches, and images among tokens.
#pragma once

#include <ATen/ops/upsample_bicubic2d.h>

#include <cmath>
#include <string>

#include "runtime/model/config.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Throws ConfigError where images have other channels than `channels`, or another height or width than `size` where
/// one is given.
/// - images [images, channels, height, width]
inline void check_images(const Tensor& images, int64_t channels, std::optional<int64_t> size) {
  if (images.size(1) == channels && (!size || (images.size(2) == *size && images.size(3) == *size))) return;
  std::string message = "images have ";
  message.append(std::to_string(images.size(1)))
      .append(" channels and ")
      .append(std::to_string(images.size(2)))
      .append(" x ");
  message.append(std::to_string(images.size(3))).append(" pixels, and the model takes ");
  message.append(std::to_string(channels)).append(" channels");
  if (size) message.append(" and ").append(std::to_string(*size)).append(" x ").append(std::to_string(*size));
  throw ConfigError(message);
}

/// The positions of a class token and of a square of patches for `rows` x `columns` patches, by bicubic interpolation
/// in float32 (Oquab et al., DINOv2). The same where the square has these patches.
/// - positions [1, 1 + patches, hidden]
/// - returns [1, 1 + rows * columns, hidden]
inline Tensor interpolated_positions(const Tensor& positions, int64_t rows, int64_t columns) {
  const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(positions.size(1) - 1)));
  if (rows == side && columns == side) return positions;
  const Tensor square = positions.slice(1, 1).view({1, side, side, positions.size(2)}).permute({0, 3, 1, 2});
  const Tensor patches = at::upsample_bicubic2d(square.to(at::kFloat), {rows, columns}, /*align_corners=*/false)
                             .to(positions.scalar_type());
  return at::cat({positions.slice(1, 0, 1), patches.flatten(2).transpose(1, 2)}, 1);
}

/// The embeddings of tokens with the features of images, one after the other, in the place of the tokens that are
/// `placeholder`. Throws ConfigError where there are more or fewer placeholders than features.
/// - embeddings [batch, seq, hidden]
/// - ids [batch, seq] int64
/// - features [images, patches, hidden]
/// - returns [batch, seq, hidden]
inline Tensor with_images(const Tensor& embeddings, const Tensor& ids, int64_t placeholder, const Tensor& features) {
  const Tensor places = ids.eq(placeholder);
  const int64_t wanted = features.size(0) * features.size(1), found = places.sum().item<int64_t>();
  if (found != wanted) {
    std::string message = "the images make ";
    message.append(std::to_string(wanted))
        .append(" features, and input_ids hold the image token ")
        .append(std::to_string(placeholder))
        .append(" ");
    message.append(std::to_string(found)).append(" times: write it once for each feature");
    throw ConfigError(message);
  }
  return embeddings.masked_scatter(places.unsqueeze(-1), features.to(embeddings.scalar_type()));
}

}  // namespace modular
