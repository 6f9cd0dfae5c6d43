// One way of laying a run over devices: what the search goes through.
#pragma once

#include <cstdint>
#include <string>

namespace modular {

/// What is in the host's memory, as parallel.offload has it.
enum class Offloaded { nothing, optimizer, parameters };

struct Layout {
  int64_t pp = 1, dp_replicate = 1, dp_shard = 1, tp = 1;
  int64_t zero_stage = 3;  // of dp_shard
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // of pp: a name of known_schedules()
  int64_t stages_of_rank = 0;     // 0: as many as the schedule usually has
  size_t keeping = 0;             // which of ModelProfile::keepings
  Offloaded offload = Offloaded::nothing;

  int64_t data_parallel() const { return dp_replicate * dp_shard; }
  int64_t devices() const { return pp * data_parallel() * tp; }
  bool same_mesh(const Layout& other) const {
    return pp == other.pp && dp_replicate == other.dp_replicate && dp_shard == other.dp_shard && tp == other.tp;
  }
  /// "pp 2 x dp_shard 4 (ZeRO 3) x tp 8"; "1 device" where no axis is larger than 1.
  std::string describe() const;

  bool operator==(const Layout&) const = default;
};

}  // namespace modular
