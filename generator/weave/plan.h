// The static parallel plan of an entry, and the proof that each parameter has one owner on every axis.
#pragma once

#include <vector>

#include "generator/model/finding.h"
#include "generator/weave/module_tree.h"

namespace modgen {

/// Derives the plan of the entry at `root`. What cannot be owned or divided is added to `findings`.
EntryPlan derive_plan(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings);

/// Checks each annotation of the family against what it marks, and that what needs registration is registered.
void check_annotations(const FamilyModel& family, std::vector<Finding>& findings);

/// The field and parameter that a TIED_TO names: "model->embed_tokens->weight" in the class of `owner`. Null where
/// there is no such parameter.
struct TiedParameter {
  const ModuleNode* layer = nullptr;  // the layer or parameter
  std::string path;                   // of the parameter
};
TiedParameter find_tied(const ModuleNode& owner, std::string_view expression);

/// What the first argument of TIES names within the marked module: "HeadImpl::decoder->weight" gives
/// "decoder->weight".
std::string inside(const std::string& expression);

/// The config's flag that switches a tie.
inline constexpr const char* kTieFlag = "tie_word_embeddings";

}  // namespace modgen
