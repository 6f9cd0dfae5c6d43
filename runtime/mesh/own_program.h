#pragma once

#include <filesystem>

namespace modular {

/// The path of the running program, by which it is started again and its own libraries are found.
std::filesystem::path own_program();

}  // namespace modular
