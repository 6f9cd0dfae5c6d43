// A modrun that counts system calls of its ranks per step: opened files, started threads and allocated memory. It
// intercepts calls because the program's own functions take precedence over those of the C library. After each step it
// waits until the next step's data is prefetched: a step is read by $MODULAR_STEADY_READS calls. After step
// $MODULAR_STEADY_STEPS it writes one JSON line per step to $MODULAR_STEADY-<rank>.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"

namespace {

std::atomic<int64_t> opened = 0, mapped = 0, read_calls = 0, large = 0, threads = 0;

mode_t find_mode(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// The C library's own function of that name.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void* counted(void* memory, size_t size) {
  if (size > (1 << 20)) ++large;
  return memory;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  ++opened;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = find_mode(flags, arguments);
  va_end(arguments);
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int openat(int folder, const char* path, int flags, ...) {
  ++opened;
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = find_mode(flags, arguments);
  va_end(arguments);
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

FILE* fopen(const char* path, const char* mode) {
  ++opened;
  static auto* const original = next<FILE*(const char*, const char*)>("fopen");
  return original(path, mode);
}
FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
DIR* opendir(const char* path) {
  ++opened;
  static auto* const original = next<DIR*(const char*)>("opendir");
  return original(path);
}

void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  ++mapped;
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}
void* mmap64(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept
    __attribute__((alias("mmap")));

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) noexcept {
  ++threads;
  static auto* const original = next<decltype(pthread_create)>("pthread_create");
  return original(thread, attributes, function, argument);
}

ssize_t pread(int file, void* buffer, size_t count, off_t offset) {
  const ssize_t got = syscall(SYS_pread64, file, buffer, count, offset);
  ++read_calls;
  read_calls.notify_all();
  return got;
}
ssize_t pread64(int file, void* buffer, size_t count, off_t offset) __attribute__((alias("pread")));

// The C library's own functions, for the interceptors above.
void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return counted(__libc_malloc(size), size); }
int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  *memory = counted(__libc_memalign(alignment, size), size);
  return *memory ? 0 : ENOMEM;
}

}  // extern "C"

namespace modular {
namespace {

struct Counts {
  int64_t step = 0, opened = 0, mapped = 0, threads = 0, large = 0, faults = 0;
};

std::vector<Counts> counts;

void write_counts(int64_t rank) {
  std::ofstream out(std::string(std::getenv("MODULAR_STEADY")) + "-" + std::to_string(rank));
  for (const Counts& of : counts)
    out << nlohmann::json{{"step", of.step},       {"opened", of.opened}, {"mapped", of.mapped},
                          {"threads", of.threads}, {"large", of.large},   {"faults", of.faults}}
        << '\n';
}

/// Waits after a step until the data of the next one has been prefetched, which takes that many reads per step. Waits
/// forever if nothing is prefetched.
void await_data(int64_t step, int64_t reads_a_step) {
  for (int64_t seen = read_calls; seen < (step + 1) * reads_a_step; seen = read_calls) read_calls.wait(seen);
}

void on_step(const StepMetrics& step, Mesh& mesh) {
  static const int64_t last = std::atoll(std::getenv("MODULAR_STEADY_STEPS")),
                       reads_a_step = std::atoll(std::getenv("MODULAR_STEADY_READS"));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  counts.reserve(static_cast<size_t>(last));
  counts.push_back({.step = step.step,
                    .opened = opened,
                    .mapped = mapped,
                    .threads = threads,
                    .large = large,
                    .faults = usage.ru_minflt});
  if (step.step < last)
    await_data(step.step, reads_a_step);
  else
    write_counts(mesh.rank());
}

const bool registered = register_hooks({.on_step = on_step});

}  // namespace
}  // namespace modular
