// What a rank is doing, kept where its launcher can read it after the rank was killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace modular {

/// A rank's own account of where it is. Kept in the file that MODULAR_STATUS_FILE names, mapped into memory, so that it
/// outlives a SIGKILL; without the variable, in memory only. Cheap enough to set in every step. Not for use from
/// several threads at once.
struct Status {
  std::string phase;    // e.g. "step 12: backward"
  std::string waiting;  // the collective that the rank waits for, e.g. "all_reduce of the loss over dp_shard"
};

/// Says what the rank does from here on.
void set_phase(std::string_view phase);
/// Says what the rank waits for; empty when it continues.
void set_waiting(std::string_view waiting);

Status current_status();

/// What a rank left in its status file; empty where there is none.
Status read_status(const std::string& file);

/// A count in the status file that a thread of the rank increases a few times per second, as long as the process runs.
struct Heartbeat {
  uint64_t beats = 0;
  std::chrono::seconds frozen_after = {};  // without a beat for so long the rank counts as frozen; 0: never
};

/// Starts that thread, unless there is no status file or the rank has one.
void begin_heartbeat(std::chrono::seconds frozen_after);

/// Zero before the rank has begun one.
Heartbeat read_heartbeat(const std::string& file);

}  // namespace modular
