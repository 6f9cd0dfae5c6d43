// The texts between flatten and weave: specs without inheritance, one per family, in the language of specs. Tests
// modify them and have them read, checked and woven like any other, many in one parse.
#pragma once

#include <string>
#include <vector>

#include "generator/generate.h"
#include "generator/model/family_model.h"

namespace modgen {

struct FlattenedSpec {
  std::string family, prefix, model_type;
  std::string text;
};

/// Flattens `options.families`. Throws std::runtime_error with the first error of a spec.
std::vector<FlattenedSpec> flatten_specs(const GenerateOptions& options);

/// Reads flattened texts, of families with different names, into models that are not woven yet. Throws
/// std::runtime_error with the first error that Clang finds.
std::vector<FamilyModel> read_flattened(const GenerateOptions& options, const std::vector<FlattenedSpec>& specs);

/// `spec` under another family name: changes its namespace and its name in the runtime's registry.
FlattenedSpec renamed(FlattenedSpec spec, const std::string& family);

}  // namespace modgen
