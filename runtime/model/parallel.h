// The runtime interfaces that a model is bound to while it runs. Generated models reach the runtime only through them.
#pragma once

#include <utility>

namespace modular {

struct SampledClasses;

namespace cache {
class Cache;
}
namespace cp {
class Context;
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
class SequenceParallel;
class TensorParallel;
}  // namespace tp

/// The parts of a model's execution that the runtime takes over. A null member means the default behavior: an unbound
/// model runs unsharded in one process.
struct Parallel {
  fsdp::Units* units = nullptr;               // unshards, reshards and recomputes units; null: units are plain calls
  tp::TensorParallel* tp = nullptr;           // null if tp is 1
  tp::SequenceParallel* sequence = nullptr;   // null if each tp rank has all positions between layers
  pp::Stage* stage = nullptr;                 // null if there is only one stage
  dp::DataParallel* dp = nullptr;             // null if each rank has its own batch
  cp::Context* context = nullptr;             // null if each rank has all positions of its sequences
  cache::Cache* cache = nullptr;              // null if a forward sees full sequences
  dropout::Draws* dropout = nullptr;          // null if there is no dropout, or libtorch's RNG is used
  routing::Balance* routing = nullptr;        // null if experts are not balanced
  sentences::Objective* sentences = nullptr;  // null: default losses over the sentences of one forward
  const SampledClasses* sampled = nullptr;    // null if losses are over all classes
  init::Initializer* initializer = nullptr;   // null if parameters are initialized in place
};

/// The interfaces bound to the model that runs on this thread. Work that runs later, such as a backward, and possibly
/// on another thread, keeps a copy and binds it again.
constinit inline thread_local Parallel bound;

/// Binds this thread to `parallel` for a scope. This allows several models in one process, and one replica of a model
/// on each of several threads.
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
