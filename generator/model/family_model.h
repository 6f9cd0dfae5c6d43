// A family as the stages of modgen hand it on. It holds no Clang pointer: text with edits, structure as plain values.
//
// flatten writes each family as a spec without inheritance; that text is parsed once more and this model is filled from
// that second parse. So every span lies in the one flattened text, where super calls are gone, names are the family's
// own, inherited annotations are with the members and every class derives from libtorch or the prelude alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "generator/model/body.h"

namespace modgen {

/// A verbatim slice of a source file with its edits.
struct Text {
  SourceSpan slice;
  std::vector<Edit> edits;
};

/// An annotation on a class or member: "fsdp_unit", "tp_colwise", "tied_to", … (the prelude's names without
/// "modular.").
struct Annotation {
  std::string kind;
  std::vector<std::string> arguments;  // source text of expressions, resolved and renamed; contents of string literals
  SourceSpan where;                    // in the spec that gave it
};

/// A data member that is not static.
struct Field {
  /// Whether modules are in it: by a holder (TORCH_MODULE, ModuleListOf, OneOf), or in another way.
  enum class Modules { none, by_holder, otherwise };
  std::string name;
  std::string
      type;  // as written, renamed to this family, e.g. "nn::Linear", "ModuleListOf<GemmaDecoderLayer>", "int64_t"
  std::string canonical;  // without const and reference: "torch::nn::Linear", "modular::gemma::GemmaMLP", "long"
  Modules modules = Modules::none;
  bool is_const = false;  // or a reference
  bool varies = false;    // it is set more than once, or otherwise than by `=` or an initializer of a constructor
  std::string
      registered_as;  // the name that register_module or register_parameter gave it in the constructor, or empty
  std::vector<Annotation> annotations;
  SourceSpan where;
  Text text;  // the whole declaration with its comments, annotations removed
};

/// A method, constructor or free function.
struct Function {
  std::string name;
  std::string signature;  // tells it from all others: qualified name, the types of its parameters, a method's const
  bool is_constructor = false;
  bool is_static = false;    // a method without an object
  bool is_const = false;     // a method that cannot change its object
  bool is_template = false;  // it stands for what is made of it
  bool is_instance = false;  // made of a template, whose text it shares
  bool is_reference_qualified = false;
  bool deduces_result = false;        // `auto` without a type after its parameters
  bool has_trailing_result = false;   // its type follows its parameters
  std::string return_type;            // as written, also where it follows the parameters
  std::string result;                 // its canonical type: "at::Tensor", "void"
  bool result_hides_tensors = false;  // as Parameter::hides_tensors
  std::vector<Parameter> parameters;
  SourceSpan parameter_list;  // with its parentheses
  Body body;                  // what weaving reads; spans lie inside the slices of `text`
  SourceSpan where;           // of the name
  std::vector<Text>
      text;  // printed one after the other: signature and body, composed of one slice or several (inlined super calls)
  // What weaving adds: statements before the constructor's closing brace; a method before this one (the wrapper
  // `forward` of a unit, whose body becomes `forward_unit`); one after it (its form for values that are split).
  std::vector<std::string> appended_statements;
  std::string method_before;
  std::string method_after;
};

struct Class {
  std::string name;    // "GemmaMLPImpl"
  std::string holder;  // "GemmaMLP", by TORCH_MODULE; empty for configs and plain classes
  bool is_config = false;
  bool runs_unseen = false;  // code of its own, or of a member's, runs where an object is copied or ends
  std::vector<std::string> library_modules;  // that it derives from, but for Module: "modular::LayerNormImpl"
  std::vector<Annotation> annotations;
  std::vector<Field> fields;        // in the order of the file
  std::vector<Function> functions;  // in the order of the file, constructors among them
  SourceSpan where;
};

/// What the parallel plan of one entry says; printed into the generated file and by --emit plan.
struct EntryPlan {
  std::string entry;         // holder, "GemmaForCausalLM"
  std::string architecture;  // the same, or what MODEL_ENTRY says it is called in config.json
  std::string task;          // "causal-lm"
  std::string config;        // "GemmaConfig"
  struct Split {
    std::string parameter;
    int64_t dim;
    std::vector<std::string> parts;  // of that dimension, as products of config fields; empty where it is split as one
  };
  struct Tie {
    std::string parameter, source, flag;
  };
  struct Divides {
    std::string field, axis;
  };
  /// An operation whose type rests on something that modgen does not check.
  struct Trust {
    std::string operation, assumption;
    SourceSpan where;
    std::string place = {};  // "modular/llama.h:97:20", of the spec that holds it
  };
  /// What shard types say of the operations that the entry runs, each counted once for its place in the code.
  struct Proof {
    std::map<std::string, int64_t> by_rule;  // those that meet values which tp ranks hold different parts of, by name
    int64_t alike = 0;                       // those whose operands are the same on every rank, and so is the result
    std::vector<Trust> trusted;
  };
  /// What a pipeline stage hands to the next.
  struct StageCut {
    std::string list;                // that is cut; empty between towers
    std::string carried;             // the variable
    std::vector<std::string> shape;  // "batch", "seq", products of config fields; "?" where a size is not known
  };
  /// What stages are cut between, and what only the stages at its ends hold.
  struct Stack {
    std::string split_list;
    std::vector<std::string> first, last;
  };
  std::vector<std::string> units;
  std::vector<Split> tensor_splits;
  std::vector<Tie> ties;
  std::vector<Stack> stacks;            // none where pipelines cannot cut it, else one or two
  std::vector<std::string> everywhere;  // what every stage holds of what is in them
  std::vector<Divides> divides;
  std::vector<StageCut> cuts;
  Proof proof;
};

struct FamilyModel {
  std::string name;                      // "gemma"
  std::string prefix;                    // "Gemma"
  std::string model_type;                // "gemma", as in config.json
  std::string text;                      // the flattened text, which all spans index
  uint32_t file = 0;                     // its index in spans
  std::vector<Class> classes;            // dependencies first
  std::vector<Function> functions;       // free functions
  std::vector<Function> instances;       // what the family's code makes of its function templates, methods as well
  std::vector<std::string> known_tasks;  // what the contract can train
  // Types that the contract can read from a config: canonical, and as it writes them.
  std::vector<std::pair<std::string, std::string>> config_field_types;
  std::vector<EntryPlan> plans;  // filled by weave
  std::vector<Edit> edits;  // of what is not a member: class annotations, config bases, visitors over config fields
};

}  // namespace modgen
