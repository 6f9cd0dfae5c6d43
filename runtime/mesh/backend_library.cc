#include "runtime/mesh/backend_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

namespace modular {

namespace {
bool has_loaded = false;
}  // namespace

bool has_loaded_backend() { return has_loaded; }

MakeBackend load_backend(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(fmt::format("the library cannot be loaded: {}", dlerror()));
  const auto make = reinterpret_cast<MakeBackend>(dlsym(library, "modular_make_backend"));
  if (!make)
    throw std::runtime_error(
        fmt::format("{} lacks modular_make_backend: define it as runtime/mesh/backend_library.h says", path));
  has_loaded = true;
  return make;
}

}  // namespace modular
