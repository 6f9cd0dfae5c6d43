#include "runtime/mesh/libraries.h"

#include <dlfcn.h>
#include <sys/auxv.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

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

namespace {

constexpr const char* kLibrary = "libmodular_cuda.so";

/// Paths to try: next to the program, then the lib folder of an installation.
std::vector<std::string> candidates() {
  const auto folder = own_program().parent_path();
  return {(folder / kLibrary).string(), (folder.parent_path() / "lib" / kLibrary).string(), kLibrary};
}

struct Loaded {
  const CudaLibrary* library = nullptr;
  std::string failure;
};

const Loaded& load() {
  static const Loaded loaded = [] {
    Loaded result;
    for (const std::string& path : candidates()) {
      // GLOBAL: its operators and the backends of libtorch_cuda register with the copy of libtorch that is already
      // loaded.
      void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (!handle) {
        const bool exists = path != kLibrary && std::filesystem::exists(path);
        if (exists || result.failure.empty()) result.failure = dlerror();
        if (exists) break;
        continue;
      }
      using Function = const CudaLibrary* (*)();
      const auto function = reinterpret_cast<Function>(dlsym(handle, "modular_cuda_library"));
      if (function) {
        result.library = function();
      } else {
        result.failure = fmt::format("{} is from a different release: it lacks modular_cuda_library", path);
      }
      break;
    }
    return result;
  }();
  return loaded;
}

bool driver_is_present() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible && (!*visible || std::string(visible) == "-1")) return false;
  return std::filesystem::exists("/dev/nvidiactl") || std::filesystem::exists("/dev/dxg");
}

}  // namespace

int64_t gpu_count() {
  if (!driver_is_present() || !load().library) return 0;
  return load().library->device_count();
}

const CudaLibrary& cuda_library() {
  if (!load().library) throw std::runtime_error(fmt::format("cannot use a GPU: {}", load().failure));
  return *load().library;
}

}  // namespace modular
