// Includes everything that a generated model needs.
#pragma once

#include "runtime/model/attention.h"        // IWYU pragma: export
#include "runtime/model/attention_mask.h"   // IWYU pragma: export
#include "runtime/model/cache.h"            // IWYU pragma: export
#include "runtime/model/config.h"           // IWYU pragma: export
#include "runtime/model/dp.h"               // IWYU pragma: export
#include "runtime/model/embedding_head.h"   // IWYU pragma: export
#include "runtime/model/experts.h"          // IWYU pragma: export
#include "runtime/model/fsdp.h"             // IWYU pragma: export
#include "runtime/model/functions.h"        // IWYU pragma: export
#include "runtime/model/images.h"           // IWYU pragma: export
#include "runtime/model/init.h"             // IWYU pragma: export
#include "runtime/model/layers.h"           // IWYU pragma: export
#include "runtime/model/linear.h"           // IWYU pragma: export
#include "runtime/model/module.h"           // IWYU pragma: export
#include "runtime/model/outputs.h"          // IWYU pragma: export
#include "runtime/model/pairs.h"            // IWYU pragma: export
#include "runtime/model/plan.h"             // IWYU pragma: export
#include "runtime/model/pp.h"               // IWYU pragma: export
#include "runtime/model/registry.h"         // IWYU pragma: export
#include "runtime/model/rope.h"             // IWYU pragma: export
#include "runtime/model/sampled_softmax.h"  // IWYU pragma: export
#include "runtime/model/sentences.h"        // IWYU pragma: export
#include "runtime/model/state_space.h"      // IWYU pragma: export
#include "runtime/model/stored_as.h"        // IWYU pragma: export
#include "runtime/model/tasks.h"            // IWYU pragma: export
#include "runtime/model/tensors.h"          // IWYU pragma: export
#include "runtime/model/tp.h"               // IWYU pragma: export
