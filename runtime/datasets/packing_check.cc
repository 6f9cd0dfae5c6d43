#include "runtime/datasets/packing_check.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>

#include "runtime/datasets/data_sets.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/parallel/parameters/meta_construction.h"

namespace modular {
namespace {

// The shapes of what models compute before they look at documents, and of which libtorch does not tell them by itself
// on the meta device.
at::Tensor abs_on_meta(const at::Tensor& input) { return at::empty_like(input); }

at::Tensor where_on_meta(const at::Tensor& condition, const at::Tensor& one, const at::Tensor& other) {
  const auto shape = at::infer_size(at::infer_size(condition.sizes(), one.sizes()), other.sizes());
  return at::empty(shape, one.options().dtype(at::result_type(one, other)));
}

at::Tensor index_select_on_meta(const at::Tensor& from, int64_t dim, const at::Tensor& index) {
  auto shape = from.sizes().vec();
  shape.at(static_cast<size_t>(at::maybe_wrap_dim(dim, from.dim()))) = index.numel();
  return at::empty(shape, from.options());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_on_meta(const at::Tensor& input, c10::SymIntArrayRef shape,
                                                                  const std::optional<at::Tensor>& /*weight*/,
                                                                  const std::optional<at::Tensor>& /*bias*/,
                                                                  double /*eps*/) {
  auto of_mean = input.sizes().vec();
  std::fill(of_mean.end() - static_cast<std::ptrdiff_t>(shape.size()), of_mean.end(), 1);
  return {at::empty_like(input), at::empty(of_mean, input.options()), at::empty(of_mean, input.options())};
}

TORCH_LIBRARY_IMPL(aten, Meta, library) {
  library.impl("abs", &abs_on_meta);
  library.impl("where.self", &where_on_meta);
  library.impl("index_select", &index_select_on_meta);
  library.impl("native_layer_norm", &layer_norm_on_meta);
}

bool has_state_spaces(const Model& model) {
  return std::ranges::any_of(model.module->named_parameters(),
                             [](const auto& parameter) { return parameter.key().ends_with("A_log"); });
}

/// Whether the model's attention reads which document a token is of. It rejects documents of another shape than the
/// tokens', which shows on the meta device, where no tensor has values.
bool tells_documents_apart(Model& model) {
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kLong);
  Batch batch;
  batch.input_ids = at::empty({1, 2}, options);
  batch.documents = at::empty({1, 3}, options);
  const at::NoGradGuard no_grad;
  try {
    model.forward(batch);
  } catch (const c10::Error& error) {
    return std::string_view(error.what()).find("documents of shape") != std::string_view::npos;
  }
  return false;
}

}  // namespace

PackingError packing_error(const RunConfig& config) {
  if (!config.data.pack) return {};
  if (config.reads("examples") || config.reads("parquet"))
    return {
        "data.pack",
        fmt::format("data.pack is for texts, and data.format is \"{}\", whose rows are as their files say: leave it "
                    "out",
                    config.reads("examples") ? "examples" : "parquet")};
  if (const int64_t ids = vocab_size(config.network); config.data.end_of_text >= ids)
    return {"data.end_of_text", fmt::format("data.end_of_text is {}, and model.config.vocab_size {}: no token ends a "
                                            "document, give the id of one that does",
                                            config.data.end_of_text, ids)};
  Model model = build_on_meta(*config.network.entry, *config.network.config);
  const char* const fault = has_state_spaces(model) ? "states continue from one document of a row into the next"
                            : !tells_documents_apart(model)
                                ? "attention is not known to keep the documents of a row apart"
                                : nullptr;
  if (!fault) return {};
  return {"data.pack", fmt::format("data.pack is for models that read each document as if it were alone, and {}'s {}: "
                                   "leave it out, or train another model",
                                   config.network.entry->architecture, fault)};
}

}  // namespace modular
