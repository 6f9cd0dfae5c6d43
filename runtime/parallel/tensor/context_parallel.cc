#include "runtime/parallel/tensor/context_parallel.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/step/dry_run_hooks.h"

namespace modular {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// All positions along `dim` in order, of the ranks' positions `by_rank` [ranks, ...]; `dim` does not count the first
/// dimension.
Tensor in_order(const DealtRuns& dealt, const Tensor& by_rank, int64_t dim) {
  struct Piece {
    int64_t begin;
    Tensor values;
  };
  std::vector<Piece> pieces;
  for (int64_t rank = 0; rank < dealt.ranks; ++rank) {
    int64_t row = 0;
    for (const cp::Run& run : dealt.of(rank, by_rank.size(dim + 1))) {
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
Tensor by_rank(const DealtRuns& dealt, const Tensor& all, int64_t dim) {
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < dealt.ranks; ++rank) {
    std::vector<Tensor> runs;
    for (const cp::Run& run : dealt.of(rank, all.size(dim) / dealt.ranks))
      runs.push_back(all.narrow(dim, run.begin, run.size));
    parts.push_back(at::cat(runs, dim));
  }
  return at::stack(parts);
}

Tensor gather_positions(const ContextRanks& ranks, const DealtRuns& dealt, const Tensor& own, int64_t dim) {
  // Gloo has no collectives of bool.
  if (own.scalar_type() == at::kBool) return gather_positions(ranks, dealt, own.to(at::kByte), dim).to(at::kBool);
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), ranks.size());
  const Tensor all = at::empty(shape, own.options());
  all[ranks.rank()].copy_(own);
  all_gather(ranks.group(), {all}, "the positions of context-parallel ranks").wait();
  return in_order(dealt, all, dim);
}

Tensor sum_positions(const ContextRanks& ranks, const DealtRuns& dealt, const Tensor& partial, int64_t dim) {
  const Tensor terms = by_rank(dealt, partial, dim);
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
Tensor positions_to_slices(const ContextRanks& ranks, const DealtRuns& dealt, const Tensor& x, int64_t positions,
                           int64_t slices) {
  const Tensor by_slice = x.unflatten(slices, {ranks.size(), -1}).movedim(slices, 0);
  return in_order(dealt, exchange(ranks, by_slice, "heads by context-parallel rank"), positions);
}

/// The inverse.
Tensor slices_to_positions(const ContextRanks& ranks, const DealtRuns& dealt, const Tensor& x, int64_t positions,
                           int64_t slices) {
  const Tensor received = exchange(ranks, by_rank(dealt, x, positions), "positions by context-parallel rank");
  return received.movedim(0, slices).flatten(slices, slices + 1).contiguous();
}

/// Applies one of two functions of ranks, their positions, a tensor and dimensions, and the other one to the gradient.
/// Keeps the positions: the backward may run after the forward of another micro-batch.
template <auto forwards, auto backwards>
struct OverContext : torch::autograd::Function<OverContext<forwards, backwards>> {
  template <class... Dimensions>
  static Tensor forward(AutogradContext* context, const Tensor& x, const ContextRanks* ranks, Dimensions... dims) {
    context->saved_data["ranks"] = reinterpret_cast<int64_t>(ranks);
    context->saved_data["dims"] = std::vector<int64_t>{dims...};
    context->saved_data["runs"] = ranks->dealt().numbers;
    return forwards(*ranks, ranks->dealt(), x.detach(), dims...);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto& ranks = *reinterpret_cast<const ContextRanks*>(context->saved_data["ranks"].toInt());
    const std::vector<int64_t> dims = context->saved_data["dims"].toIntVector();
    const DealtRuns dealt{ranks.size(), context->saved_data["runs"].toIntVector()};
    if constexpr (requires { backwards(ranks, dealt, gradients[0], int64_t{}); })
      return {backwards(ranks, dealt, gradients[0], dims[0]), Tensor(), Tensor()};
    else
      return {backwards(ranks, dealt, gradients[0], dims[0], dims[1]), Tensor(), Tensor(), Tensor()};
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

ContextRanks::ContextRanks(ProcessGroup group, ContextOptions::Attention attention, ContextOptions::Layout layout,
                           const ContextData& data)
    : group_(std::move(group)),
      attention_(attention),
      layout_(layout),
      data_(data),
      dealt_(layout == ContextOptions::Layout::contiguous ? contiguous_runs(size()) : zigzag_runs(size())) {}

int64_t ContextRanks::count(int64_t length) const {
  const bool balanced = layout_ == ContextOptions::Layout::balanced;
  return positions_of_rank(length, size(), balanced ? balanced_run_count(length, size()) : dealt_.runs_of_a_rank());
}

DealtRuns ContextRanks::deal(const Batch& batch) const {
  if (layout_ != ContextOptions::Layout::balanced) return dealt_;
  // The sequences of an encoder and a decoder are divided alike, by the number of runs of the shorter one: these are
  // powers of two. Costs are those of input_ids.
  int64_t runs = balanced_run_count(batch.input_ids.size(1), size());
  for (const Tensor& of_decoder : {batch.decoder_input_ids, data_.token_labels ? batch.labels : Tensor()})
    if (of_decoder.defined()) runs = std::min(runs, balanced_run_count(of_decoder.size(1), size()));
  runs *= size();
  const bool has_values = values_are_known && !batch.input_ids.is_meta();
  const std::vector<int64_t> costs =
      has_values ? visible_keys_of_runs(batch, runs, count(batch.input_ids.size(1)) * size(), data_.causal)
                 : std::vector<int64_t>(static_cast<size_t>(runs));
  return balanced_runs(costs, size());
}

Batch ContextRanks::cut(Batch batch, const DealtRuns& runs) const {
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
    for (const cp::Run& run : runs.of(rank(), own)) parts.push_back(whole.narrow(1, run.begin, run.size));
    tensor = at::cat(parts, 1);
  });
  return batch;
}

void ContextRanks::remember(const Batch& batch, const DealtRuns& runs) {
  if (layout_ == ContextOptions::Layout::balanced) of_batches_.emplace_back(batch.leading(), runs);
}

void ContextRanks::before_forward(const Batch& micro_batch, int64_t /*stage*/) {
  if (layout_ != ContextOptions::Layout::balanced) return;
  const auto is_this = [&](const auto& each) { return each.first.is_same(micro_batch.leading()); };
  const auto found = std::ranges::find_if(of_batches_, is_this);
  TORCH_INTERNAL_ASSERT(found != of_batches_.end(), "the forward of a micro-batch that was not cut");
  dealt_ = found->second;
}

std::function<void()> ContextRanks::save_position() {
  if (layout_ != ContextOptions::Layout::balanced) return {};
  return [this, dealt = dealt_] { dealt_ = dealt; };
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
  return name == "contiguous" ? contiguous : name == "zigzag" ? zigzag : name == "balanced" ? balanced : automatic;
}

ContextOptions::Attention to_context_attention(std::string_view name) {
  using enum ContextOptions::Attention;
  return name == "all-gather" ? all_gather : name == "all-to-all" ? all_to_all : automatic;
}

ContextOptions::Layout find_layout(const Entry& entry, ContextOptions::Layout layout) {
  using enum ContextOptions::Layout;
  if (layout != automatic) return layout;
  return find_task(entry.task)->targets == next_tokens ? zigzag : contiguous;
}

std::string context_error(const Entry& entry, int64_t ranks) {
  if (ranks == 1 || entry.plan->context_error.empty()) return {};
  return fmt::format("cp = {}, but {} cannot divide its sequences: {}; set parallel.cp to 1", ranks, entry.architecture,
                     entry.plan->context_error);
}

}  // namespace modular
