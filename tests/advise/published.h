// Steps that others have measured on known clusters, as they have published them.
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
  int64_t tokens;       // of a row
  Recompute recompute;  // as far as ours has it
  Layout layout;
  double rows;     // of a micro-batch
  double seconds;  // of a step, measured
};

/// Rows of one table or system, of which the first tells what share of its peak a device attains there.
struct PublishedTable {
  std::string devices;
  Cluster cluster;    // but for nodes
  bool keeps_scores;  // of attention, which no fused operation computes there
  std::vector<PublishedStep> steps;
};

const std::vector<PublishedTable>& published_tables();

/// Seconds that the model of runtime/advise says of a step, where devices attain such a share of their peak.
double predicted_seconds(const PublishedTable& table, const PublishedStep& step, double attained);

/// The share with which the prediction of the table's first step is what was measured.
double fitted_fraction(const PublishedTable& table);

}  // namespace modular::testing
