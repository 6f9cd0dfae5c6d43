// Values that are kept as long as they were used more recently than others that take the room.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

namespace modular {

/// Of values under keys, those that were asked for last, up to `room` of what they take together, but at least one.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(int64_t room) : room_(room) {}

  /// The value of `key`, or null. Valid until another is added.
  Value* find(const Key& key) {
    for (auto one = kept_.begin(); one != kept_.end(); ++one) {
      if (one->key != key) continue;
      kept_.splice(kept_.begin(), kept_, one);
      return &kept_.front().value;
    }
    return nullptr;
  }

  /// Keeps a value, of a key that has none, which takes `taken`, in place of what was not asked for longest.
  Value& add(Key key, Value value, int64_t taken) {
    kept_.push_front({std::move(key), std::move(value), taken});
    taken_ += taken;
    for (; taken_ > room_ && kept_.size() > 1; kept_.pop_back()) taken_ -= kept_.back().taken;
    return kept_.front().value;
  }

 private:
  struct Kept {
    Key key;
    Value value;
    int64_t taken;
  };
  std::list<Kept> kept_;  // the last used first
  int64_t room_, taken_ = 0;
};

}  // namespace modular
