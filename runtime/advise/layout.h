// A parallel layout of a run: one candidate of the search.
#pragma once

#include <cstdint>
#include <string>

namespace modular {

/// State kept in host memory, as in parallel.offload.
enum class Offloaded { nothing, optimizer, parameters };

struct Layout {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, tp = 1;
  int64_t zero_stage = 3;  // for dp_shard
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // for pp: a name of known_schedules()
  int64_t stages_of_rank = 0;     // 0: the schedule's default
  size_t keeping = 0;             // index into ModelProfile::keepings
  Offloaded offload = Offloaded::nothing;

  int64_t data_parallel() const { return dp_replicate * dp_shard; }
  int64_t devices() const { return pp * data_parallel() * tp; }
  bool same_mesh(const Layout& other) const {
    return pp == other.pp && dp_replicate == other.dp_replicate && dp_shard == other.dp_shard && tp == other.tp;
  }
  /// "pp 2 x dp_shard 4 (ZeRO 3) x tp 8"; "1 device" if all axes have size 1.
  std::string describe() const;

  bool operator==(const Layout&) const = default;
};

}  // namespace modular
