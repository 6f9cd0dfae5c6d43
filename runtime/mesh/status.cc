#include "runtime/mesh/status.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <type_traits>

namespace modular {
namespace {

/// Layout of the file.
struct Page {
  char phase[256];  // null-terminated, like the next one
  char waiting[256];
  std::atomic<uint64_t> beats;
  std::atomic<uint64_t> frozen_after;  // seconds
};
static_assert(std::is_standard_layout_v<Page> && sizeof(Page) == 528 && std::atomic<uint64_t>::is_always_lock_free);

constexpr auto kBeat = std::chrono::milliseconds(250);

Page* page() {
  static Page in_memory = {};
  static Page* const mapped = [] {
    const char* file = std::getenv("MODULAR_STATUS_FILE");
    if (!file || !*file) return &in_memory;
    const int descriptor = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (descriptor < 0) return &in_memory;
    void* memory = MAP_FAILED;
    if (ftruncate(descriptor, sizeof(Page)) == 0)
      memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    return memory == MAP_FAILED ? &in_memory : static_cast<Page*>(memory);
  }();
  return mapped;
}

template <size_t size>
void write(char (&field)[size], std::string_view text) {
  field[text.copy(field, size - 1)] = '\0';
}

Status from_page(const Page& page) {
  return {std::string(page.phase, strnlen(page.phase, sizeof(page.phase))),
          std::string(page.waiting, strnlen(page.waiting, sizeof(page.waiting)))};
}

void read_page(const std::string& file, Page& page) {
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(&page), sizeof(page));
}

}  // namespace

void set_phase(std::string_view phase) { write(page()->phase, phase); }
void set_waiting(std::string_view waiting) { write(page()->waiting, waiting); }
Status current_status() { return from_page(*page()); }

Status read_status(const std::string& file) {
  Page page = {};
  read_page(file, page);
  return from_page(page);
}

void begin_heartbeat(std::chrono::seconds frozen_after) {
  static std::atomic<bool> has_begun = false;
  const char* file = std::getenv("MODULAR_STATUS_FILE");
  if (!file || !*file || has_begun.exchange(true)) return;
  page()->beats.fetch_add(1);
  page()->frozen_after = static_cast<uint64_t>(frozen_after.count());
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the other threads
  std::thread([page = page()] {
    for (;; std::this_thread::sleep_for(kBeat)) page->beats.fetch_add(1, std::memory_order_relaxed);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Heartbeat read_heartbeat(const std::string& file) {
  Page page = {};
  read_page(file, page);
  return {page.beats, std::chrono::seconds(page.frozen_after)};
}

}  // namespace modular
