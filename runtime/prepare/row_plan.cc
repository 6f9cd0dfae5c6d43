#include "runtime/prepare/row_plan.h"

#include <fmt/format.h>

#include "runtime/data/model_inputs.h"
#include "runtime/model/tasks.h"
#include "runtime/parallel/parameters/config_integers.h"

namespace modular {
namespace {

/// Number of texts that a task reads, and whether it needs a label.
struct Needs {
  size_t most_texts;
  enum class Label { none, optional, needed } label;
};

void check(const Entry& entry, const RowPlan& plan, const AskedColumns& asked, const Needs& needs) {
  const std::string who = fmt::format("{} is for {}", entry.architecture, entry.task);
  if (plan.texts > needs.most_texts)
    throw ConfigError(fmt::format("{}, which reads {} per row: --text names {} columns", who,
                                  needs.most_texts == 1 ? "one text" : "at most two texts", plan.texts));
  if (needs.label == Needs::Label::none && !asked.label.empty())
    throw ConfigError(fmt::format("{}, whose labels are the tokens: leave --label out", who));
  if (needs.label == Needs::Label::needed && asked.label.empty())
    throw ConfigError(fmt::format("{}: name the column of its {} with --label", who,
                                  plan.form == RowPlan::Form::source ? "target text" : "labels"));
  if (!asked.prompt.empty() && plan.form != RowPlan::Form::continuation)
    throw ConfigError(fmt::format("{}, which reads no prompt: leave --prompt out", who));
}

RowPlan::Form find_form(const Entry& entry, const AskedColumns& asked, size_t texts) {
  using enum RowPlan::Form;
  if (find_task(entry.task)->tokens != Task::Tokens::no_targets)
    return entry.task == "causal-lm" && !asked.prompt.empty() ? continuation : running_text;
  if (entry.task == "sequence-classification") return texts == 1 ? text : pair;
  if (entry.task == "sentence-embedding") return texts == 1 ? text : several_texts;
  if (entry.task == "token-classification") return words;
  if (entry.task == "seq2seq") return source;
  throw ConfigError(
      fmt::format("{} is for {}, which cannot be trained on texts alone: write its examples in another way "
                  "(docs/guide/data.md)",
                  entry.architecture, entry.task));
}

Needs find_needs(RowPlan::Form form) {
  using enum RowPlan::Form;
  using Label = Needs::Label;
  if (form == running_text || form == continuation) return {1, Label::none};
  if (form == pair) return {2, Label::needed};
  if (form == several_texts) return {SIZE_MAX, Label::optional};
  return {1, Label::needed};
}

RowPlan plan_conversations(const Entry& entry, const AskedColumns& asked) {
  if (entry.task != "causal-lm")
    throw ConfigError(
        fmt::format("{} is for {}, which reads no conversations: leave --chat out", entry.architecture, entry.task));
  if (!asked.texts.empty() || !asked.label.empty() || !asked.prompt.empty())
    throw ConfigError("--chat names the column of full conversations: leave --text, --label and --prompt out");
  RowPlan plan;
  plan.form = RowPlan::Form::conversation;
  plan.columns = {asked.chat};
  return plan;
}

}  // namespace

RowPlan plan_rows(const ModelConfig& model, const AskedColumns& asked) {
  const Entry& entry = *model.entry;
  if (!find_task(entry.task)) throw ConfigError(task_error(entry.architecture, entry.task));
  if (!asked.chat.empty()) return plan_conversations(entry, asked);
  RowPlan plan;
  plan.columns = asked.texts.empty() ? std::vector<std::string>{"text"} : asked.texts;
  plan.texts = plan.columns.size();
  plan.prompts = asked.prompts;
  plan.leaves_prompts_out = asked.leaves_prompts_out && !asked.prompts.empty();
  plan.form = find_form(entry, asked, plan.texts);
  check(entry, plan, asked, find_needs(plan.form));
  if (plan.form == RowPlan::Form::continuation) plan.columns.insert(plan.columns.begin(), asked.prompt);
  if (!asked.label.empty()) plan.columns.push_back(asked.label);
  if (plan.form == RowPlan::Form::continuation || plan.form == RowPlan::Form::source) plan.texts = 2;
  plan.has_label = plan.columns.size() > plan.texts;
  plan.problem = find_problem(model);
  plan.infers_problem = plan.has_label && find_problem(model, /*real_labels=*/true) != plan.problem;
  plan.labels_may_be_real = entry.task == "sentence-embedding" || plan.problem == "regression";
  const ConfigIntegers integers = config_integers(*model.config);
  const auto types = integers.find("type_vocab_size");
  const bool encoded_together =
      plan.form == RowPlan::Form::text || plan.form == RowPlan::Form::pair || plan.form == RowPlan::Form::words;
  plan.has_types = encoded_together && types != integers.end() && types->second > 1;
  return plan;
}

}  // namespace modular
