// The base of beta.h.
#pragma once

#include "modular/modular.h"

namespace modular::alpha {
MODULAR_FAMILY(Alpha);

struct AlphaPatchConfig : Config {
  int64_t size = 4;
};

struct AlphaConfig : Config {
  int64_t hidden_size = 8;
  int64_t image_size = 16;

  void finish() {
    if (image_size % 4 != 0) throw ConfigError("image_size must be a multiple of 4");
  }
};

/// Prepares images; no module.
class AlphaImageProcessor {
 public:
  explicit AlphaImageProcessor(const AlphaConfig& config) : size(config.image_size), mean({0.5, 0.5, 0.5}) {}
  virtual ~AlphaImageProcessor() = default;

  Tensor operator()(const Tensor& image) const { return resized(image).div(255.0).sub(mean[0]); }

 protected:
  Tensor resized(const Tensor& image) const { return image.narrow(-1, 0, size); }

  int64_t size;
  std::vector<double> mean;
};

/// No class derives from it: its constructors may call one another.
struct AlphaRange {
  AlphaRange() : AlphaRange(0, 1) {}
  explicit AlphaRange(int64_t end) : AlphaRange(0, end) { is_whole = true; }
  AlphaRange(int64_t begin, int64_t end) : begin(begin), end(end) {}
  int64_t begin, end;
  bool is_whole = false;
};

struct AlphaTokenizerSettings {
  std::string unknown = "<unk>";
  std::vector<std::string> special = {"<s>", unknown};
};

inline AlphaImageProcessor alpha_processor() { return AlphaImageProcessor(AlphaConfig()); }

}  // namespace modular::alpha
