// Writes docs/reference/contract.md from the contract's headers, the shard-type rules and the specs in
// docs/examples/contract: contract_page ROOT > docs/reference/contract.md
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "generator/build_config.h"
#include "tests/contract/declarations.h"
#include "tests/contract/examples.h"
#include "tests/contract/shard_rows.h"

namespace contract {
namespace {

constexpr const char* kExamples = "docs/examples/contract/modular";

/// A section of the page, and the headers that it describes.
struct Section {
  const char* title;
  std::vector<const char*> headers;
};
const std::vector<Section>& sections() {
  static const std::vector<Section> all = {
      {"Family declarations and annotations", {"modular/modular.h"}},
      {"Configs", {"runtime/model/config.h"}},
      {"Inputs and outputs", {"runtime/model/tensors.h", "runtime/model/tasks.h"}},
      {"Modules and layers",
       {"runtime/model/module.h", "runtime/model/linear.h", "runtime/model/layers.h", "runtime/model/dropout.h",
        "runtime/model/one_of.h"}},
      {"Functions", {"runtime/model/functions.h"}},
      {"Attention", {"runtime/model/attention_mask.h", "runtime/model/attention.h"}},
      {"Rotary positions", {"runtime/model/rope.h"}},
      {"Mixtures of experts", {"runtime/model/experts.h"}},
      {"State spaces", {"runtime/model/state_space.h"}},
      {"Images", {"runtime/model/images.h"}},
      {"Pairs, and rows across ranks", {"runtime/model/pairs.h", "runtime/model/dp.h"}},
      {"Sentences", {"runtime/model/embedding_head.h", "runtime/model/sentences.h"}},
      {"Outputs of entries", {"runtime/model/outputs.h"}},
      {"Sampled softmax", {"runtime/model/sampled_softmax.h"}},
      {"Tensor parallelism", {"runtime/model/tp.h"}},
      {"Initialization", {"runtime/model/init.h"}},
      {"Names in checkpoint files", {"runtime/model/stored_as.h"}},
  };
  return all;
}

/// Names that only modgen and the runtime use. They are listed at the end, without examples. A namespace includes its
/// members.
const std::set<std::string>& not_for_specs() {
  static const std::set<std::string> names = {
      "MODULAR_ANNOTATE",
      "Adapter",
      "EarlyHolder",
      "AnyConfig",
      "ConfigOf",
      "ConfigValue",
      "FieldRange",
      "FieldVisitor",
      "NestedConfig",
      "for_each_tensor",
      "Task",
      "find_task",
      "task_error",
      "tie_parameter",
      "ModuleListOfImpl",
      "FusedFunctions",
      "kFloat8Multiple",
      "fused",
      "plain",
      "RotaryFrequencies",
      "rotary_frequencies",
      "routing",
      "dp::DataParallel",
      "dp::first_row",
      "cp",
      "kAnyTexts",
      "EmbeddingLayer",
      "EmbeddingHeadConfig",
      "EmbeddingConfig",
      "EmbeddingDense",
      "EmbeddingHead",
      "kEmbeddingLayers",
      "sentences",
      "unit_embeddings",
      "rows_with_positives",
      "contrastive_losses",
      "in_batch_losses",
      "tp::TensorParallel",
      "tp::SequenceParallel",
      "DropoutRng",
      "dropout",
      "tp::dropout",
      "tp::attention",
      "tp::attention_with_biases",
      "tp::rms_norm",  // woven for the functions of these names
      "tp::alibi_slopes",
      "tp::gated_rms_norm",
      "tp::Share",
      "tp::slice_index",
      "tp::slice_of_positions",
      "tp::Cut",
      "tp::local",
      "tp::shared",
      "tp::enter",
      "tp::part",
      "tp::whole",
      "tp::whole_size",
      "tp::exit",
      "tp::reduce",
      "tp::partial",
      "tp::without_bias",
      "tp::embedding",
      "tp::layer_norm",
      "tp::cross_entropy",
      "tp::cross_entropy_outputs",
      "tp::sampled_cross_entropy",
      "SampledClasses",
      "init::Distribution",
      "init::Initializer",
      "init::draw",
      "init::reset",
      "Parallel",
      "bound",
      "Binding",
      "cache",
      "fsdp",
      "pp",
      "TensorSplit",
      "Tie",
      "Divides",
      "ExpertWeights",
      "Stack",
      "Plan",
      "Model",
      "Entry",
      "entries",
      "register_entry",
  };
  return names;
}

/// Declarations that specs use without naming them, and how.
const std::map<std::string, const char*>& unnamed() {
  static const std::map<std::string, const char*> names = {
      {"FamilyNames", "Its fields are the arguments of `MODULAR_FAMILY`."},
      {"kTasks", "`MODEL_ENTRY` names them."},
  };
  return names;
}

constexpr const char* kIntroduction = R"(# The contract

The contract is everything that specs and generated models call: the headers of `runtime/model/` and
the prelude `modular/modular.h`. A spec may also call libtorch directly.

`contract_page` writes this page from three sources: those headers, the rules of shard types (each rule
is run to find out what it accepts), and the specs in
[`docs/examples/contract/`](../examples/contract/modular). A test checks that the page is current, and
generates and compiles the example specs. After a change, run

```sh
cmake --build --preset ci --target contract_page && build/ci/bin/contract_page . > docs/reference/contract.md
```

Shapes are written `[batch, seq, hidden]`; `…` stands for any number of dimensions. A table after a
function lists the [shard types](../internals/shard-types.md) that it accepts and returns on
tensor-parallel ranks:

- `I`: the same value on every rank.
- `P`: one summand on each rank.
- `S(heads)`: a slice along the dimension that the shape calls `heads`. "In parts" means that the
  dimension is split within each of several equal parts.
- "entered": a full value whose gradient modgen has summed over the ranks.

modgen rejects any combination that is not in the table. A function without a table accepts full values
only. A result of `S(…)` is split like the operands.
)";

/// All problems that were found.
using Problems = std::vector<std::string>;

std::string at(const Declaration& declaration) {
  return declaration.header + ":" + std::to_string(declaration.line) + ": ";
}

std::string first_sentence(const std::string& comment) {
  const size_t end = comment.find(". ");
  return end == std::string::npos ? comment : comment.substr(0, end + 1);
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "`" : ", `") + name + "`";
  return text;
}

bool is_for_specs(const Declaration& declaration) {
  const std::string space = declaration.name.substr(0, declaration.name.find("::"));
  return !not_for_specs().contains(declaration.name) && !not_for_specs().contains(space);
}

std::string described(const Declaration& declaration) {
  std::string text = "```cpp\n" + declaration.signature + "\n```\n" + declaration.comment + "\n";
  if (!declaration.operands.empty()) text += "\n";
  for (const Operand& operand : declaration.operands) {
    const bool is_result = operand.names.front() == "returns";
    text += "- " + (is_result ? "returns" : joined(operand.names));
    if (operand.has_shape) {
      text += " [";
      for (size_t i = 0; i < operand.shape.size(); ++i) text += (i ? ", " : "") + operand.shape[i];
      text += "]";
    }
    const bool follows = operand.text.empty() || operand.text[0] == ',' || operand.text[0] == ':';
    text += (follows ? "" : " ") + operand.text + "\n";
  }
  return text;
}

/// Checks that a declaration has a comment, and that every operand line names a parameter.
void check_comment(const Declaration& declaration, Problems& problems) {
  const bool documented_at_caller = declaration.name.starts_with("plain::");
  if (declaration.comment.empty() && !documented_at_caller)
    problems.push_back(at(declaration) + declaration.name + " has no comment that describes it");
  if (declaration.kind != Declaration::Kind::function) return;
  for (const Operand& operand : declaration.operands) {
    for (const std::string& name : operand.names) {
      bool known = name == "returns";
      for (const Parameter& parameter : declaration.parameters) known = known || parameter.name == name;
      if (!known)
        problems.push_back(at(declaration) + "the comment of " + declaration.name + " describes " + name +
                           ", which it does not take");
    }
  }
}

std::string get_entries(const Contract& contract, const Examples& examples, const std::string& header,
                        Problems& problems) {
  std::string text, last;
  for (size_t i = 0; i < contract.declarations.size(); ++i) {
    const Declaration& declaration = contract.declarations[i];
    if (declaration.header != header || !is_for_specs(declaration)) continue;
    if (declaration.name != last) text += "\n### `" + declaration.name + "`\n\n";
    last = declaration.name;
    text += described(declaration);
    try {
      const std::string table = declaration.kind == Declaration::Kind::function ? shard_table(declaration) : "";
      if (!table.empty()) text += "\n" + table;
    } catch (const std::runtime_error& error) {
      problems.push_back(error.what());
    }
    const bool is_last = i + 1 == contract.declarations.size() || contract.declarations[i + 1].name != declaration.name;
    if (!is_last) {
      text += "\n";
      continue;
    }
    if (const auto found = unnamed().find(declaration.name); found != unnamed().end()) {
      text += std::string("\n") + found->second + "\n";
      continue;
    }
    const auto example = examples.find(declaration.name, declaration.kind == Declaration::Kind::function);
    if (!example) {
      problems.push_back(at(declaration) + "no example uses " + declaration.name + ": add one in " + kExamples +
                         ", or add the name to not_for_specs() in tests/contract/page.cc");
      continue;
    }
    text += "\nExample, from [`" + example->file + "`](../examples/contract/modular/" + example->file + "):\n```cpp\n" +
            example->code + "\n```\n";
  }
  return text;
}

std::string page(const std::string& root, Problems& problems) {
  const Contract contract = read_contract(root, MODGEN_TORCH, MODGEN_CLANG_RESOURCES);
  const Examples examples(root + "/" + kExamples);
  std::set<std::string> described_headers, names;
  for (const Declaration& declaration : contract.declarations) {
    names.insert(declaration.name);
    names.insert(declaration.name.substr(0, declaration.name.find("::")));
    check_comment(declaration, problems);
  }
  for (const std::string& name : not_for_specs())
    if (!names.contains(name)) problems.push_back("not_for_specs() names " + name + ", which no header declares");

  std::string text = kIntroduction;
  for (const Section& section : sections()) {
    text += std::string("\n## ") + section.title + "\n";
    for (const char* header : section.headers) {
      described_headers.insert(header);
      if (!contract.openings.contains(header)) {
        problems.push_back(std::string("sections() names ") + header + ", which declares nothing");
        continue;
      }
      text += std::string("\n[`") + header + "`](../../" + header + "): " + contract.openings.at(header) + "\n";
      text += get_entries(contract, examples, header, problems);
    }
  }
  text +=
      "\n## Layers and libtorch operations under tensor parallelism\n\nLayers by annotation, or by class if they have "
      "none:\n\n";
  text += layer_table();
  text += "\nThese libtorch operations have rules:\n\n" + other_rules(contract);
  text +=
      "\n## Names for modgen and the runtime\n\nSpecs do not use these.\n\n| header | name | description "
      "|\n|---|---|---|\n";
  for (const Declaration& declaration : contract.declarations) {
    if (is_for_specs(declaration)) {
      if (!described_headers.contains(declaration.header))
        problems.push_back(at(declaration) + "no section of the page describes " + declaration.name +
                           ": add its header to sections() in tests/contract/page.cc, or the name to not_for_specs()");
      continue;
    }
    if (declaration.name.starts_with("plain::")) continue;  // documented at their callers
    text += "| [`" + declaration.header.substr(declaration.header.rfind('/') + 1) + "`](../../" + declaration.header +
            ") | `" + declaration.name + "` | " + first_sentence(declaration.comment) + " |\n";
  }
  return text;
}

/// Whether the committed page equals `expected`. Prints the first difference otherwise.
bool check(const std::string& root, const std::string& expected) {
  const std::string path = root + "/docs/reference/contract.md";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::istringstream wanted(expected);
  for (unsigned line = 1;; ++line) {
    std::string there, here;
    const bool more_there = static_cast<bool>(std::getline(file, there));
    const bool more_here = static_cast<bool>(std::getline(wanted, here));
    if (!more_there && !more_here) return true;
    if (more_there == more_here && there == here) continue;
    std::fprintf(stderr, "%s:%u: is out of date with the headers, rules and examples:\n-%s\n+%s\nregenerate it: %s\n",
                 path.c_str(), line, there.c_str(), here.c_str(), "contract_page . > docs/reference/contract.md");
    return false;
  }
}

}  // namespace
}  // namespace contract

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool check = arguments.size() == 2 && arguments[1] == "--check";
  if (arguments.size() != 1 && !check) {
    std::fprintf(stderr, "usage: contract_page ROOT > docs/reference/contract.md\n       contract_page ROOT --check\n");
    return 2;
  }
  try {
    const std::string root = std::filesystem::canonical(arguments[0]).string();
    contract::Problems problems;
    const std::string page = contract::page(root, problems);
    for (const std::string& problem : problems) std::fprintf(stderr, "%s\n", problem.c_str());
    const bool same = !check || contract::check(root, page);
    if (!problems.empty()) return 2;
    if (!check) std::fputs(page.c_str(), stdout);
    return same ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "contract_page: %s\n", error.what());
    return 2;
  }
}
