// The annotations of specs, which modular/modular.h defines as macros: what each may mark, and what messages say.
#pragma once

#include <string_view>

namespace modgen {

enum class AnnotationKind {
  none,  // no annotation, or one that modular/modular.h does not define
  family,
  entry,
  fsdp_unit,
  stands_for,
  replaces,
  tp_colwise,
  tp_rowwise,
  tp_colwise_parts,
  tp_shard,
  tp_reduce,
  tp_vocab,
  tp_local,
  tp_none,
  pp_first,
  pp_split,
  pp_last,
  pp_all,
  tied_to,
  ties,
};

/// Kinds of declarations, as flags: a declaration may be of several kinds.
enum Marked : unsigned {
  kLinear = 1,
  kEmbedding = 2,
  kParameter = 4,
  kInteger = 8,
  kModule = 16,
  kModuleList = 32,
  kModuleClass = 64,
  kAnything = ~0u,
};

struct AnnotationInfo {
  AnnotationKind kind;
  std::string_view name;   // in Clang's attribute, after "modular."
  std::string_view macro;  // as specs write it
  unsigned marks;          // the declarations that it fits
  std::string_view fits;   // the same in words: "it can mark …"
};

const AnnotationInfo& annotation_info(AnnotationKind kind);

/// The kind of Clang's attribute `text`, "modular.tp_colwise".
AnnotationKind annotation_kind(std::string_view text);

/// Whether the annotation says how tensor parallelism splits, or in which pipeline stages a member is.
bool is_tensor_parallel(AnnotationKind kind);
bool is_stage(AnnotationKind kind);

/// Whether a declaration with `one` does not inherit `other`.
bool replaces_inherited(AnnotationKind one, AnnotationKind other);

}  // namespace modgen
