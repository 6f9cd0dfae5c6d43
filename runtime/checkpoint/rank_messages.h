// Messages between rank 0, which has a run's folder, and another rank, which has not. Between two ranks they keep their
// order. A thread beside the steps may exchange them: they are no collectives, and have a group to themselves.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "runtime/mesh/mesh.h"

namespace modular {

/// The group of these messages. The first call is collective over the world.
ProcessGroup message_group(Mesh& mesh);

// Each returns when the other rank has the message, and throws CollectiveError where that rank has gone. Tensors are
// contiguous and in host memory; those without values are no message.

void send_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);
void receive_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);

void send_number(const ProcessGroup& group, int64_t rank, int64_t number);
int64_t receive_number(const ProcessGroup& group, int64_t rank);

void send_text(const ProcessGroup& group, int64_t rank, std::string text);
std::string receive_text(const ProcessGroup& group, int64_t rank);

}  // namespace modular
