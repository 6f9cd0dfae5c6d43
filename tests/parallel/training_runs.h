// Short training runs whose numbers tests compare between meshes.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/parallel/parallel_model.h"
#include "tests/support/ranks.h"

namespace modular::testing {

/// Values of config fields by name. Fields that a family lacks are left out.
using Fields = std::map<std::string, std::variant<bool, int64_t, double>, std::less<>>;

/// A model of a few thousand parameters whose sizes 2 tp ranks divide; `changed` overrides its fields.
std::unique_ptr<AnyConfig> tiny_config(const Entry& entry, const Fields& changed = {});

/// The entry of that architecture.
const Entry& entry_of(const std::string& architecture);

/// Something that must not change what a training run computes.
struct Variant {
  std::string name;
  Fields fields = {};
  ParallelOptions options = {};
  int64_t micro_batches = 1;
};

inline constexpr size_t kSteps = 20;

/// Trains for kSteps on a fixed sequence of global batches, of which each data-parallel rank takes its rows. Sequences
/// differ in their number of targets and in padding. For every step: the loss, and the sum of squares of the gradients
/// that this rank owns.
Report train(Mesh& mesh, const Entry& entry, const Variant& variant);

/// Trains every variant on the mesh and on one process, and expects the same losses and gradient norms within
/// `tolerance`.
void expect_same_training(const std::string& architecture, const MeshShape& shape, const std::vector<Variant>& variants,
                          double tolerance = 1e-5);

}  // namespace modular::testing
