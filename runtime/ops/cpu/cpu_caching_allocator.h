// Memory that a step frees stays with the process for the next step.
#pragma once

namespace modular::cpu {

/// Has the C library keep what is freed, and take large pieces from where the kernel gives pages of 2 MiB, if it gives
/// such when asked (/sys/kernel/mm/transparent_hugepage/enabled). Otherwise each step gets its activations and
/// gradients again from the kernel, page by page, and gives them back. Tensors on CPUs then get their memory from an
/// allocator of ours in place of libtorch's, so that one fits where one of its size was before; where there is none
/// left it throws c10::Error, as libtorch's does. To be called before tensors are made. False
/// where the allocator that the program is compiled for is not glibc's; nothing is done then.
bool install_cpu_caching_allocator();

}  // namespace modular::cpu
