#include "generator/source/annotations.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace modgen {
namespace {

// In the order of the enumeration.
constexpr auto kAnnotations = [] {
  using enum AnnotationKind;
  return std::to_array<AnnotationInfo>({
      {none, "", "", kAnything, ""},
      {family, "family", "MODULAR_FAMILY", kAnything, "a namespace"},
      {entry, "entry", "MODEL_ENTRY", kModuleClass, "a module class"},
      {fsdp_unit, "fsdp_unit", "FSDP_UNIT", kModuleClass, "a module class"},
      {stands_for, "stands_for", "STANDS_FOR", kAnything, "a class"},
      {replaces, "replaces", "REPLACES", kAnything, "a member"},
      {tp_colwise, "tp_colwise", "TP_COLWISE", kLinear, "a linear layer"},
      {tp_rowwise, "tp_rowwise", "TP_ROWWISE", kLinear, "a linear layer"},
      {tp_colwise_parts, "tp_colwise_parts", "TP_COLWISE_PARTS", kLinear, "a linear layer"},
      {tp_shard, "tp_shard", "TP_SHARD", kEmbedding | kParameter, "an embedding or a parameter"},
      {tp_reduce, "tp_reduce", "TP_REDUCE", kParameter, "a parameter"},
      {tp_vocab, "tp_vocab", "TP_VOCAB", kLinear | kEmbedding | kParameter,
       "an embedding, a linear layer or a parameter"},
      {tp_local, "tp_local", "TP_LOCAL", kInteger, "an integer field"},
      {tp_none, "tp_none", "TP_NONE", kAnything, "a member"},
      {pp_first, "pp_first", "PP_FIRST", kModule | kParameter, "a module or a parameter"},
      {pp_split, "pp_split", "PP_SPLIT", kModuleList, "a ModuleListOf"},
      {pp_last, "pp_last", "PP_LAST", kModule | kParameter, "a module or a parameter"},
      {pp_all, "pp_all", "PP_ALL", kModule | kParameter, "a module or a parameter"},
      {tied_to, "tied_to", "TIED_TO", kLinear | kEmbedding | kParameter, "a linear layer, an embedding or a parameter"},
      {ties, "ties", "TIES", kModule, "a module"},
  });
}();
static_assert(kAnnotations.size() == static_cast<size_t>(AnnotationKind::ties) + 1);

}  // namespace

const AnnotationInfo& annotation_info(AnnotationKind kind) { return kAnnotations[static_cast<size_t>(kind)]; }

AnnotationKind annotation_kind(std::string_view text) {
  constexpr std::string_view kPrefix = "modular.";
  if (!text.starts_with(kPrefix)) return AnnotationKind::none;
  const auto found = std::ranges::find(kAnnotations, text.substr(kPrefix.size()), &AnnotationInfo::name);
  return found == kAnnotations.end() ? AnnotationKind::none : found->kind;
}

bool is_tensor_parallel(AnnotationKind kind) {
  return kind >= AnnotationKind::tp_colwise && kind <= AnnotationKind::tp_none;
}

bool is_stage(AnnotationKind kind) { return kind >= AnnotationKind::pp_first && kind <= AnnotationKind::pp_all; }

bool replaces_inherited(AnnotationKind one, AnnotationKind other) {
  return one == other || (is_tensor_parallel(one) && is_tensor_parallel(other)) || (is_stage(one) && is_stage(other));
}

}  // namespace modgen
