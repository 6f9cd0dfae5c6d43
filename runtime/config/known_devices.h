// What vendors' data sheets say of devices.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace modular {

/// A row of the table. Operations per second are dense; bytes per second are one way; 0 where the device has none, or
/// where that depends on the machine that it is in.
struct KnownDevice {
  const char* name;        // as --device has it
  const char* make;        // what its driver calls it has these words
  double memory;           // bytes
  double bf16, fp32, fp8;  // peaks of matmuls
  double memory_speed;     // of its own memory
  double link;             // to another device of its machine
  double between;          // to a device of another machine, by the adapters of the vendor's own system
  const char* data_sheet;  // the source
};

std::span<const KnownDevice> known_devices();

/// The device of that name, e.g. "h100"; null where it is not known.
const KnownDevice* device_by_name(std::string_view name);

/// The device that a driver calls `make`, e.g. "NVIDIA H100 80GB HBM3"; null where it is not known.
const KnownDevice* device_by_make(std::string_view make);

/// "a100, …": all names.
std::string names_of_known_devices();

}  // namespace modular
