#include "runtime/config/known_devices.h"

#include <algorithm>
#include <cctype>

namespace modular {
namespace {

constexpr double kGiB = 0x1p30;
constexpr const char *kA100 = "NVIDIA A100 Tensor Core GPU, 2021", *kH100 = "NVIDIA H100 Tensor Core GPU, 2022",
                     *kH100Nvl = "NVIDIA H100 NVL GPU, 2024", *kH200 = "NVIDIA H200 Tensor Core GPU, 2023",
                     *kGh200 = "NVIDIA GH200 Grace Hopper Superchip, 2023", *kB200 = "NVIDIA DGX B200, 2024",
                     *kMi300x = "AMD Instinct MI300X, 2023", *kL40s = "NVIDIA L40S, 2023", *kL4 = "NVIDIA L4, 2023";

// Those whose words are within another's come after it. Data sheets that give operations with sparsity give twice
// these. Links: NVLink's half; of MI300X the seven Infinity Fabric links to its neighbors together; of cards without
// NVLink, or with bridges between pairs alone, PCIe x16. Between machines: DGX A100 has 200 Gb/s for each GPU, DGX
// H100, H200 and B200 have 400 Gb/s.
constexpr KnownDevice kDevices[] = {
    // clang-format off
    {"a100-40gb", "A100-SXM4-40GB", 40 * kGiB, 312e12, 19.5e12, 0.0, 1.555e12, 300e9, 25e9, kA100},
    {"a100-pcie-40gb", "A100-PCIE-40GB", 40 * kGiB, 312e12, 19.5e12, 0.0, 1.555e12, 32e9, 0.0, kA100},
    {"a100-pcie", "A100 80GB PCIe", 80 * kGiB, 312e12, 19.5e12, 0.0, 1.935e12, 32e9, 0.0, kA100},
    {"a100", "A100", 80 * kGiB, 312e12, 19.5e12, 0.0, 2.039e12, 300e9, 25e9, kA100},
    {"h100-pcie", "H100 PCIe", 80 * kGiB, 756e12, 51e12, 1513e12, 2.0e12, 64e9, 0.0, kH100},
    {"h100-nvl", "H100 NVL", 94 * kGiB, 835e12, 60e12, 1671e12, 3.9e12, 64e9, 0.0, kH100Nvl},
    {"h100", "H100", 80 * kGiB, 989e12, 67e12, 1979e12, 3.35e12, 450e9, 50e9, kH100},
    {"h200-nvl", "H200 NVL", 141 * kGiB, 835e12, 60e12, 1671e12, 4.8e12, 450e9, 0.0, kH200},
    {"h200", "H200", 141 * kGiB, 989e12, 67e12, 1979e12, 4.8e12, 450e9, 50e9, kH200},
    {"gh200", "GH200", 96 * kGiB, 989e12, 67e12, 1979e12, 4.0e12, 0.0, 0.0, kGh200},
    {"b200", "B200", 180 * kGiB, 2.25e15, 75e12, 4.5e15, 8.0e12, 900e9, 50e9, kB200},
    {"mi300x", "MI300X", 192 * kGiB, 1307.4e12, 163.4e12, 2614.9e12, 5.3e12, 448e9, 0.0, kMi300x},
    {"l40s", "L40S", 48 * kGiB, 362e12, 91.6e12, 733e12, 0.864e12, 32e9, 0.0, kL40s},
    {"l4", "L4", 24 * kGiB, 121e12, 30.3e12, 242e12, 0.3e12, 32e9, 0.0, kL4},
    // clang-format on
};

/// Whether `name` has `words` in it, and no longer ones: an L40 is not an L4.
bool has_words(std::string_view name, std::string_view words) {
  const auto is_of_a_word = [&](size_t place) {
    return place < name.size() && std::isalnum(static_cast<unsigned char>(name[place])) != 0;
  };
  for (size_t at = name.find(words); at != name.npos; at = name.find(words, at + 1))
    if (!is_of_a_word(at - 1) && !is_of_a_word(at + words.size())) return true;  // before the first: beyond the end
  return false;
}

}  // namespace

std::span<const KnownDevice> known_devices() { return kDevices; }

const KnownDevice* device_by_name(std::string_view name) {
  const auto* const found = std::ranges::find(kDevices, name, &KnownDevice::name);
  return found == std::end(kDevices) ? nullptr : found;
}

const KnownDevice* device_by_make(std::string_view make) {
  const auto is_it = [&](const KnownDevice& device) { return has_words(make, device.make); };
  const auto* const found = std::ranges::find_if(kDevices, is_it);
  return found == std::end(kDevices) ? nullptr : found;
}

std::string names_of_known_devices() {
  std::string names;
  for (const KnownDevice& device : kDevices) names += (names.empty() ? "" : ", ") + std::string(device.name);
  return names;
}

}  // namespace modular
