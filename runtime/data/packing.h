// Several documents in a row of tokens, each processed as if it were alone.
#pragma once

#include <cstdint>
#include <span>

namespace modular {

struct Packing {
  int64_t end_of_text = -1;       // token that ends a document; negative if only the end of a file does
  int64_t first_position = 0;     // position id of a document's first token
  bool is_next_predicted = true;  // labels are the next tokens, except across documents
};

/// Computes the documents of a row. The row's first token begins a document, whatever precedes it in the text.
/// - tokens [seq]; file_begins: indices in the row at which a file begins, ascending
/// - documents, positions [seq]: index of each token's document in the row, and its position id in the document
/// - labels [seq]: labels of tokens that nothing predicts become kIgnoredTarget
void pack(std::span<const int64_t> tokens, std::span<const int64_t> file_begins, const Packing& packing,
          std::span<int64_t> documents, std::span<int64_t> positions, std::span<int64_t> labels);

}  // namespace modular
