// Several documents in a row of a text, each read as if it were alone.
#pragma once

#include <cstdint>
#include <span>

namespace modular {

struct Packing {
  int64_t end_of_text = -1;       // the token that ends a document; negative where only the end of a file does
  int64_t first_position = 0;     // that the model counts a document's tokens from
  bool is_next_predicted = true;  // from each token the next one, but for the first of another document
};

/// A row's documents. Its first token begins one, whatever stands before it in the text.
/// - tokens [seq]; file_begins: places of the row at which a file begins, ascending
/// - documents, positions [seq]: the number of each token's document, counted in the row, and its place in that
/// - labels [seq]: those of tokens that nothing predicts become kIgnoredTarget
void pack(std::span<const int64_t> tokens, std::span<const int64_t> file_begins, const Packing& packing,
          std::span<int64_t> documents, std::span<int64_t> positions, std::span<int64_t> labels);

}  // namespace modular
