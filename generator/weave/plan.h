// Derives the static parallel plan of an entry, and proves that each parameter has one owner on every axis.
#pragma once

#include <vector>

#include "generator/source/diagnostic.h"
#include "generator/weave/module_tree.h"

namespace modgen {

/// Derives the plan of the entry at `root`. Parameters without an owner and indivisible sizes are reported in
/// `findings`.
EntryPlan derive_plan(const FamilyModel& family, const ModuleNode& root, std::vector<Finding>& findings);

/// Adds what the functions that read a parameter say about it: weights of experts, rates of state spaces, and tables.
void add_parameter_facts(const ModuleNode& root, EntryPlan& plan);

/// Checks that each annotation fits the declaration that it marks, and that modules and parameters are registered.
void check_annotations(const FamilyModel& family, std::vector<Finding>& findings);

/// The layer and parameter that a TIED_TO expression names, such as "model->embed_tokens->weight" in the class of
/// `owner`. Null if there is no such parameter.
struct TiedParameter {
  const ModuleNode* layer = nullptr;  // the layer or parameter
  std::string path;                   // path of the parameter
};
TiedParameter find_tied(const ModuleNode& owner, std::string_view expression);

/// Strips the class from the first argument of TIES: "HeadImpl::decoder->weight" becomes "decoder->weight".
std::string inside(const std::string& expression);

/// The config flag that enables a tie.
inline constexpr const char* kTieFlag = "tie_word_embeddings";

}  // namespace modgen
