// Published step times of other systems on known clusters.
#pragma once

#include <string>
#include <vector>

#include "runtime/advise/cluster.h"
#include "runtime/advise/layout.h"
#include "tests/advise/transformer_profile.h"

namespace modular::testing {

struct PublishedStep {
  std::string source, name;
  DecoderSizes sizes;
  int64_t tokens;       // per row
  Recompute recompute;  // closest option of this runtime
  Layout layout;
  double rows;            // per micro-batch
  double seconds;         // measured step time
  bool sequence = false;  // whether tp ranks divide the positions between layers
};

/// Rows of one table or system. The first row calibrates the attained fraction of the device's peak.
struct PublishedTable {
  std::string devices;
  Cluster cluster;    // except nodes
  bool keeps_scores;  // whether attention scores are stored (no fused attention)
  std::vector<PublishedStep> steps;
};

const std::vector<PublishedTable>& published_tables();

/// Step time predicted by runtime/advise if devices attain the fraction `attained` of their peak.
double predicted_seconds(const PublishedTable& table, const PublishedStep& step, double attained);

/// Fraction of the peak for which the prediction of the table's first step equals the measurement.
double fitted_fraction(const PublishedTable& table);

}  // namespace modular::testing
