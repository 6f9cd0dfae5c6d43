// Process groups for a rank whose peers do not exist.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace modular {

/// Shared by the ranks of a pipeline, which run one after another.
struct FakePeers {
  std::map<int, std::vector<int64_t>> shapes;   // activation shapes by tag, as their senders described them
  std::map<int, std::vector<int64_t>> guessed;  // shapes received before their sender ran, guessed from another stage

  /// Whether all guesses were right.
  bool guessed_right() const;
};

/// During its lifetime, this thread's meshes have groups whose collectives and messages complete immediately and do not
/// change their tensors.
class FakeGroups {
 public:
  explicit FakeGroups(std::shared_ptr<FakePeers> peers);
  ~FakeGroups();
  FakeGroups(const FakeGroups&) = delete;
  FakeGroups& operator=(const FakeGroups&) = delete;
};

}  // namespace modular
