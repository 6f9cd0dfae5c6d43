// The columns that a model's task reads, and their roles.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// Option to add to a command whose labels are scores.
inline constexpr std::string_view kForScores = "--set model.config.problem_type=regression";

/// The columns that the command line names.
struct AskedColumns {
  std::vector<std::string> texts;         // "text" when empty
  std::string label, prompt;              // empty for none
  std::string chat;                       // with lists of messages, instead of texts; empty for none
  std::vector<std::string> prompts = {};  // prefix of each column's texts; empty for none
  bool leaves_prompts_out = false;        // pooling leaves the prompt tokens out: their attention_mask is 2
};

struct RowPlan {
  enum class Form {
    running_text,   // texts one after the other, in files of ids
    continuation,   // a prompt and the text to generate after it
    conversation,   // messages; the assistant's are the targets
    text,           // one text
    pair,           // two texts, encoded together
    several_texts,  // each encoded separately
    words,          // a list of words with one label each
    source          // a text and its target text
  };
  Form form = Form::text;
  std::vector<std::string> columns;  // columns to read: the texts (after the prompt in `continuation`,
                                     // before the target in `source`); then the label, if there is one
  size_t texts = 1;                  // number of text columns
  std::vector<std::string> prompts;  // prefix of each column's texts; empty for none
  bool leaves_prompts_out = false;   // prompts are left out of pooling
  bool has_label = false;
  bool labels_may_be_real = false;  // scores
  std::string problem;              // problem type of a classifier of rows (find_problem())
  bool infers_problem = false;      // problem_type is not set
  bool has_types = false;           // the model reads which text of a pair each token belongs to

  /// Whether labels are classes, by name or number, as opposed to scores or several labels per row.
  bool has_classes() const { return has_label && problem.empty() && !labels_may_be_real; }
  /// Number of a row's texts that have ids of their own, not counting a target.
  size_t texts_of_row() const { return form == Form::several_texts ? texts : 1; }
};

/// Throws ConfigError if the model's task reads no texts, or other columns than these.
RowPlan plan_rows(const ModelConfig& model, const AskedColumns& asked);

}  // namespace modular
