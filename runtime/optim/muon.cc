// Muon (Jordan et al., Muon: An optimizer for hidden layers in neural networks), as in torch.optim.Muon: the momentum
// of a matrix is made nearly orthogonal. Each expert's matrix in a stack is a matrix of its own.
//
// Orthogonalization needs the full matrix. Ranks that share parameters divide the work: the pieces of n matrices are
// sent to n ranks, each rank assembles and orthogonalizes one full matrix, and the pieces of the results are sent back.
// No rank holds more than one full matrix.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/mesh/collectives.h"
#include "runtime/optim/update_rule.h"

namespace modular {
namespace {

const std::vector<Axis>& kAxes = kStageAxes;

std::vector<ShardedParameter> state(const ShardedParameter& parameter, const OptimizerOptions&, const Mesh&) {
  return {state_like(parameter, "momentum_buffer")};
}

/// The zeroth power of `matrix` [rows, columns] bfloat16 by a Newton-Schulz iteration with a quintic polynomial. It
/// does not converge but is steep at 0: singular values end up between about 0.7 and 1.2.
at::Tensor orthogonalize(at::Tensor matrix, int64_t steps) {
  constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315, kEps = 1e-7;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  if (is_tall) matrix = matrix.t();
  matrix = matrix / at::linalg_vector_norm(matrix).clamp_min(kEps);
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = at::mm(matrix, matrix.t());
    const at::Tensor polynomial = at::addmm(gram, gram, gram, kB, kC);
    matrix = at::addmm(matrix, polynomial, matrix, kA, 1.0);
  }
  return is_tall ? matrix.t() : matrix;
}

double rate_factor(const std::string& adjustment, double rows, double columns) {
  if (adjustment == "original") return std::sqrt(std::max(1.0, rows / columns));
  return 0.2 * std::sqrt(std::max(rows, columns));
}

/// One of the matrices that are updated together.
struct Matrix {
  size_t parameter = 0;  // its index
  int64_t expert = 0;    // its index in a stack
  int64_t rows = 0, columns = 0;
};

/// Largest first, so that the ranks of a round have equal work.
std::vector<Matrix> find_matrices(std::span<const Updated> parameters) {
  std::vector<Matrix> matrices;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<int64_t>& shape = parameters[i].parameter->global_shape;
    const bool is_stack = shape.size() == 3;
    for (int64_t expert = 0; expert < (is_stack ? shape[0] : 1); ++expert)
      matrices.push_back({i, expert, shape[is_stack], shape[is_stack + 1]});
  }
  std::ranges::stable_sort(matrices, std::ranges::greater{},
                           [](const Matrix& matrix) { return matrix.rows * matrix.columns; });
  return matrices;
}

/// The part of one of the parameter's matrices that a slice holds; nullopt if it holds none.
std::optional<ParameterSlice> restrict_to_matrix(const ParameterSlice& slice, const Matrix& matrix) {
  if (slice.shape.size() == 2) return slice;
  const int64_t expert = matrix.expert - slice.offset[0];
  if (expert < 0 || expert >= slice.shape[0]) return {};
  ParameterSlice part = slice;
  part.offset[0] = matrix.expert;
  part.start[0] += expert;
  part.shape[0] = 1;
  return part;
}

/// Calls visit(slice, first) for each of a rank's slices of a matrix; `first` is true if no earlier rank holds it.
template <class Visit>
void for_each_piece(const Updated& updated, size_t rank, const Matrix& matrix, const Visit& visit) {
  const std::vector<ParameterSlice>& slices = updated.holders->slices[rank];
  for (size_t i = 0; i < slices.size(); ++i)
    if (const auto piece = restrict_to_matrix(slices[i], matrix)) visit(*piece, updated.holders->first[rank][i]);
}

/// The view of `piece` in the full matrix [rows, columns].
at::Tensor in_full(const ParameterSlice& piece, const at::Tensor& full) {
  const size_t first = piece.shape.size() - 2;
  return full.narrow(0, piece.offset[first], piece.shape[first])
      .narrow(1, piece.offset[first + 1], piece.shape[first + 1]);
}

/// Consecutive runs of elements, one for each rank of a group.
struct Runs {
  std::vector<at::Tensor> pieces;
  std::vector<int64_t> sizes;

  explicit Runs(size_t ranks) : sizes(ranks, 0) {}
  void add(size_t rank, const at::Tensor& piece) {
    pieces.push_back(piece.reshape(-1));
    sizes[rank] += piece.numel();
  }
};

/// Sends each rank its run and returns the received runs; `sizes` are their lengths by rank.
at::Tensor send_runs(const ProcessGroup& group, const Runs& runs, const std::vector<int64_t>& sizes,
                     const at::TensorOptions& options, const char* what) {
  const at::Tensor sent = runs.pieces.empty() ? at::empty({0}, options) : at::cat(runs.pieces);
  at::Tensor received = at::empty({std::reduce(sizes.begin(), sizes.end())}, options);
  all_to_all(group, received, sizes, sent, runs.sizes, what).wait();
  return received;
}

/// Reads consecutive pieces of the received elements.
class Reader {
 public:
  explicit Reader(at::Tensor values) : values_(std::move(values)) {}
  at::Tensor next(at::IntArrayRef shape) {
    const int64_t size = c10::multiply_integers(shape);
    return values_.narrow(0, std::exchange(at_, at_ + size), size).view(shape);
  }

 private:
  at::Tensor values_;
  int64_t at_ = 0;
};

/// Updates one matrix per rank: rank i assembles the i-th. `directions` are the parameters' slices of the matrices to
/// orthogonalize, bfloat16.
void update_round(std::span<const Matrix> round, std::span<const Updated> parameters,
                  const std::vector<at::Tensor>& directions, const Step& step) {
  const ProcessGroup group = step.mesh.group(kAxes);
  const size_t ranks = group ? static_cast<size_t>(group->getSize()) : 1;
  const size_t own = group ? static_cast<size_t>(group->getRank()) : 0;
  const auto options = directions.front().options();
  const auto updated_by = [&](size_t rank) -> const Updated& { return parameters[round[rank].parameter]; };

  Runs to_full(ranks), to_pieces(ranks);
  std::vector<int64_t> sizes(ranks, 0), sizes_back(ranks, 0);
  for (size_t rank = 0; rank < round.size(); ++rank)
    for_each_piece(updated_by(rank), own, round[rank], [&](const ParameterSlice& piece, bool first) {
      if (first) to_full.add(rank, piece.in_local(directions[round[rank].parameter]));
      sizes_back[rank] += c10::multiply_integers(piece.shape);
    });
  if (own < round.size())
    for (size_t rank = 0; rank < ranks; ++rank)
      for_each_piece(updated_by(own), rank, round[own], [&](const ParameterSlice& piece, bool first) {
        if (first) sizes[rank] += c10::multiply_integers(piece.shape);
      });

  Reader pieces(send_runs(group, to_full, sizes, options, "pieces of matrices"));
  if (own < round.size()) {
    at::Tensor full = at::empty({round[own].rows, round[own].columns}, options);
    const auto each = [&](bool only_first, const auto& visit) {
      for (size_t rank = 0; rank < ranks; ++rank)
        for_each_piece(updated_by(own), rank, round[own], [&](const ParameterSlice& piece, bool first) {
          if (first || !only_first) visit(rank, in_full(piece, full));
        });
    };
    each(/*only_first=*/true, [&](size_t, const at::Tensor& piece) { piece.copy_(pieces.next(piece.sizes())); });
    full = orthogonalize(full, step.options.ns_steps);
    each(/*only_first=*/false, [&](size_t rank, const at::Tensor& piece) { to_pieces.add(rank, piece); });
  }

  Reader results(send_runs(group, to_pieces, sizes_back, options, "pieces of orthogonal matrices"));
  for (size_t rank = 0; rank < round.size(); ++rank) {
    const double factor = rate_factor(step.options.adjust_lr, static_cast<double>(round[rank].rows),
                                      static_cast<double>(round[rank].columns));
    for_each_piece(updated_by(rank), own, round[rank], [&](const ParameterSlice& piece, bool) {
      piece.in_local(updated_by(rank).parameter->local).add_(results.next(piece.shape), -step.lr * factor);
    });
  }
}

void update(std::span<const Updated> parameters, const Step& step) {
  if (parameters.empty()) return;
  std::vector<at::Tensor> directions;
  for (const auto& [parameter, momentum, holders] : parameters) {
    at::Tensor buffer = momentum[0].local;
    buffer.lerp_(parameter->grad, 1.0 - step.options.momentum);
    const at::Tensor direction = step.options.nesterov ? parameter->grad.lerp(buffer, step.options.momentum) : buffer;
    directions.push_back(direction.to(at::kBFloat16));
    parameter->local.mul_(1.0 - step.lr * step.weight_decay);
  }
  const std::vector<Matrix> matrices = find_matrices(parameters);
  const size_t ranks = parameters.front().holders->slices.size();
  for (size_t begin = 0; begin < matrices.size(); begin += ranks)
    update_round(std::span(matrices).subspan(begin, std::min(ranks, matrices.size() - begin)), parameters, directions,
                 step);
}

}  // namespace

const UpdateRule kMuon = {.state = state, .update = update, .axes = kAxes};

}  // namespace modular
