// The machines that a run may have: how many devices, what each holds and computes, and how fast they exchange.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace modular {

/// Devices of `nodes` machines, `per_node` of each, all alike. Speeds are in bytes/s, one way.
struct Cluster {
  int64_t nodes = 1, per_node = 1;
  double memory = 0.0;                 // bytes of a device
  double reserve = 0.08;               // share of it that no tensor of a plan gets: libraries, fragments
  double link = 0.0;                   // from a device to another one of its node
  double between = 0.0;                // from a device to one of another node, while all of its node's do so
  double latency = 5e-6;               // seconds before a byte arrives from a device of the node
  double latency_between = 15e-6;      // and from one of another node
  double host = 25e9;                  // between a device and its host's memory
  double flops = 0.0;                  // a device's peak, operations a second
  double attained = 0.5;               // share of that peak which large matmuls reach
  std::optional<double> memory_speed;  // of a device's own memory; flops / 250 where it is not given
  double cost = 0.0;                   // of a device and an hour, in any currency

  int64_t devices() const { return nodes * per_node; }
  double usable_memory() const { return memory * (1.0 - reserve); }
  double speed_of_memory() const { return memory_speed.value_or(flops / 250.0); }
};

/// Bytes/s that "450GB/s", "400Gb/s" (bits) or "3.35TB/s" say; nothing where a text is no such speed.
std::optional<double> parse_speed(const std::string& text);

/// Bytes in a sentence: "1.5 GiB", or below one "12.3 MiB".
std::string in_words(double bytes);

/// Says which of the numbers cannot be, by its option of the command line; empty where all can.
std::string find_error(const Cluster& cluster);

}  // namespace modular
