// Process groups for a rank whose peers are not there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace modular {

/// What ranks of a pipeline, which are run one after another, have to know of one another.
struct FakePeers {
  std::map<int, std::vector<int64_t>> shapes;   // of activations by tag, as their senders described them
  std::map<int, std::vector<int64_t>> guessed;  // described before their sender had run: as those of another stage

  /// Whether all that was guessed was right.
  bool guessed_right() const;
};

/// While one lives, this thread's meshes have groups whose collectives and messages are done at once and leave their
/// tensors as they are.
class FakeGroups {
 public:
  explicit FakeGroups(std::shared_ptr<FakePeers> peers);
  ~FakeGroups();
  FakeGroups(const FakeGroups&) = delete;
  FakeGroups& operator=(const FakeGroups&) = delete;
};

}  // namespace modular
