// Messages between rank 0, which has a run's folder, and another rank, which does not. They are ordered between two
// ranks. A background thread may send them: they are point-to-point messages on a process group of their own.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "runtime/mesh/mesh.h"

namespace modular {

/// Process group of these messages. The first call is collective over the world.
ProcessGroup message_group(Mesh& mesh);

// Each returns when the other rank has the message, and throws CollectiveError if that rank is gone. Tensors are
// contiguous and in host memory; tensors without values are not sent.

void send_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);
void receive_values(const ProcessGroup& group, int64_t rank, const at::Tensor& values);

void send_number(const ProcessGroup& group, int64_t rank, int64_t number);
int64_t receive_number(const ProcessGroup& group, int64_t rank);

void send_text(const ProcessGroup& group, int64_t rank, std::string text);
std::string receive_text(const ProcessGroup& group, int64_t rank);

}  // namespace modular
