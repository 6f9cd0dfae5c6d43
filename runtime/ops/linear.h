#pragma once

namespace modular {

/// From here on has at::linear be one node of the graph, in all of the program. libtorch makes it of a product with a
/// transposed view, whose gradient is a view too; autograd adds nothing to such in its place, so that the gradient of a
/// matrix that serves twice, as tied embeddings do, takes its memory three times. Where no graph is built, and of other
/// than a matrix and a vector of real numbers, it stays libtorch's, but for products that a GPU makes faster when
/// padded (padded_gemm.h). Calling it again does nothing.
void install_linear();

}  // namespace modular
