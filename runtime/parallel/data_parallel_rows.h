// Gathering rows of data-parallel ranks over a process group.
#pragma once

#include <memory>

#include "runtime/mesh/mesh.h"
#include "runtime/model/dp.h"

namespace modular {

/// For the ranks of `group`, whose numbers in it are those of their shares of a batch.
std::unique_ptr<dp::DataParallel> make_data_parallel(ProcessGroup group);

}  // namespace modular
