// Short training runs whose results tests compare between meshes.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/parallel/parallel_model.h"
#include "tests/support/ranks.h"

namespace modular::testing {

/// Values of config fields by name. Fields that a family does not have are ignored.
using Fields = std::map<std::string, std::variant<bool, int64_t, double, std::string>, std::less<>>;

/// A model of a few thousand parameters whose sizes are divisible by 2 tp ranks; `changed` overrides its fields.
std::unique_ptr<AnyConfig> tiny_config(const Entry& entry, const Fields& changed = {});

/// A T5 with distinct sizes and with three and two layers in its stacks.
extern const Fields kSmallT5;

/// Returns the entry of the architecture.
const Entry& get_entry(const std::string& architecture);

/// Returns the full batch of a step, the same on all ranks: 24 rows of 12 tokens, some of them padding, or of images.
Batch global_batch(const Entry& entry, size_t step, int64_t vocabulary = 62, int64_t sequence = 12);

inline constexpr size_t kSteps = 4;

/// A variant of a training run that must not change its results.
struct Variant {
  std::string name;
  Fields fields = {};
  ParallelOptions options = {};
  int64_t micro_batches = 1;
  std::string optimizer = "adamw";
  bool documents = false;     // rows hold several documents each
  bool packed = false;        // rows hold documents of other lengths in each row and step, some of them most of a row;
                              // positions begin anew in each
  bool left_padding = false;  // one row begins with padding instead of ending with it
  int64_t sequence = 12;      // tokens per row
  size_t steps = kSteps;
  bool compares_rows = false;  // the loss compares the rows of a micro-batch across all data-parallel ranks
};

/// Trains on a fixed sequence of global batches, of which each data-parallel rank takes its rows, with the project's
/// optimizer, gradient norm and clipping. Sequences differ in their number of targets and in padding.
/// Returns, for every step, the loss, including router losses and expert load, and the gradient norm; then the loss of
/// an evaluation, the root mean square of a row's logits, and sums over the parameters and buffers.
Report train(Mesh& mesh, const Entry& entry, const Variant& variant);

/// Trains every variant on the mesh and on one process, and expects the same results within `tolerance`, and ten times
/// that for parameters.
void expect_same_training(const std::string& architecture, const MeshShape& shape, const std::vector<Variant>& variants,
                          double tolerance = 1e-5);

}  // namespace modular::testing
