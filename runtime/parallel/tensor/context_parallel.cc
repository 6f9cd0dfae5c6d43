#include "runtime/parallel/tensor/context_parallel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All positions along `dim` in order, of the ranks' positions `by_rank` [ranks, ...]; `dim` does not count the first
/// dimension.
Tensor in_order(const ContextRanks& ranks, const Tensor& by_rank, int64_t dim) {
  struct Piece {
    int64_t begin;
    Tensor values;
  };
  std::vector<Piece> pieces;
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    int64_t row = 0;
    for (const cp::Run& run : ranks.runs_of(rank, by_rank.size(dim + 1))) {
      pieces.push_back({run.begin, by_rank[rank].narrow(dim, row, run.size)});
      row += run.size;
    }
  }
  std::ranges::sort(pieces, {}, &Piece::begin);
  std::vector<Tensor> values;
  for (const Piece& piece : pieces) values.push_back(piece.values);
  return at::cat(values, dim);
}

/// The inverse: [ranks, ...], contiguous.
Tensor by_rank(const ContextRanks& ranks, const Tensor& all, int64_t dim) {
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Tensor> runs;
    for (const cp::Run& run : ranks.runs_of(rank, all.size(dim) / ranks.size()))
      runs.push_back(all.narrow(dim, run.begin, run.size));
    parts.push_back(at::cat(runs, dim));
  }
  return at::stack(parts);
}

Tensor gather_positions(const ContextRanks& ranks, const Tensor& own, int64_t dim) {
  // Gloo has no collectives of bool.
  if (own.scalar_type() == at::kBool) return gather_positions(ranks, own.to(at::kByte), dim).to(at::kBool);
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), ranks.size());
  const Tensor all = at::empty(shape, own.options());
  all[ranks.rank()].copy_(own);
  all_gather(ranks.group(), {all}, "the positions of context-parallel ranks").wait();
  return in_order(ranks, all, dim);
}

Tensor sum_positions(const ContextRanks& ranks, const Tensor& partial, int64_t dim) {
  const Tensor terms = by_rank(ranks, partial, dim);
  const Tensor sum = at::empty_like(terms[0], at::MemoryFormat::Contiguous);
  reduce_scatter(ranks.group(), sum, terms, "gradients of positions of context-parallel ranks").wait();
  return sum;
}

/// Sends part r of `parts` [ranks, ...] to rank r; returns the parts received, by rank.
Tensor exchange(const ContextRanks& ranks, const Tensor& parts, const char* what) {
  const Tensor from = parts.contiguous(), to = at::empty_like(from);
  const std::vector<int64_t> sizes(static_cast<size_t>(ranks.size()), from.numel() / ranks.size());
  all_to_all(ranks.group(), to.view(-1), sizes, from.view(-1), sizes, what).wait();
  return to;
}

/// From this rank's positions along `positions` of all slices along `slices` to all positions of this rank's slice.
Tensor positions_to_slices(const ContextRanks& ranks, const Tensor& x, int64_t positions, int64_t slices) {
  const Tensor by_slice = x.unflatten(slices, {ranks.size(), -1}).movedim(slices, 0);
  return in_order(ranks, exchange(ranks, by_slice, "heads by context-parallel rank"), positions);
}

/// The inverse.
Tensor slices_to_positions(const ContextRanks& ranks, const Tensor& x, int64_t positions, int64_t slices) {
  const Tensor received = exchange(ranks, by_rank(ranks, x, positions), "positions by context-parallel rank");
  return received.movedim(0, slices).flatten(slices, slices + 1).contiguous();
}

/// Applies one of two functions of ranks, a tensor and dimensions, and the other one to the gradient.
template <auto forwards, auto backwards>
struct OverContext : torch::autograd::Function<OverContext<forwards, backwards>> {
  template <class... Dimensions>
  static Tensor forward(AutogradContext* context, const Tensor& x, const ContextRanks* ranks, Dimensions... dims) {
    context->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    context->saved_data["dims"] = std::vector<int64_t>{dims...};
    return forwards(*ranks, x.detach(), dims...);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& ranks = *reinterpret_cast<const ContextRanks*>(context->saved_data["ranks"].toInt());
    const std::vector<int64_t> dims = context->saved_data["dims"].toIntVector();
    if constexpr (requires { backwards(ranks, gradients[0], int64_t{}); })
      return {backwards(ranks, gradients[0], dims[0]), Tensor(), Tensor()};
    else
      return {backwards(ranks, gradients[0], dims[0], dims[1]), Tensor(), Tensor(), Tensor()};
  }
};

/// The sum over ranks, and that of the gradient.
struct Sum : torch::autograd::Function<Sum> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const ContextRanks* ranks) {
    context->saved_data["group"] = ranks->group();
    const Tensor total = x.detach().clone(at::MemoryFormat::Contiguous);
    all_reduce(ranks->group(), total, "a sum over positions").wait();
    return total;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto group = context->saved_data["group"].toCustomClass<c10d::ProcessGroup>();
    const Tensor total = gradients[0].clone(at::MemoryFormat::Contiguous);
    all_reduce(group, total, "the gradient of a sum over positions").wait();
    return {total, Tensor()};
  }
};

/// `tensor` [batch, length, ...] with `value` after its positions.
Tensor padded_to(const Tensor& tensor, int64_t length, int64_t value) {
  std::vector<int64_t> padding(2 * static_cast<size_t>(tensor.dim() - 1), 0);
  padding.back() = length - tensor.size(1);
  return padding.back() == 0 ? tensor : at::constant_pad_nd(tensor, padding, value);
}

}  // namespace

std::vector<cp::Run> ContextRanks::runs_of(int64_t rank, int64_t count) const {
  if (!zigzag_) return {{rank * count, count}};
  const int64_t half = count / 2, last = 2 * size() - 1 - rank;
  return {{rank * half, half}, {last * half, half}};
}

int64_t ContextRanks::count(int64_t length) const {
  const int64_t runs = zigzag_ ? 2 : 1, unit = runs * size();
  // Dropout tells a pooled value from positions by the number of rows, which is 1.
  return std::max<int64_t>((length + unit - 1) / unit * runs, 2);
}

Batch ContextRanks::cut(Batch batch) const {
  const bool has_ids = batch.input_ids.defined();
  if (has_ids && !batch.attention_mask.defined() && count(batch.input_ids.size(1)) * size() > batch.input_ids.size(1))
    batch.attention_mask = at::ones_like(batch.input_ids);
  batch.fields([&](std::string_view name, Tensor& tensor) {
    if (!tensor.defined() || name == "pixel_values" || (name == "labels" && !data_.token_labels)) return;
    const int64_t own = count(tensor.size(1));
    const int64_t padding = name == "labels"                                     ? kIgnoredTarget
                            : name == "input_ids" || name == "decoder_input_ids" ? data_.padding_id
                            : name == "documents"                                ? -1
                                                                                 : 0;
    const Tensor whole = padded_to(tensor, own * size(), padding);
    std::vector<Tensor> parts;
    for (const cp::Run& run : runs(own)) parts.push_back(whole.narrow(1, run.begin, run.size));
    tensor = at::cat(parts, 1);
  });
  return batch;
}

Tensor ContextRanks::join_logits(const Tensor& logits, const Batch& batch) {
  const Tensor& tokens = batch.decoder_input_ids.defined()              ? batch.decoder_input_ids
                         : batch.labels.defined() && data_.token_labels ? batch.labels
                                                                        : batch.input_ids;
  return gather(logits, 1).narrow(1, 0, tokens.size(1));
}

Tensor ContextRanks::gather(const Tensor& x, int64_t dim) {
  return OverContext<gather_positions, sum_positions>::apply(x, this, dim);
}

Tensor ContextRanks::sum(const Tensor& partial) { return Sum::apply(partial, this); }

bool ContextRanks::exchanges_heads(int64_t heads, int64_t key_value_heads) const {
  using enum ContextOptions::Attention;
  const bool is_possible = heads % size() == 0 && key_value_heads % size() == 0;
  if (attention_ != all_to_all)
    // Elements sent in forward and backward: (heads + key_value_heads) / size by exchange, key_value_heads by
    // gathering.
    return attention_ == automatic && is_possible && heads + key_value_heads <= size() * key_value_heads;
  if (!is_possible)
    throw std::runtime_error(
        fmt::format("parallel.cp_attention is all-to-all, but cp = {} does not divide {} heads and {} key/value heads "
                    "of a rank: use all-gather",
                    size(), heads, key_value_heads));
  return true;
}

Tensor ContextRanks::to_heads(const Tensor& x) {
  return OverContext<positions_to_slices, slices_to_positions>::apply(x, this, int64_t{2}, int64_t{1});
}

Tensor ContextRanks::to_positions(const Tensor& x) {
  return OverContext<slices_to_positions, positions_to_slices>::apply(x, this, int64_t{1}, int64_t{2});
}

ContextOptions::Layout to_context_layout(std::string_view name) {
  using enum ContextOptions::Layout;
  return name == "contiguous" ? contiguous : name == "zigzag" ? zigzag : automatic;
}

ContextOptions::Attention to_context_attention(std::string_view name) {
  using enum ContextOptions::Attention;
  return name == "all-gather" ? all_gather : name == "all-to-all" ? all_to_all : automatic;
}

bool is_zigzag(const Entry& entry, ContextOptions::Layout layout) {
  using enum ContextOptions::Layout;
  if (layout != automatic) return layout == zigzag;
  return find_task(entry.task)->targets == next_tokens;
}

std::string context_error(const Entry& entry, int64_t ranks) {
  if (ranks == 1 || entry.plan->context_error.empty()) return {};
  return fmt::format("cp = {}, but {} cannot divide its sequences: {}; set parallel.cp to 1", ranks, entry.architecture,
                     entry.plan->context_error);
}

}  // namespace modular
