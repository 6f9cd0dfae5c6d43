#pragma once

namespace modular {

/// Makes at::linear a single node of the graph in the entire program. libtorch builds it from a matmul with a
/// transposed view, whose gradient is a view too. autograd does not accumulate in place into views, so the gradient of
/// a matrix that is used twice, such as a tied embedding, takes three times its memory. Without a graph, or if the
/// operands are not a floating-point matrix and vector, the call stays libtorch's, except for GEMMs that are faster on
/// a GPU when padded (padded_gemm.h). Calling it again does nothing.
void install_linear();

}  // namespace modular
