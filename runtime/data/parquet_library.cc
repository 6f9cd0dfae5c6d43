#include "runtime/data/parquet_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "runtime/mesh/libraries.h"

namespace modular {
namespace {

constexpr const char* kLibrary = "libmodular_parquet.so";

/// Returns the library's path next to the program or in an installation's lib folder; empty if it is in neither.
std::filesystem::path find_library() {
  const auto folder = own_program().parent_path();
  for (const auto& path : {folder / kLibrary, folder.parent_path() / "lib" / kLibrary})
    if (std::filesystem::exists(path)) return path;
  return {};
}

const ParquetLibrary* load() {
  const BlockedSignals blocked;
  const auto path = find_library();
  void* const library = dlopen(path.empty() ? kLibrary : path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library && path.empty())
    throw std::runtime_error(fmt::format(
        "cannot read Parquet: {} is not next to this program, because it was built without pyarrow: run `pip install "
        "pyarrow` in the Python that has torch, configure with cmake again and build modrun",
        kLibrary));
  if (!library)
    throw std::runtime_error(
        fmt::format("cannot read Parquet: {}: run `pip install pyarrow`, in the version that modrun was built with, in "
                    "the Python that has torch",
                    dlerror()));
  const auto function = reinterpret_cast<decltype(&modular_parquet_library)>(dlsym(library, "modular_parquet_library"));
  if (!function)
    throw std::runtime_error(fmt::format(
        "cannot read Parquet: {} belongs to another version of modrun: rebuild it with this one", kLibrary));
  return function();
}

}  // namespace

const ParquetLibrary& parquet_library() {
  static const ParquetLibrary* const library = load();
  return *library;
}

}  // namespace modular
