// The prelude of the modular spec language (docs/reference/language.md). Specs include it; programs do not.
#pragma once

#include "runtime/model/model.h"
#include "runtime/model/one_of.h"

#ifdef __clang__
/// Base of the annotations below.
#define MODULAR_ANNOTATE(...) [[clang::annotate(__VA_ARGS__)]]
#else
#define MODULAR_ANNOTATE(...)
#endif

// ---- Families ----

/// Sets the family's class prefix. Its snake-case name is the file's name. Spellings that do not follow from these two
/// are fields of FamilyNames after the prefix: MODULAR_FAMILY(MetaClip2, .title = "CLIP").
#define MODULAR_FAMILY(prefix_, ...)                                                                     \
  MODULAR_ANNOTATE("modular.family")                                                                     \
  inline constexpr ::modular::FamilyNames modular_family{.prefix = #prefix_ __VA_OPT__(, ) __VA_ARGS__}; \
  template <class Base>                                                                                  \
  using Its = Base

namespace modular {

/// Spellings of a family's name.
struct FamilyNames {
  const char* prefix;                // class prefix
  const char* title = nullptr;       // in comments and messages; the prefix when not given
  const char* upper = nullptr;       // in constants like CLIP_MAX; the snake-case name in capitals when not given
  const char* model_type = nullptr;  // in strings; the snake-case name when not given
  struct Member {
    const char* from;  // an inherited member, or "Class::member" for the member of one class
    const char* to;
  };
  Member members[16] = {};  // inherited members (and state-dict names) that this family renames
};

/// Base of a root family's config. A config converts to every other config, because configs are duck-typed: modgen
/// checks the fields.
struct Config {
  template <class Other>
    requires std::is_base_of_v<Config, Other>
  operator const Other&() const;
};

/// Removes an inherited field in a constructor, which creates it again later.
template <class Member>
void remove(Member& member);

/// In a constructor, `q_proj = remake(q_proj, linear(…));`: replaces the inherited member with a new one, registered
/// under the same name.
template <class Member, class Made>
  requires std::is_assignable_v<Member&, Made>
std::remove_cvref_t<Made> remake(Member& member, Made&& made);

/// As a base, `class XImpl : public Both<alpha::YImpl, beta::ZImpl>`, of two classes that derive from a common one:
/// applies Z's changes of the common base on top of Y.
template <class Under, class Over>
using Both = Over;

/// Instead of a base's arguments, `: YImpl(skip_to<YImpl, GrandImpl>(args…))`: runs the constructor of GrandImpl, from
/// which YImpl derives, and none in between.
template <class Base, class Ancestor, class... Arguments>
  requires std::is_base_of_v<Ancestor, Base> && std::is_constructible_v<Ancestor, Arguments...>
Base&& skip_to(Arguments&&... arguments);

/// A super call's result in the family's own type; removed by flattening.
template <class Own, class Inherited>
Own own(Inherited&& value);

/// The holder of a class that is declared later. `modgen --compile-commands` lets editors read these before a spec that
/// omits TORCH_MODULE: libtorch's own holder requires the class at its declaration.
template <class Contained>
class EarlyHolder : public torch::nn::ModuleHolder<Contained> {
 public:
  using torch::nn::ModuleHolder<Contained>::ModuleHolder;
  using Impl = Contained;
  template <class... Arguments, class Held = Contained>
  auto operator()(Arguments&&... arguments)
      -> decltype(std::declval<Held&>().forward(std::forward<Arguments>(arguments)...));
};

}  // namespace modular

// ---- Class annotations ----

/// A model that the runtime can train: a task of runtime/model/tasks.h and, if it differs from the C++ class's name,
/// the name of the class in config.json. Never inherited.
#define MODEL_ENTRY(...) MODULAR_ANNOTATE("modular.entry", __VA_ARGS__)
/// One all-gather and reduce-scatter group, and the default unit of recomputation.
#define FSDP_UNIT MODULAR_ANNOTATE("modular.fsdp_unit")
/// Names the class that this one replaces, if the name alone does not.
#define STANDS_FOR(...) MODULAR_ANNOTATE("modular.stands_for", sizeof(__VA_ARGS__))

// ---- Member annotations ----

/// On a method or field: an error unless it replaces an inherited one.
#define REPLACES MODULAR_ANNOTATE("modular.replaces")

// ---- Tensor-parallel annotations ----

/// A linear layer split by output feature.
#define TP_COLWISE MODULAR_ANNOTATE("modular.tp_colwise")
/// A linear layer split by input feature.
#define TP_ROWWISE MODULAR_ANNOTATE("modular.tp_rowwise")
/// A fused linear layer, split by output feature within each part: TP_COLWISE_PARTS(num_heads * head_dim, …). A part is
/// a product of earlier members, of fields of `config` and of numbers.
#define TP_COLWISE_PARTS(...) MODULAR_ANNOTATE("modular.tp_colwise_parts", sizeof(__VA_ARGS__))
/// A raw parameter or an embedding, split along a dimension, within parts if parts are given: TP_SHARD(1).
#define TP_SHARD(...) MODULAR_ANNOTATE("modular.tp_shard", sizeof(__VA_ARGS__))
/// A raw parameter split along a dimension that matmuls sum over: TP_REDUCE(1). The results of those are summed over
/// the ranks, like those of a TP_ROWWISE layer.
#define TP_REDUCE(...) MODULAR_ANNOTATE("modular.tp_reduce", sizeof(__VA_ARGS__))
/// An embedding or output projection split by vocabulary.
#define TP_VOCAB MODULAR_ANNOTATE("modular.tp_vocab")
/// A count that is split over the ranks: reads in forward are local.
#define TP_LOCAL MODULAR_ANNOTATE("modular.tp_local")
/// Drops an inherited tensor-parallel annotation.
#define TP_NONE MODULAR_ANNOTATE("modular.tp_none")

// ---- Pipeline annotations ----

/// Only in the first stage; in a stack, in the stage that begins it.
#define PP_FIRST MODULAR_ANNOTATE("modular.pp_first")
/// The list that may be cut between its elements. A model whose lists are in one PP_FIRST and one PP_LAST module is cut
/// within these two stacks if they are PP_SPLIT, and between them.
#define PP_SPLIT MODULAR_ANNOTATE("modular.pp_split")
/// Only in the last stage; in a stack, in the stage that ends it.
#define PP_LAST MODULAR_ANNOTATE("modular.pp_last")
/// In every stage, each with a part of its gradient.
#define PP_ALL MODULAR_ANNOTATE("modular.pp_all")

/// Shares the parameter `other` of this class's members if `config.tie_word_embeddings` is set.
#define TIED_TO(other) MODULAR_ANNOTATE("modular.tied_to", sizeof(other))
/// The same for a parameter inside the marked module other than its weight: TIES(HeadImpl::decoder->weight, other).
#define TIES(inner, other) MODULAR_ANNOTATE("modular.ties", sizeof(inner), sizeof(other))
