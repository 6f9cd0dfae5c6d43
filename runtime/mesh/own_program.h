#pragma once

#include <filesystem>

namespace modular {

/// Returns the path of the running program. It is used to restart the program and to find its libraries.
std::filesystem::path own_program();

}  // namespace modular
