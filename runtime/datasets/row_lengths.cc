#include "runtime/datasets/row_lengths.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/files/open_file.h"

namespace modular {
namespace {

constexpr int64_t kAtOnce = int64_t{1} << 20;  // positions that are looked at together

bool is_of_decoder(std::string_view name, bool has_decoder) {
  return has_decoder && (name.starts_with("decoder_") || name == "labels");
}

/// Of each row, what follows the last position at which `of_texts`, in any of its texts.
/// - of_texts [rows, seq] or [rows, texts, seq] bool
at::Tensor find_ends(const at::Tensor& of_texts) {
  const at::Tensor counts = of_texts.dim() == 3 ? of_texts.any(1) : of_texts;
  const int64_t seq = counts.size(1);
  return at::where(counts, at::arange(1, seq + 1), at::zeros({1}, at::kLong)).amax(1);
}

/// The same of a file's tensor; nothing where it has none with positions.
void lengthen(std::vector<UnpaddedLength>& lengths, size_t first, const SafetensorsFile& file, std::string_view name,
              int64_t padding, int64_t UnpaddedLength::* length) {
  const auto header = file.tensors().find(name);
  if (header == file.tensors().end()) return;
  const auto& shape = header->second.shape;
  // Numbers are labels of full rows.
  if ((shape.size() != 2 && shape.size() != 3) || shape[1] == 0 || at::isFloatingType(header->second.dtype)) return;
  for (const at::Tensor& some : file.tensor(name).split(std::max<int64_t>(kAtOnce / shape[1], 1))) {
    const at::Tensor ends = find_ends(some.to(at::kLong).ne(padding));
    for (const int64_t end : std::span(ends.const_data_ptr<int64_t>(), static_cast<size_t>(ends.numel()))) {
      lengths[first].*length = std::max(lengths[first].*length, end);
      ++first;
    }
  }
}

int64_t rounded(int64_t length) { return std::max<int64_t>((length + 7) / 8 * 8, 8); }

}  // namespace

std::vector<UnpaddedLength> row_lengths(const std::vector<std::filesystem::path>& files, bool has_decoder) {
  std::vector<UnpaddedLength> lengths;
  for (const std::filesystem::path& path : files) {
    const SafetensorsFile file(path, Links::followed);
    const auto mask = file.tensors().find("attention_mask");
    if (mask == file.tensors().end()) return {};
    const size_t first = lengths.size();
    lengths.resize(first + static_cast<size_t>(mask->second.shape.at(0)));
    lengthen(lengths, first, file, "attention_mask", 0, &UnpaddedLength::input);
    lengthen(lengths, first, file, "labels", kIgnoredTarget,
             has_decoder ? &UnpaddedLength::target : &UnpaddedLength::input);
    if (has_decoder) lengthen(lengths, first, file, "decoder_attention_mask", 0, &UnpaddedLength::target);
  }
  return lengths;
}

Batch cut_to(Batch batch, const UnpaddedLength& length, bool has_decoder) {
  const int64_t input = batch.input_ids.size(1);
  batch.fields([&](std::string_view name, at::Tensor& tensor) {
    if (!tensor.defined() || name == "pixel_values" || tensor.dim() < 2) return;
    if (name == "labels" && tensor.is_floating_point()) return;  // of full rows
    const bool of_decoder = is_of_decoder(name, has_decoder);
    if (!of_decoder && tensor.size(1) != input) return;
    const int64_t kept = std::min(rounded(of_decoder ? length.target : length.input), tensor.size(1));
    tensor = tensor.narrow(1, 0, kept).contiguous();
  });
  return batch;
}

}  // namespace modular
