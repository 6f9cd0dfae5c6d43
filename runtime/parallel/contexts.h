// The runtime's end of the inline pointers through which generated models reach it.
#pragma once

#include <utility>

#include "runtime/model/cache.h"
#include "runtime/model/dp.h"
#include "runtime/model/dropout.h"
#include "runtime/model/experts.h"
#include "runtime/model/fsdp.h"
#include "runtime/model/pp.h"
#include "runtime/model/tp.h"

namespace modular {

/// What a model finds while it runs; null means identity.
struct Contexts {
  fsdp::Units* units = nullptr;
  tp::TensorParallel* tensor_parallel = nullptr;
  pp::Stage* stage = nullptr;
  dp::DataParallel* data_parallel = nullptr;
  cache::Cache* cache = nullptr;
  dropout::Draws* dropout = nullptr;
  routing::Balance* routing = nullptr;
};

/// Installs contexts for a scope, so that several models can live in one process.
class InstalledContexts {
 public:
  explicit InstalledContexts(const Contexts& contexts)
      : outer_{std::exchange(fsdp::units, contexts.units),       std::exchange(tp::context, contexts.tensor_parallel),
               std::exchange(pp::stage, contexts.stage),         std::exchange(dp::context, contexts.data_parallel),
               std::exchange(cache::context, contexts.cache),    std::exchange(dropout::context, contexts.dropout),
               std::exchange(routing::context, contexts.routing)} {}
  ~InstalledContexts() {
    fsdp::units = outer_.units;
    tp::context = outer_.tensor_parallel;
    pp::stage = outer_.stage;
    dp::context = outer_.data_parallel;
    cache::context = outer_.cache;
    dropout::context = outer_.dropout;
    routing::context = outer_.routing;
  }
  InstalledContexts(const InstalledContexts&) = delete;
  InstalledContexts& operator=(const InstalledContexts&) = delete;

 private:
  Contexts outer_;
};

}  // namespace modular
