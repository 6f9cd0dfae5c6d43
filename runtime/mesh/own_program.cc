#include "runtime/mesh/own_program.h"

#include <sys/auxv.h>

#include <system_error>

namespace modular {

namespace fs = std::filesystem;

std::filesystem::path own_program() {
  // Resolved once: a relative path names a different file after a change of the working directory.
  static const fs::path program = [] {
    std::error_code error;
    if (fs::path linked = fs::read_symlink("/proc/self/exe", error); !error) return linked;
    // Some containers and sandboxes do not mount /proc. The kernel also passes the path that it executed.
    const auto* const executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    return fs::absolute(executed ? executed : "");
  }();
  return program;
}

}  // namespace modular
