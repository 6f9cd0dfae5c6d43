// The contract in double precision: what it widens to float32 is double in a program that includes this first, so that
// what ranks compute can be held to what one process computes within rounding of double. All of such a program's
// sources have to, for the contract is inline.
#pragma once

// Headers that the contract includes from outside of it, before its name for float32 means another type.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#define kFloat kDouble
#include "runtime/model/model.h"
#include "runtime/model/one_of.h"
#undef kFloat
