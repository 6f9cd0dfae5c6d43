// The machines of a run: number of devices, memory, compute and communication speeds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace modular {

/// `nodes` machines with `per_node` identical devices each. Speeds are in bytes/s, one way.
struct Cluster {
  int64_t nodes = 1, per_node = 1;
  double memory = 0.0;                 // bytes per device
  double reserve = 0.08;               // fraction of memory reserved for libraries and fragmentation
  double link = 0.0;                   // between devices of a node
  double between = 0.0;                // between devices of different nodes, while all devices of the node send
  double latency = 5e-6;               // seconds, within a node
  double latency_between = 15e-6;      // seconds, between nodes
  double host = 25e9;                  // between a device and host memory
  double flops = 0.0;                  // peak FLOP/s of a device
  double attained = 0.5;               // fraction of the peak that large matmuls attain
  std::optional<double> memory_speed;  // device memory bandwidth; flops / 250 if not given
  double cost = 0.0;                   // per device and hour, in any currency

  int64_t devices() const { return nodes * per_node; }
  double usable_memory() const { return memory * (1.0 - reserve); }
  double speed_of_memory() const { return memory_speed.value_or(flops / 250.0); }
};

/// Parses "450GB/s", "400Gb/s" (bits) or "3.35TB/s" as bytes/s; returns nullopt if the text is not a speed.
std::optional<double> parse_speed(const std::string& text);

/// Formats bytes as "1.5 GiB", or "12.3 MiB" below 1 GiB.
std::string format_bytes(double bytes);

/// Returns an error that names the command-line option of an invalid number; empty if all are valid.
std::string find_error(const Cluster& cluster);

}  // namespace modular
