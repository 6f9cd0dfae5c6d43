// The fourth stage, weave: inserts the parallel calls that the shard types require, and derives the parallel plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generator/model/family_model.h"
#include "generator/source/diagnostic.h"

namespace modgen {

/// Inserts the parallel calls as edits of `family`, checks its shard types and derives the plan of every entry.
std::vector<Finding> weave(FamilyModel& family);

/// Reports constructors that read a tensor's value, replace a submodule's parameter or register a module twice.
std::vector<Finding> check_constructors(const FamilyModel& family);

/// Reports options of libtorch's layers and functions by which a forward changes its input or its parameters.
std::vector<Finding> check_layer_options(const FamilyModel& family);

struct ParameterLayout {
  std::string name;    // "model.layers.*.mlp.up_proj.weight"; "*" stands for each element of a list
  std::string module;  // the module that registers it: "model.layers.*.mlp.up_proj"
  std::string type;    // type of that module, or of the raw parameter
  // Sizes as products of config fields and numbers, or as the constructor spells them if they are not products. Empty
  // if the layer's shape does not follow from its arguments.
  std::optional<std::vector<std::string>> shape;
  std::string only_where;          // constructor condition under which it exists; empty: always
  std::string unit;                // the FSDP unit; empty for the root
  std::optional<int64_t> dim;      // dimension that tensor parallelism splits
  std::vector<std::string> parts;  // sizes of the parts of that dimension, if it is split within parts
  std::string stage;               // "first", "split", "last" or "all"; empty if no list is cut
  std::string tied_to, flag;       // the parameter that it is tied to, and the config flag that enables the tie
};

/// Returns the parameters of `plan`'s entry, in field order.
std::vector<ParameterLayout> get_layout(const FamilyModel& family, const EntryPlan& plan);

}  // namespace modgen
