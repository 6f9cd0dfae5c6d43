// A least-recently-used cache.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace modular {

/// Keeps the most recently used values, up to a total size of `room`, but at least one.
template <class Key, class Value>
class RecentlyUsed {
 public:
  explicit RecentlyUsed(int64_t room) : room_(room) {}

  /// The value of `key`, or null. Valid until another is added.
  Value* find(const Key& key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    kept_.splice(kept_.begin(), kept_, found->second);
    return &kept_.front().value;
  }

  /// Adds a value of size `taken` for a new key, and evicts the least recently used ones.
  Value& add(Key key, Value value, int64_t taken) {
    kept_.push_front({key, std::move(value), taken});
    index_[std::move(key)] = kept_.begin();
    taken_ += taken;
    while (taken_ > room_ && kept_.size() > 1) {
      taken_ -= kept_.back().taken;
      index_.erase(kept_.back().key);
      kept_.pop_back();
    }
    return kept_.front().value;
  }

 private:
  struct Kept {
    Key key;
    Value value;
    int64_t taken;
  };
  std::list<Kept> kept_;  // most recently used first
  std::unordered_map<Key, typename std::list<Kept>::iterator> index_;
  int64_t room_, taken_ = 0;
};

}  // namespace modular
