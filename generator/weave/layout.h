// Where every parameter of an entry lies: its shape as the constructors give it, and its place on each axis of the
// mesh.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generator/model/family_model.h"

namespace modgen {

struct ParameterLayout {
  std::string name;    // "model.layers.*.mlp.up_proj.weight"; "*" stands for each element of a list
  std::string module;  // the module that registers it: "model.layers.*.mlp.up_proj"
  std::string type;    // of that module, or of the raw parameter
  // Sizes as products of config fields and numbers; as the constructor has them where they are none. Nothing where the
  // layer's shape does not follow from its arguments.
  std::optional<std::vector<std::string>> shape;
  std::string only_where;          // it exists where this expression of the constructor is true; empty: always
  std::string unit;                // the FSDP unit; empty for the root
  std::optional<int64_t> dim;      // that tensor parallelism splits
  std::vector<std::string> parts;  // of that dimension, where it is split within parts
  std::string stage;               // "first", "split", "last" or "all"; empty where no list is cut
  std::string tied_to, flag;       // the parameter that it shares where the config's flag says so
};

/// The parameters of the entry that `plan` is of, in the order of the fields.
std::vector<ParameterLayout> get_layout(const FamilyModel& family, const EntryPlan& plan);

}  // namespace modgen
