#include "runtime/mesh/machine_watch.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/mesh/agreement.h"
#include "runtime/mesh/print.h"
#include "runtime/mesh/rendezvous.h"

namespace modular {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kBetweenBeats = milliseconds(500);
constexpr auto kLongestLook = seconds(1);
constexpr auto kSilence = milliseconds(2500);  // after which a machine is reported
constexpr auto kGone = seconds(15);  // after which the machine ends the job; immediately if a collective has failed
constexpr auto kVerdict = milliseconds(4500);  // for silent_machine()

constexpr auto kFarewell = seconds(1);  // time for the store to receive it

const std::string kMachines = "machines", kSilent = "silent machine", kLeft = "left";

std::string name_key(int64_t machine) { return fmt::format("machine {}", machine); }
std::string beat_key(int64_t machine) { return fmt::format("beat of machine {}", machine); }

std::string get_text(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

struct MachineWatch::State {
  Environment environment;
  OnLost on_lost;
  pid_t launcher = getppid();
  std::atomic<bool> over = false;
  // Run time of this process without suspensions: the entire job may be suspended.
  std::atomic<milliseconds> awake = milliseconds(0);

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  bool has_left = false;      // the store has been notified, or is gone
  std::string silent;         // phrase that names the machine; empty while all machines respond
  milliseconds silent_since;  // value of `awake` at that time
  milliseconds answered;      // value of `awake` when the store last answered

  void set_silent(const std::string& machine, milliseconds since) {
    const std::lock_guard lock(mutex);
    if (machine == silent) return;
    const milliseconds already = awake.load() - since;
    if (!over && !machine.empty() && environment.local_rank == 0 && already < kGone)
      print_to(stderr, "rank {}: {} has shown no sign of life for {} s; it counts as gone after {} s\n",
               environment.rank, machine, std::chrono::round<seconds>(already).count(), kGone.count());
    silent = machine;
    silent_since = since;
  }

  bool is_silent() {
    const std::lock_guard lock(mutex);
    return !silent.empty();
  }

  milliseconds last_answer() {
    const std::lock_guard lock(mutex);
    return answered;
  }

  std::string store_machine() const {
    return fmt::format("rank 0's machine ({}), which holds the job's store,", environment.master_addr);
  }

  /// Sleeps between two beats; returns early at the end.
  void sleep() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, kBetweenBeats, [this] { return over.load(); });
  }

  /// Communicates with the store until it stops answering.
  void beat();
  /// Rank 0's part: finds the machine that has been silent for longest.
  void look_at_machines(c10d::Store& store);
  /// Decides whether a machine is lost, on a thread that waits for nothing else.
  void judge();

  struct Seen {
    std::string name;
    std::vector<uint8_t> beat;
    milliseconds changed;
  };
  std::map<int64_t, Seen> machines;  // on rank 0; only its thread uses it
};

namespace {
std::mutex watched_mutex;
std::weak_ptr<MachineWatch::State> watched;
}  // namespace

void MachineWatch::State::look_at_machines(c10d::Store& store) {
  const int64_t count = store.add(kMachines, 0);
  const milliseconds now = awake;
  const Seen* oldest = nullptr;
  for (int64_t machine = 1; machine <= count; ++machine) {
    if (!store.check({beat_key(machine)})) continue;  // it has just joined
    auto [entry, is_new] = machines.try_emplace(machine);
    Seen& seen = entry->second;
    if (is_new) seen.name = get_text(store.get(name_key(machine)));
    if (const auto beat = store.get(beat_key(machine)); is_new || beat != seen.beat) {
      seen.beat = beat;
      seen.changed = now;
    }
    const bool has_left = get_text(seen.beat) == kLeft;
    if (!has_left && (!oldest || seen.changed < oldest->changed)) oldest = &seen;
  }
  const bool is_silent = oldest && now - oldest->changed > kSilence;
  const std::string found = is_silent ? oldest->name : "";
  set_silent(found, is_silent ? oldest->changed : now);
  store.set(kSilent, std::vector<uint8_t>(found.begin(), found.end()));
}

void MachineWatch::State::beat() {
  std::optional<int64_t> machine;
  try {
    const Store store = connect_store(environment, std::chrono::minutes(5), /*may_host=*/false);
    for (int64_t count = 0; !over; ++count, sleep()) {
      if (environment.local_rank == 0) {
        if (!machine) {
          machine = store->add(kMachines, 1);
          const int64_t first = environment.rank, last = first + environment.local_world_size - 1;
          const std::string name = first == last ? fmt::format("{} (rank {})", host_name(), first)
                                                 : fmt::format("{} (ranks {} to {})", host_name(), first, last);
          store->set(name_key(*machine), std::vector<uint8_t>(name.begin(), name.end()));
        }
        const std::string number = std::to_string(count);
        store->set(beat_key(*machine), std::vector<uint8_t>(number.begin(), number.end()));
      }
      if (environment.rank == 0) {
        look_at_machines(*store);
      } else if (store->check({kSilent})) {
        const std::string found = get_text(store->get(kSilent));
        set_silent(found, awake.load() - kSilence);
      }
      const std::lock_guard lock(mutex);
      answered = awake;
    }
    if (machine) store->set(beat_key(*machine), std::vector<uint8_t>(kLeft.begin(), kLeft.end()));
  } catch (const std::exception&) {
    // The connection was closed, so the machine counts as lost at once. Rank 0 may have ended because of another
    // machine.
    if (!over && !is_silent()) set_silent(store_machine(), awake.load() - kGone);
  }
  const std::lock_guard lock(mutex);
  has_left = true;
  changed.notify_all();
}

void MachineWatch::State::judge() {
  for (auto looked = Clock::now(); !over; sleep()) {
    const auto elapsed = std::chrono::duration_cast<milliseconds>(Clock::now() - looked);
    looked = Clock::now();
    awake = awake.load() + std::min<milliseconds>(elapsed, kLongestLook);
    if (getppid() != launcher) {
      if (!over) on_lost("the launcher of this machine's ranks has ended without reporting why");
      return;
    }
    if (const milliseconds last = last_answer(); awake.load() - last > kSilence && !is_silent())
      set_silent(store_machine(), last);
    std::string lost;
    {
      const std::lock_guard lock(mutex);
      if (!silent.empty() && awake.load() - silent_since >= kGone) lost = silent;
    }
    if (lost.empty() || over) continue;
    on_lost(fmt::format("{} is gone", lost));
    return;
  }
}

std::unique_ptr<MachineWatch> MachineWatch::start(const Environment& environment, OnLost on_lost) {
  if (environment.one_machine() || !environment.store_prefix.empty() || !on_lost) return nullptr;
  auto state = std::make_shared<State>();
  state->environment = environment;
  state->on_lost = std::move(on_lost);
  state->silent_since = state->answered = milliseconds(0);
  {
    const std::lock_guard lock(watched_mutex);
    watched = state;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the other threads
  std::thread([state] { state->beat(); }).detach();
  std::thread([state] { state->judge(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::unique_ptr<MachineWatch>(new MachineWatch(std::move(state)));
}

MachineWatch::~MachineWatch() {
  std::unique_lock lock(state_->mutex);
  state_->over = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kFarewell, [this] { return state_->has_left; });
}

std::string silent_machine() {
  std::shared_ptr<MachineWatch::State> state;
  {
    const std::lock_guard lock(watched_mutex);
    state = watched.lock();
  }
  if (!state || state->over) return {};
  std::string found;
  for (const auto deadline = Clock::now() + kVerdict; found.empty() && Clock::now() < deadline;) {
    std::this_thread::sleep_for(milliseconds(100));
    const std::lock_guard lock(state->mutex);
    found = state->silent;
    if (found.empty() && state->awake.load() - state->answered > kSilence + kBetweenBeats)
      found = state->store_machine();
  }
  // Gives the others time to read it from the store, which may end with this rank.
  if (!found.empty() && state->environment.rank == 0) std::this_thread::sleep_for(2 * kBetweenBeats);
  return found;
}

}  // namespace modular
