// What sentence embeddings can be trained for: the losses of Sentence Transformers.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

struct SentenceOptions {
  std::string loss;              // a name of sentence_losses(); what suits the data when empty
  double scale = 20.0;           // of cosines in a softmax: one over the temperature
  std::optional<double> margin;  // of distances; the loss's own when not given
  std::string distance;          // "cosine" or "euclidean"; the loss's own when empty
};

/// A row of the table of losses.
struct SentenceLoss {
  std::string_view name;
  int64_t least_texts, most_texts;  // that a sample has
  enum class Labels {
    none,    // only say which samples count
    groups,  // samples of one label belong together
    alike,   // 1 for texts that belong together, 0 for others
    scores,  // how near the two texts are
  } labels;
  bool compares_samples;  // of a whole step with one another
  /// - embeddings [samples, texts, hidden] float32
  /// - labels [samples]; kIgnoredTarget for samples that do not count
  /// - returns [samples] float32, 0 for those
  at::Tensor (*losses)(const at::Tensor& embeddings, const at::Tensor& labels, const SentenceOptions& options);
  /// The samples that have a loss, and kIgnoredTarget for others: [samples].
  at::Tensor (*targets)(const at::Tensor& labels);
};

const std::vector<SentenceLoss>& sentence_losses();

/// The loss that the options name, or else the one that suits samples of so many texts, whose labels may be numbers.
const SentenceLoss& find_sentence_loss(const SentenceOptions& options, int64_t texts, bool labels_are_numbers);

/// Says in a sentence why the loss that the options name does not suit samples of so many texts, or nothing.
/// `key` is what the loss is a setting of.
std::string sentence_error(const SentenceOptions& options, int64_t texts, bool has_labels, bool labels_are_numbers,
                           const std::string& key = "sentences.loss");

}  // namespace modular
