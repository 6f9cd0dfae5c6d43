// What backends of tests over Gloo share.
#pragma once

#include <chrono>
#include <string>

#include "runtime/mesh/rendezvous.h"

namespace modular::testing {

/// Of what was done when it was asked for.
class Done final : public c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
};

/// The Gloo beneath one, among the ranks of this machine.
inline c10::intrusive_ptr<c10d::Backend> gloo_beneath(const std::string& name, const Store& store, int rank, int size,
                                                      std::chrono::milliseconds timeout) {
  GroupSpec spec;
  spec.rank = rank;
  for (int other = 0; other < size; ++other) spec.ranks.push_back(other);
  spec.name = spec.description = name;
  spec.one_machine = true;
  spec.timeout = timeout;
  return make_gloo_backend(store, spec);
}

}  // namespace modular::testing
