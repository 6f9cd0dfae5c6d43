// What a model's task reads of which columns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// What to add to a command whose labels are scores.
inline constexpr std::string_view kForScores = "--set model.config.problem_type=regression";

/// The columns that the command line names.
struct AskedColumns {
  std::vector<std::string> texts;         // "text" when empty
  std::string label, prompt;              // none when empty
  std::string chat;                       // with lists of messages, in place of texts; none when empty
  std::vector<std::string> prompts = {};  // what is put before the texts of each column; nothing when empty
  bool leaves_prompts_out = false;        // pooling reads no token of these: their attention_mask is 2
};

struct RowPlan {
  enum class Form {
    running_text,   // one text after the other, in files of ids
    continuation,   // a prompt and the text to be learned after it
    conversation,   // messages, of which the assistant's are learned
    text,           // one text
    pair,           // two texts, encoded together
    several_texts,  // each encoded by itself
    words,          // a list of words with a label each
    source          // a text and the text that is made of it
  };
  Form form = Form::text;
  std::vector<std::string> columns;  // which are read: the texts, in `continuation` after the prompt, in `source`
                                     // before the target; then the label, where there is one
  size_t texts = 1;                  // how many of them are texts
  std::vector<std::string> prompts;  // before the texts of each column; nothing when empty
  bool leaves_prompts_out = false;   // out of pooling
  bool has_label = false;
  bool labels_may_be_real = false;  // scores
  std::string problem;              // of a classifier of rows (find_problem())
  bool infers_problem = false;      // as there is no problem_type
  bool has_types = false;           // the model reads which text of a pair a token is of

  /// Whether labels are classes, by name or number, and neither scores nor several a row.
  bool has_classes() const { return has_label && problem.empty() && !labels_may_be_real; }
  /// Texts of a row that have ids of their own, apart from a target.
  size_t texts_of_row() const { return form == Form::several_texts ? texts : 1; }
};

/// Throws ConfigError where the model's task reads no texts, or other columns than those.
RowPlan plan_rows(const ModelConfig& model, const AskedColumns& asked);

}  // namespace modular
