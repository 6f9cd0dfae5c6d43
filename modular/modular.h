// The prelude of the modular spec language (docs/reference/language.md). Specs include it; no program does.
#pragma once

#include "runtime/model/model.h"
#include "runtime/model/one_of.h"

#ifdef __clang__
/// What the annotations below are made of.
#define MODULAR_ANNOTATE(...) [[clang::annotate(__VA_ARGS__)]]
#else
#define MODULAR_ANNOTATE(...)
#endif

// ---- Families ----

/// Names the family's class prefix; its snake-case name is the file's. Spellings that do not follow from these two are
/// given after it, as fields of FamilyNames: MODULAR_FAMILY(MetaClip2, .title = "CLIP").
#define MODULAR_FAMILY(prefix_, ...)                                                                     \
  MODULAR_ANNOTATE("modular.family")                                                                     \
  inline constexpr ::modular::FamilyNames modular_family{.prefix = #prefix_ __VA_OPT__(, ) __VA_ARGS__}; \
  template <class Base>                                                                                  \
  using Its = Base

namespace modular {

/// How a family is spelled.
struct FamilyNames {
  const char* prefix;                // of its classes
  const char* title = nullptr;       // in comments and messages; the prefix when not given
  const char* upper = nullptr;       // in constants like CLIP_MAX; the snake-case name in capitals when not given
  const char* model_type = nullptr;  // in strings; the snake-case name when not given
  struct Member {
    const char* from;  // an inherited member, or "Class::member" for that of one class
    const char* to;
  };
  Member members[16] = {};  // inherited members, and so names in the state dict, that this family calls otherwise
};

/// Base of a root family's config. A config converts to every other config, as configs are duck-typed: modgen checks
/// the fields.
struct Config {
  template <class Other>
    requires std::is_base_of_v<Config, Other>
  operator const Other&() const;
};

/// Removes an inherited field in a constructor that creates it again afterwards.
template <class Member>
void remove(Member& member);

/// In a constructor, `q_proj = remake(q_proj, linear(…));`: registers what is made under the name that the inherited
/// member has, in the place of what the base's constructor makes.
template <class Member, class Made>
  requires std::is_assignable_v<Member&, Made>
std::remove_cvref_t<Made> remake(Member& member, Made&& made);

/// In the place of a base, `class XImpl : public Both<alpha::YImpl, beta::ZImpl>`, of two classes that derive from one:
/// what Z changes of that one is laid over Y.
template <class Under, class Over>
using Both = Over;

/// In the place of a base's arguments, `: YImpl(skip_to<YImpl, GrandImpl>(args…))`: runs the constructor of GrandImpl,
/// from which YImpl derives, and none in between.
template <class Base, class Ancestor, class... Arguments>
  requires std::is_base_of_v<Ancestor, Base> && std::is_constructible_v<Ancestor, Arguments...>
Base&& skip_to(Arguments&&... arguments);

/// A super call's result in the family's own type; vanishes when flattened.
template <class Own, class Inherited>
Own own(Inherited&& value);

/// The holder of a class that is declared later. `modgen --compile-commands` lets editors read these before a spec that
/// leaves TORCH_MODULE out: libtorch's own asks for the class when it is declared.
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

// ---- What a class is ----

/// What the runtime can train: a task of runtime/model/tasks.h, and the name of the class in config.json where it is
/// not the C++ class's. Never inherited.
#define MODEL_ENTRY(...) MODULAR_ANNOTATE("modular.entry", __VA_ARGS__)
/// One all-gather and reduce-scatter group, and the default unit of recomputation.
#define FSDP_UNIT MODULAR_ANNOTATE("modular.fsdp_unit")
/// Says which class this one replaces, where the name does not.
#define STANDS_FOR(...) MODULAR_ANNOTATE("modular.stands_for", sizeof(__VA_ARGS__))

// ---- What a member is ----

/// On a method or a field: it replaces an inherited one, or is rejected.
#define REPLACES MODULAR_ANNOTATE("modular.replaces")

// ---- How a member is split over tensor-parallel ranks ----

/// A linear layer split by output feature.
#define TP_COLWISE MODULAR_ANNOTATE("modular.tp_colwise")
/// A linear layer split by input feature.
#define TP_ROWWISE MODULAR_ANNOTATE("modular.tp_rowwise")
/// A fused linear layer, split by output feature within each part: TP_COLWISE_PARTS(num_heads * head_dim, …). A part is
/// a product of earlier members, of fields of `config` and of numbers.
#define TP_COLWISE_PARTS(...) MODULAR_ANNOTATE("modular.tp_colwise_parts", sizeof(__VA_ARGS__))
/// A raw parameter or an embedding, split along a dimension, within parts where some are named: TP_SHARD(1).
#define TP_SHARD(...) MODULAR_ANNOTATE("modular.tp_shard", sizeof(__VA_ARGS__))
/// An embedding or output projection split by vocabulary.
#define TP_VOCAB MODULAR_ANNOTATE("modular.tp_vocab")
/// A count of which a rank holds its share: reads in forward are local.
#define TP_LOCAL MODULAR_ANNOTATE("modular.tp_local")
/// Drops an inherited tensor-parallel annotation.
#define TP_NONE MODULAR_ANNOTATE("modular.tp_none")

// ---- Where a member is in the pipeline ----

/// Only in the first stage; of a tower, in the one that begins it.
#define PP_FIRST MODULAR_ANNOTATE("modular.pp_first")
/// The list that may be cut between its elements. A model whose lists are in one PP_FIRST and one PP_LAST module is cut
/// within these two towers where they are PP_SPLIT, and between them.
#define PP_SPLIT MODULAR_ANNOTATE("modular.pp_split")
/// Only in the last stage; of a tower, in the one that ends it.
#define PP_LAST MODULAR_ANNOTATE("modular.pp_last")
/// In every stage, each of which has a part of its gradient.
#define PP_ALL MODULAR_ANNOTATE("modular.pp_all")

/// Shares the parameter `other` of this class's members where `config.tie_word_embeddings` says so.
#define TIED_TO(other) MODULAR_ANNOTATE("modular.tied_to", sizeof(other))
/// The same for a parameter inside of the marked module that is not its weight: TIES(HeadImpl::decoder->weight, other).
#define TIES(inner, other) MODULAR_ANNOTATE("modular.ties", sizeof(inner), sizeof(other))
