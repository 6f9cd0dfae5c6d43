// Device specifications from vendors' data sheets.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace modular {

/// A row of the table. Operations/s are dense, bytes/s are per direction; 0 if the device has no such value, or if it
/// depends on the host machine.
struct KnownDevice {
  const char* name;        // name for --device
  const char* make;        // substring of the driver's name
  double memory;           // bytes
  double bf16, fp32, fp8;  // matmul peaks, operations/s
  double memory_speed;     // device memory bandwidth, bytes/s
  double link;             // to another device in the same machine, bytes/s
  double between;          // to a device in another machine over the vendor system's network adapters, bytes/s
  const char* data_sheet;  // the source
};

std::span<const KnownDevice> known_devices();

/// The device called `name`, e.g. "h100"; null if unknown.
const KnownDevice* device_by_name(std::string_view name);

/// The device that a driver calls `make`, e.g. "NVIDIA H100 80GB HBM3"; null if unknown.
const KnownDevice* device_by_make(std::string_view make);

/// All names, as "a100, …".
std::string names_of_known_devices();

}  // namespace modular
