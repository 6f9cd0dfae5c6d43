// Losses for sentence embeddings, as in Sentence Transformers.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace modular {

struct SentenceOptions {
  std::string loss;              // name in sentence_losses(); chosen from the data if empty
  double scale = 20.0;           // factor of cosines in a softmax: 1 / temperature
  std::optional<double> margin;  // margin of distances; default of the loss if not set
  std::string distance;          // "cosine" or "euclidean"; default of the loss if empty
};

/// Table entry of a loss.
struct SentenceLoss {
  std::string_view name;
  int64_t least_texts, most_texts;  // texts per sample
  enum class Labels {
    none,    // only mark which samples count
    groups,  // samples with the same label belong together
    alike,   // 1 for texts that belong together, 0 for others
    scores,  // similarity of the two texts
  } labels;
  bool compares_samples;  // compares the samples of a step with one another
  /// - embeddings [samples, texts, hidden] float32
  /// - labels [samples]; kIgnoredTarget for samples that do not count
  /// - returns [samples] float32, 0 for those
  at::Tensor (*losses)(const at::Tensor& embeddings, const at::Tensor& labels, const SentenceOptions& options);
  /// Returns [samples]: kIgnoredTarget for samples without a loss.
  at::Tensor (*targets)(const at::Tensor& labels);
};

const std::vector<SentenceLoss>& sentence_losses();

/// Returns the loss that the options name, or else the loss that suits samples with this number of texts, whose labels
/// may be floating-point numbers.
const SentenceLoss& find_sentence_loss(const SentenceOptions& options, int64_t texts, bool labels_are_numbers);

/// Returns why the loss that the options name does not suit samples with this number of texts; empty if it does. `key`
/// is the config key of the loss.
std::string sentence_error(const SentenceOptions& options, int64_t texts, bool has_labels, bool labels_are_numbers,
                           const std::string& key = "sentences.loss");

}  // namespace modular
