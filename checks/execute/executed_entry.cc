#include "checks/execute/executed_entry.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

namespace modular::execute {
namespace {

/// The divisions that an entry supports: single axes first, then, if `with_products`, products of two.
std::vector<Division> divisions(const Entry& entry, ExecutedModel& model, bool with_products) {
  const Task& task = *find_task(entry.task);
  // Losses that compare rows with each other gather those of data-parallel ranks, but see one micro-batch.
  const bool compares_rows = task.texts == kAnyTexts || task.name == "contrastive-pairs";
  std::vector<std::vector<Division>> axes(1);
  for (const int64_t tp : {2, 4})
    if (model.supports(tp)) axes[0].push_back({.grid = {.tp = tp}});
  std::vector<Division> plain;
  if (!entry.plan->sequence.empty()) {
    plain = axes[0];
    for (Division& division : axes[0]) division.grid.sequence = true;
  }
  // Both layouts by themselves; products take zigzag, where a rank's positions have a gap.
  const Division zigzag{.grid = {.cp = 2, .zigzag = true}};
  if (entry.plan->context_error.empty() && task.reads == Task::Reads::tokens) {
    plain.push_back({.grid = {.cp = 2}});
    axes.push_back({zigzag});
  }
  axes.push_back({{.grid = {.dp = 2}}});
  if (!compares_rows) axes.push_back({{.micro_batches = 2}});
  std::vector<Division> stages;
  for (int64_t cut = 1; cut < model.layers(); ++cut) stages.push_back({.cuts = {cut}});
  if (model.layers() > 2) {
    Division each;
    for (int64_t cut = 1; cut < model.layers(); ++cut) each.cuts.push_back(cut);
    stages.push_back(std::move(each));
  }
  axes.push_back(std::move(stages));

  std::vector<Division> all = std::move(plain);
  for (const auto& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  if (!with_products) return all;
  for (size_t first = 0; first < axes.size(); ++first)
    for (size_t second = first + 1; second < axes.size(); ++second)
      for (const Division& one : axes[first])
        for (const Division& other : axes[second]) {
          Division product = one;
          product.grid.dp = std::max(product.grid.dp, other.grid.dp);
          product.grid.cp = std::max(product.grid.cp, other.grid.cp);
          product.grid.zigzag = product.grid.zigzag || other.grid.zigzag;
          product.micro_batches = std::max(product.micro_batches, other.micro_batches);
          if (!other.cuts.empty()) product.cuts = other.cuts;
          all.push_back(std::move(product));
        }
  return all;
}

}  // namespace

ExecutedEntry::ExecutedEntry(const Entry& entry) : entry_(entry) {
  for (const SmallConfig& small : small_configs(entry)) {
    const std::string config = "config with " + small.name;
    try {
      ExecutedModel model(entry, *small.config, make_batch(entry, *small.config, small.batch));
      std::vector<Division> on = divisions(entry, model, /*with_products=*/runs_.empty());
      runs_.push_back({config, std::move(model), std::move(on)});
    } catch (const c10::Error& error) {
      const std::string problem = error.what_without_backtrace();
      throw std::runtime_error(config + ", one process: " + problem.substr(0, problem.find('\n')));
    } catch (const std::exception& error) {
      throw std::runtime_error(config + ", one process: " + error.what());
    }
  }
}

std::string ExecutedEntry::name() const {
  return std::string(entry_.architecture) + " (" + std::string(entry_.task) + ")";
}

std::string ExecutedEntry::find_difference() {
  const std::string file = "generated/" + std::string(entry_.family) + ".h";
  const bool is_cached = find_task(entry_.task)->cached && !entry_.plan->uncached;
  for (Run& run : runs_) {
    for (const Division& division : run.divisions) {
      ++comparisons_;
      if (const std::string text = run.model.compare(division, file); !text.empty())
        return run.config + ", " + division.name() + ": " + text;
    }
    if (const std::optional<std::string> text = run.model.compare_written()) {
      ++comparisons_;
      if (!text->empty())
        return run.config + ", as C++ compiles modular/" + std::string(entry_.family) + ".h: " + *text;
    }
    if (!is_cached) continue;
    ++comparisons_;
    if (const std::string text = run.model.compare_cached(file); !text.empty())
      return run.config + ", generation: " + text;
  }
  return "";
}

}  // namespace modular::execute
