// A family as it is passed between modgen's stages. It holds text with edits and structure as plain values, without
// Clang pointers.
//
// flatten writes each family as a spec without inheritance. That text is parsed again, and this model is filled from
// the second parse. So every span refers to the flattened text, which has no super calls, uses the family's own names,
// keeps inherited annotations on the members, and derives every class from libtorch or the prelude only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/model/body.h"
#include "generator/source/annotations.h"

namespace modgen {

/// A verbatim slice of a source file with its edits.
struct Text {
  SourceSpan slice;
  std::vector<Edit> edits;
};

/// An annotation on a class or member.
struct Annotation {
  AnnotationKind kind = AnnotationKind::none;
  std::vector<std::string> arguments;  // source text of expressions, resolved and renamed; contents of string literals
  SourceSpan where;                    // position in the spec that defines it
};

/// A non-static data member.
struct Field {
  /// Whether it contains modules: in a holder (TORCH_MODULE, ModuleListOf, OneOf), or in another way.
  enum class Modules { none, by_holder, otherwise };
  std::string name;
  std::string
      type;  // as written, renamed to this family, e.g. "nn::Linear", "ModuleListOf<GemmaDecoderLayer>", "int64_t"
  std::string canonical;  // without const and reference: "torch::nn::Linear", "modular::gemma::GemmaMLP", "long"
  Modules modules = Modules::none;
  bool is_plain = false;               // made of numbers, strings and the like alone
  bool is_const = false;               // const or a reference
  bool varies = false;                 // it is not set once, by an initializer or a certain `=` in a constructor
  std::optional<int64_t> least, most;  // limits of a config field's numbers, which weaving derives
  std::string registered_as;  // the name passed to register_module or register_parameter in the constructor, or empty
  bool is_initially_shared = false;  // its default member initializer names another member, or `this`
  std::shared_ptr<Expr> initial;     // that initializer; null for others
  std::vector<Annotation> annotations;
  SourceSpan where;
  Text text;  // the full declaration with its comments, annotations removed
};

/// A method, constructor or free function.
struct Function {
  std::string name;
  std::string signature;  // unique identity: qualified name, parameter types, a method's const
  bool is_constructor = false;
  bool is_static = false;    // a method without an object
  bool is_const = false;     // a method that cannot change its object
  bool is_virtual = false;   // a method that another one may override
  bool is_template = false;  // represents all its instances
  bool is_instance = false;  // an instance of a template, whose text it shares
  bool is_inner = false;  // of an inner class, a friend, or defined after its class: nothing is inserted into its text
  bool is_reference_qualified = false;
  bool deduces_result = false;        // `auto` without a trailing return type
  bool has_trailing_result = false;   // trailing return type
  std::string return_type;            // as written, even if trailing
  std::string result;                 // its canonical type: "at::Tensor", "void"
  bool result_hides_tensors = false;  // as Parameter::hides_tensors
  std::vector<Parameter> parameters;
  SourceSpan parameter_list;  // with its parentheses
  Body body;                  // the body that weaving reads; its spans are inside the slices of `text`
  SourceSpan where;           // position of the name
  std::vector<Text> text;     // signature and body, printed in order: one slice, or several (inlined super calls)
  // Added by weaving: statements before the constructor's closing brace; a method before this one (the wrapper
  // `forward` of a unit, whose body becomes `forward_unit`); a method after it (its overload for split values).
  std::vector<std::string> appended_statements;
  std::string method_before;
  std::string method_after;
};

struct Class {
  std::string name;    // "GemmaMLPImpl"
  std::string holder;  // "GemmaMLP", defined by TORCH_MODULE; empty for configs and plain classes
  bool is_config = false;
  bool runs_unseen = false;                  // it or a member has a user-defined copy constructor or destructor
  SourceSpan visitor;                        // configs: replaced by the method that lists the fields
  std::string ambiguous_field = {};          // inner classes: a name that several fields of it and its bases have
  std::vector<std::string> library_modules;  // library module bases except Module: "modular::LayerNormImpl"
  std::vector<Annotation> annotations;
  std::vector<Field> fields;        // in file order
  std::vector<Function> functions;  // in file order, including constructors
  SourceSpan where;
};

/// The parallel plan of one entry, printed into the generated file and by --emit plan.
struct EntryPlan {
  std::string entry;         // holder, "GemmaForCausalLM"
  std::string architecture;  // the same, or the name in config.json that MODEL_ENTRY gives
  std::string task;          // "causal-lm"
  std::string config;        // "GemmaConfig"
  struct Split {
    std::string parameter;
    int64_t dim;
    std::vector<std::string> parts;  // parts of that dimension, as products of config fields; empty if split as one
    bool operator==(const Split&) const = default;
  };
  struct Tie {
    std::string parameter, source, flag;
    bool operator==(const Tie&) const = default;
  };
  struct Divides {
    std::string field, axis;
    std::string otherwise = {};  // as in the runtime's Divides; empty for an error
    bool operator==(const Divides&) const = default;
  };
  struct Experts {
    std::string parameter, chosen;
    bool operator==(const Experts&) const = default;
  };
  /// An operation whose type depends on an assumption that modgen does not check.
  struct Trust {
    std::string operation, assumption;
    SourceSpan where;
    std::string location = {};  // location in the spec: "modular/llama.h:97:20"
  };
  /// How the shard types of the operations that the entry runs were derived. Each is counted once per location in the
  /// code.
  struct Proof {
    std::map<std::string, int64_t> by_rule;  // operations on values that differ between tp ranks, by name
    int64_t alike = 0;                       // operations whose operands and result are the same on every rank
    std::vector<Trust> trusted;
    // Config fields with counts of which each head or group serves several others, so that ranks can hold the same one.
    std::set<std::string> shared_counts = {};
    // Why the entry cannot run on parts of the positions: `operation` is sequence or context parallelism.
    std::vector<Trust> obstacles = {};
  };
  /// The value that a pipeline stage passes to the next.
  struct StageCut {
    std::string list;                // the list that is cut; empty between stacks
    std::string carried;             // the variable
    std::vector<std::string> shape;  // "batch", "seq", products of config fields; "?" for unknown sizes
  };
  /// A stack of layers that stages divide, and the modules that only its first and last stage hold.
  struct Stack {
    std::string split_list;
    std::vector<std::string> first, last;
    bool operator==(const Stack&) const = default;
  };
  std::vector<std::string> units;
  std::vector<Split> tensor_splits;
  std::vector<Tie> ties;
  std::vector<Stack> stacks;            // empty if pipelines cannot cut the entry, else one or two
  std::vector<std::string> everywhere;  // modules in the stacks that every stage holds
  std::vector<Divides> divides;
  std::vector<Experts> experts;
  std::vector<std::string> rates, tables;
  // Lists whose layers can run on a part of the positions, and the parameters of whose gradients each tp rank then has
  // a part.
  std::vector<std::string> sequence, partial_in_sequence;
  bool uncached = false;      // it looks along the sequence other than through functions that know the cache
  std::string context_error;  // why context-parallel ranks cannot divide its sequences; empty if they can
  bool full_loss = false;     // context-parallel ranks compute the same loss
  std::vector<StageCut> cuts;
  Proof proof;
};

/// A task that entries can be trained for (runtime/model/tasks.h).
struct KnownTask {
  std::string name;
  bool has_row_labels = false;  // one label per row of the batch instead of one per token
  bool is_cached = false;       // a forward can continue from a cache
  bool compares_texts = false;  // the runtime compares rows, with those of other ranks, too
};

struct FamilyModel {
  std::string name;                    // "gemma"
  std::string prefix;                  // "Gemma"
  std::string model_type;              // "gemma", as in config.json
  std::string text;                    // the flattened text that all spans refer to
  uint32_t file = 0;                   // its index in spans
  std::vector<Class> classes;          // dependencies first
  std::vector<Class> inner_classes;    // those inside classes and functions: "GemmaMLPImpl::State"
  std::vector<Function> functions;     // free functions
  std::vector<Function> friends;       // functions that are defined as friends in a class
  std::vector<Function> instances;     // instances of the family's function and method templates
  std::vector<KnownTask> known_tasks;  // tasks that the contract can train
  // Types that the contract can read from a config: canonical, and as written in the contract.
  std::vector<std::pair<std::string, std::string>> config_field_types;
  std::vector<EntryPlan> plans;         // filled by weave
  std::vector<EntryPlan> member_plans;  // of the classes that entries hold as members, which have no proof of their own
  std::vector<Edit> edits;  // edits outside of members: class annotations, config bases, visitors over config fields
};

/// Sets `varies` of the fields of classes whose functions have been read, and of their constructors' parameters.
void mark_varying(FamilyModel& family);

}  // namespace modgen
