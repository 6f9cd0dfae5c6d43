// Splits over tensor-parallel ranks that do not divide what they split: heads that are fewer than the ranks, which
// share them, and vocabularies of which the last ranks keep less.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/mesh/mesh.h"
#include "runtime/model/registry.h"
#include "runtime/parallel/parameter_table.h"

namespace modular {

/// Whether `field` counts heads or groups that serve several heads: of fewer than there are ranks, each is kept by all
/// ranks that it serves.
bool may_be_shared(std::string_view field);

/// Whether `field` is the size of a vocabulary.
bool may_be_uneven(std::string_view field);

/// Finds the parts of `table`, of `entry` built from `config`, that `tp` ranks split in such a way, and writes that
/// into them. Returns why they cannot, or nothing.
std::string describe_uneven_splits(ParameterTable& table, const Entry& entry, const AnyConfig& config, int64_t tp);

/// The sizes that `tp` ranks do not divide of what they split, each once; nothing where the length of a rank's slice
/// may not tell of which of them, or of what is split evenly, it is one. `table` is described by
/// describe_uneven_splits().
std::optional<std::vector<int64_t>> uneven_sizes(const ParameterTable& table, int64_t tp);

/// Sums the gradients of slices that several tp ranks keep, of which each has found a part.
class SharedSlices {
 public:
  SharedSlices() = default;
  /// Collective: makes the groups of the ranks that share slices of `table`, held by this rank's stage or not.
  SharedSlices(const ParameterTable& table, Mesh& mesh);
  /// By their number of ranks.
  const std::map<int64_t, ProcessGroup>& groups() const { return groups_; }
  /// Collective over those ranks, which have the same slices. `grad` of each trainable parameter is defined.
  void sum_gradients(std::vector<ShardedParameter>& parameters) const;

 private:
  std::map<int64_t, ProcessGroup> groups_;
};

}  // namespace modular
