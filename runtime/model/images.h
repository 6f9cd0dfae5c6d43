// Helpers of vision models: image shape checks, positions of patches, and image features among token embeddings.
#pragma once

#include <ATen/ops/upsample_bicubic2d.h>

#include <cmath>
#include <string>

#include "runtime/model/config.h"
#include "runtime/model/cp.h"
#include "runtime/model/tensors.h"

namespace modular {

/// Throws ConfigError unless images have `channels` channels and, if `size` is given, that height and width.
/// - images [images, channels, height, width]
inline void check_images(const Tensor& images, int64_t channels, std::optional<int64_t> size) {
  if (images.size(1) == channels && (!size || (images.size(2) == *size && images.size(3) == *size))) return;
  std::string message = "images have ";
  message.append(std::to_string(images.size(1)))
      .append(" channels and ")
      .append(std::to_string(images.size(2)))
      .append(" x ");
  message.append(std::to_string(images.size(3))).append(" pixels, but the model takes ");
  message.append(std::to_string(channels)).append(" channels");
  if (size) message.append(" and ").append(std::to_string(*size)).append(" x ").append(std::to_string(*size));
  throw ConfigError(message);
}

/// Resizes the position embeddings of a class token and a square of patches to `rows` x `columns` patches by bicubic
/// interpolation in float32 (Oquab et al., DINOv2). Returns `positions` if the square already has this size.
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

/// Replaces the embeddings of tokens equal to `placeholder` with the image features, in order. Throws ConfigError if
/// the numbers of placeholders and features differ. Context-parallel ranks have the features of all images, and take
/// those of their own positions.
/// - embeddings [batch, seq, hidden]
/// - ids [batch, seq] int64
/// - features [images, patches, hidden]
/// - returns [batch, seq, hidden]
inline Tensor with_images(const Tensor& embeddings, const Tensor& ids, int64_t placeholder, const Tensor& features) {
  const Tensor is_placeholder = cp::whole(ids.eq(placeholder));
  const int64_t wanted = features.size(0) * features.size(1), found = is_placeholder.sum().item<int64_t>();
  if (found != wanted) {
    std::string message = "the images produce ";
    message.append(std::to_string(wanted))
        .append(" features, but input_ids contain the image token ")
        .append(std::to_string(placeholder))
        .append(" ");
    message.append(std::to_string(found)).append(" times: write it once per feature");
    throw ConfigError(message);
  }
  const Tensor of_images = features.to(embeddings.scalar_type());
  if (!bound.context) return embeddings.masked_scatter(is_placeholder.unsqueeze(-1), of_images);
  const Tensor index = is_placeholder.view(-1).cumsum(0).view_as(is_placeholder) - 1;
  const Tensor own = cp::part(is_placeholder), own_index = cp::part(index).clamp_min(0);
  const Tensor of_positions = of_images.flatten(0, 1).index_select(0, own_index.flatten()).view_as(embeddings);
  return at::where(own.unsqueeze(-1), of_positions, embeddings);
}

}  // namespace modular
