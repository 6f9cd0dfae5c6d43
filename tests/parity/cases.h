// The output of generate.py, which transformers computed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace modular::parity {

inline std::filesystem::path cases_folder() {
  const char* folder = std::getenv("MODULAR_PARITY_CASES");
  if (!folder) throw std::runtime_error("run generate.py, and name its folder in MODULAR_PARITY_CASES");
  return folder;
}

/// The folders of one kind ("numbers", "configs", "defaults" or "initial"), sorted. Never empty, except that families
/// may have no published configs.
inline std::vector<std::filesystem::path> folders(const std::string& kind) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(cases_folder() / kind)) found.push_back(entry.path());
  if (found.empty() && kind != "configs")
    throw std::runtime_error((cases_folder() / kind).string() + " is empty: run generate.py");
  std::sort(found.begin(), found.end());
  return found;
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path.string() + " cannot be read: run generate.py");
  return nlohmann::json::parse(file);
}

}  // namespace modular::parity
