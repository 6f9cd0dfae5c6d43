#include "runtime/advise/layouts.h"

#include <algorithm>

#include "runtime/advise/stages_on_ranks.h"

namespace modular {
namespace {

/// Adds `mesh` with every ZeRO stage, recomputation and offloading option.
void add_with_memory_options(std::vector<Layout>& layouts, const Layout& mesh, const LayoutSearch& search) {
  std::vector<Offloaded> offloads = {Offloaded::nothing};
  if (search.offloads) offloads = {Offloaded::nothing, Offloaded::optimizer, Offloaded::parameters};
  for (int64_t stage = mesh.dp_shard > 1 ? 1 : 3; stage <= 3; ++stage)
    for (size_t keeping = 0; keeping < search.keepings; ++keeping)
      for (const Offloaded offload : offloads) {
        // Parameters that are gathered once per step cannot stay in host memory between units.
        if (offload == Offloaded::parameters && stage < 3) continue;
        Layout layout = mesh;
        layout.zero_stage = stage;
        layout.keeping = keeping;
        layout.offload = offload;
        layouts.push_back(layout);
      }
}

void add_with_micro_batches(std::vector<Layout>& layouts, Layout mesh, const LayoutSearch& search) {
  for (const int64_t micro_batches : find_divisors(search.rows / mesh.data_parallel())) {
    mesh.micro_batches = micro_batches;
    if (mesh.pp == 1) {
      add_with_memory_options(layouts, mesh, search);
      continue;
    }
    for (const std::string& schedule : search.schedules) {
      mesh.schedule = schedule;
      const KnownSchedule& known = find_schedule(mesh);
      if (!search.makes(mesh.pp * known.usual_stages)) continue;
      if (!known.error(mesh.pp, known.usual_stages, micro_batches).empty()) continue;
      add_with_memory_options(layouts, mesh, search);
    }
  }
}

}  // namespace

std::vector<int64_t> find_divisors(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t divisor = 1; divisor * divisor <= number; ++divisor) {
    if (number % divisor != 0) continue;
    small.push_back(divisor);
    if (divisor != number / divisor) large.push_back(number / divisor);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

std::vector<Layout> find_layouts(const Cluster& cluster, const LayoutSearch& search) {
  std::vector<Layout> layouts;
  const int64_t devices = cluster.devices();
  for (const int64_t tp : find_divisors(cluster.per_node)) {
    if (!search.divides(tp)) continue;
    for (const int64_t pp : find_divisors(devices / tp))
      for (const int64_t dp_shard : find_divisors(devices / tp / pp)) {
        Layout mesh{.pp = pp, .dp_replicate = devices / tp / pp / dp_shard, .dp_shard = dp_shard, .tp = tp};
        if (search.rows % mesh.data_parallel() == 0) add_with_micro_batches(layouts, mesh, search);
      }
  }
  return layouts;
}

}  // namespace modular
