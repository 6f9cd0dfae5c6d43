// Status of a rank, stored where its launcher can read it after the rank was killed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace modular {

/// What a rank reports about itself. Kept in the file that MODULAR_STATUS_FILE names, mapped into memory, so that it
/// survives a SIGKILL; without the variable, only in memory. Cheap enough to set in every step. Not thread-safe.
struct Status {
  std::string phase;    // e.g. "step 12: backward"
  std::string waiting;  // the collective that the rank waits for, e.g. "all_reduce of the loss over dp_shard"
};

/// Sets the phase that the rank enters.
void set_phase(std::string_view phase);
/// Sets the collective that the rank waits for; empty when it resumes.
void set_waiting(std::string_view waiting);

Status current_status();

/// Reads the status file of a rank; empty if there is none.
Status read_status(const std::string& file);

/// A counter in the status file that a thread of the rank increments several times per second while the process runs.
struct Heartbeat {
  uint64_t beats = 0;
  std::chrono::seconds frozen_after = {};  // a rank without a beat for this long counts as frozen; 0: never
};

/// Starts that thread, unless there is no status file or it is already running.
void begin_heartbeat(std::chrono::seconds frozen_after);

/// Returns zeros if the rank has not started its heartbeat.
Heartbeat read_heartbeat(const std::string& file);

}  // namespace modular
