#include "runtime/data/packing.h"

#include <algorithm>

#include "runtime/model/tensors.h"

namespace modular {

void pack(std::span<const int64_t> tokens, std::span<const int64_t> file_begins, const Packing& packing,
          std::span<int64_t> documents, std::span<int64_t> positions, std::span<int64_t> labels) {
  int64_t document = 0, begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const bool begins =
        i > 0 && (tokens[i - 1] == packing.end_of_text || std::ranges::binary_search(file_begins, index));
    if (begins) ++document, begin = index;
    if (begins && packing.is_next_predicted) labels[i] = kIgnoredTarget;
    documents[i] = document;
    positions[i] = packing.first_position + index - begin;
  }
}

}  // namespace modular
