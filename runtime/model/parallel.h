// What a model is bound to while it runs. Generated models reach the runtime through it and through nothing else.
#pragma once

#include <utility>

namespace modular {

struct SampledClasses;

namespace cache {
class Cache;
}
namespace dp {
class DataParallel;
}
namespace dropout {
class Draws;
}
namespace fsdp {
class Units;
}
namespace init {
class Initializer;
}
namespace pp {
class Stage;
}
namespace routing {
class Balance;
}
namespace sentences {
class Objective;
}
namespace tp {
class TensorParallel;
}

/// What the runtime does in a model's place. Null means that there is nothing to do: a model that is bound to nothing
/// is a whole one, in one process.
struct Parallel {
  fsdp::Units* units = nullptr;               // gathers, frees and recomputes units; null: they are plain calls
  tp::TensorParallel* tp = nullptr;           // null where tp is 1
  pp::Stage* stage = nullptr;                 // null where there is one stage
  dp::DataParallel* dp = nullptr;             // null where no ranks share a batch's rows
  cache::Cache* cache = nullptr;              // null where a forward sees whole sequences
  dropout::Draws* dropout = nullptr;          // null where nothing is dropped, or libtorch draws
  routing::Balance* routing = nullptr;        // null where experts are not balanced
  sentences::Objective* sentences = nullptr;  // null where a forward's own sentences are compared, in the usual way
  const SampledClasses* sampled = nullptr;    // null where losses are over all classes
  init::Initializer* initializer = nullptr;   // null where parameters are written in place
};

/// What the model that runs on this thread is bound to. What runs later, as a backward does, and perhaps on another
/// thread, keeps a copy and binds it again.
constinit inline thread_local Parallel bound;

/// Binds what runs on this thread to `parallel` for a scope, so that several models, and a replica of one on each of
/// several threads, live in one process.
class Binding {
 public:
  explicit Binding(const Parallel& parallel) : outer_(std::exchange(bound, parallel)) {}
  ~Binding() { bound = outer_; }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

 private:
  Parallel outer_;
};

}  // namespace modular
