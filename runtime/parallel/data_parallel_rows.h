// All-gather of rows over data-parallel ranks.
#pragma once

#include <memory>

#include "runtime/mesh/mesh.h"
#include "runtime/model/dp.h"

namespace modular {

/// Returns the implementation over `group`. A rank's index in the group is the index of its part of a batch.
std::unique_ptr<dp::DataParallel> make_data_parallel(ProcessGroup group);

}  // namespace modular
