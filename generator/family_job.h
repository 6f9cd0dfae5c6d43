// One family on its way through the stages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "generator/flatten/family.h"
#include "generator/flatten/outline.h"
#include "generator/generate.h"
#include "generator/model/family_model.h"
#include "generator/parse/session.h"
#include "generator/source/fragment.h"
#include "generator/validate/validate.h"

namespace modgen {

struct FamilyJob {
  std::string name;  // "gemma"
  // Set by flatten.
  std::unique_ptr<Family> family;
  Fragment text;
  std::shared_ptr<const FamilyOutline> outline;
  uint32_t file = 0;      // index of the text, once it has been parsed
  Validation validation;  // set by validate
  FamilyModel model;      // set by read_models, woven by weave
};

// Each stage adds its errors to the remarks of the parse, and does nothing if an earlier stage has found an error.

/// Flattens the families called `names`, and has Clang read the texts.
std::vector<FamilyJob> flatten(Session& session, const Specs& specs, const std::vector<std::string>& names);
/// Checks the flattened texts, and compares them with the specs.
void validate(Session& session, std::vector<FamilyJob>& jobs);
void read_models(Session& session, std::vector<FamilyJob>& jobs);
/// Weaves the models, and checks that weaving has changed nothing else.
void weave(Session& session, std::vector<FamilyJob>& jobs);

/// Puts the remarks of the parse into source order, and explains those of Clang: replaces messages by their causes,
/// adds advice, and drops those that follow from another one.
void explain_messages(Parsed& parsed, const ParseOptions& folders, const std::vector<FamilyJob>& jobs);

/// The remarks of the parse as diagnostics, in source order, at locations in the specs. Adds advice to those of Clang,
/// and reports specs that include each other as one error.
std::vector<Diagnostic> to_diagnostics(Parsed& parsed, const ParseOptions& folders, const std::vector<FamilyJob>& jobs);

/// Sets the files that each of `outputs` depends on, and the include candidates that did not exist.
void set_dependencies(const Parsed& parsed, const ParseOptions& folders, std::vector<Output>& outputs);

}  // namespace modgen
