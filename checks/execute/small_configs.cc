#include "checks/execute/small_configs.h"

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "checks/execute/config_edits.h"
#include "checks/execute/executed_model.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "runtime/parallel/parameters/meta_construction.h"
#include "runtime/parallel/parameters/parameter_table.h"

namespace modular::execute {
namespace {

constexpr int64_t kRanks = 4;               // counts that the plan splits are multiples of this
constexpr int64_t kComputable = 1'000'000;  // models of at most this many elements are run; others only on meta
constexpr int64_t kComputableOnce = 100'000'000;
constexpr int64_t kSmall = 8, kMedium = 32;  // fields of at most kSmall keep their values, or kMedium without a hint
constexpr size_t kVariants = 5;              // at most so many configs next to the first one

/// A config that has been tried.
struct Trial {
  std::string problem;            // why it does not run; empty if it does
  std::set<std::string> modules;  // "model.layers.*.mlp LlamaMLP": the classes of a model and where they are
  size_t parameters = 0;          // number of parameters
  bool is_computed = false;       // whether it has been run, and not only on the meta device
};

/// "model.layers.*.mlp"
std::string pattern(const std::string& path) {
  std::string text;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    text += (begin == 0 ? "" : ".") + (is_number ? "*" : part);
    begin = end + 1;
  }
  return text;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Whether a forward on the meta device failed because it reads a value, and may be right.
bool reads_values(std::string_view problem) {
  constexpr std::array kReasons = {"meta", "Meta", "not allocated", "tensor backend"};
  return std::ranges::any_of(kReasons,
                             [&](const char* reason) { return problem.find(reason) != std::string_view::npos; });
}

class Finder {
 public:
  explicit Finder(const Entry& entry) : entry_(entry), raw_(entry.make_config()) {}

  std::vector<SmallConfig> find() {
    current_ = attempt(*raw_, {});
    if (!current_.problem.empty()) repair();
    const bool is_small = start_from(last_found_);
    if (!current_.problem.empty()) throw std::runtime_error("its default config does not run: " + current_.problem);
    if (!is_small) shrink_repeatedly();
    if (!current_.is_computed) repair_computed();
    for (const Divides& divided : entry_.plan->divides) make_divisible(divided);
    if (!current_.is_computed) throw std::runtime_error("no small config is found that runs");
    std::vector<SmallConfig> configs;
    configs.push_back({"defaults", finished(*raw_), {}});
    last_found_ = integer_fields(*raw_);
    add_variants(configs);
    return configs;
  }

 private:
  static std::unique_ptr<AnyConfig> finished(const AnyConfig& raw) {
    auto config = raw.clone();
    config->finish();
    return config;
  }

  /// Begins with the sizes of another entry, which usually has the same config. Returns whether they fit this one,
  /// alone or with one of possible_repairs().
  bool start_from(const std::vector<std::pair<std::string, int64_t>>& sizes) {
    if (sizes.empty()) return false;
    std::vector<Edit> edits;
    for (const auto& [path, size] : sizes) edits.push_back(set_integer(path, size));
    if (accept(edits)) return current_.is_computed;
    for (const Edit& repair : possible_repairs()) {
      edits.push_back(repair);
      if (accept(edits)) return current_.is_computed;
      edits.pop_back();
    }
    return false;
  }

  Trial attempt(const AnyConfig& raw, const BatchOptions& options) {
    Trial trial;
    try {
      const auto config = finished(raw);
      Model model = build_on_meta(entry_, *config);
      for (const auto& item : model.module->named_modules("", /*include_self=*/false))
        trial.modules.insert(pattern(item.key()) + " " + class_name(*item.value()));
      int64_t elements = 0;
      for (const auto& item : model.module->named_parameters()) {
        trial.modules.insert(pattern(item.key()));
        elements += item.value().numel();
        ++trial.parameters;
      }
      Batch batch = make_batch(entry_, *config, options);
      trial.is_computed = elements <= largest_;
      if (trial.is_computed) {
        at::manual_seed(1);
        model = entry_.make(*config);
        init::reset(*model.module);
        model.module->eval();
        const Outputs outputs = model.forward(batch);
        for (const Tensor& tensor : {outputs.logits, outputs.loss_sum})
          TORCH_CHECK(!tensor.defined() || tensor.isfinite().all().item<bool>(), "its results are not finite");
        // Half of the batch is a batch too.
        if (task().texts == 1) model.forward(find_rows(batch, 0, 2));
        return trial;
      }
      batch.tensors([](Tensor& tensor) {
        if (tensor.defined()) tensor = tensor.to(at::kMeta);
      });
      model.module->eval();
      try {
        model.forward(batch);
      } catch (const c10::Error& error) {
        if (!reads_values(error.what_without_backtrace())) throw;
      }
    } catch (const c10::Error& error) {
      trial.problem = first_line(error.what_without_backtrace());
    } catch (const std::exception& error) {
      trial.problem = first_line(error.what());
    }
    return trial;
  }

  const Task& task() const { return *find_task(entry_.task); }

  /// The counts that the plan splits.
  std::vector<int64_t> split_counts(const AnyConfig& raw) const {
    const ConfigIntegers integers = config_integers(*finished(raw));
    std::vector<int64_t> counts;
    for (const Divides& divided : entry_.plan->divides)
      if (divided.axis == "tp") counts.push_back(evaluate_monomial(divided.field, integers));
    return counts;
  }

  /// The number of them that `ranks` ranks do not divide.
  int64_t indivisible(const AnyConfig& raw, int64_t ranks) const {
    return std::ranges::count_if(split_counts(raw), [&](int64_t count) { return count % ranks != 0; });
  }

  /// Keeps the edited config if it runs, has the modules of the current one, and is as divisible.
  bool accept(const std::vector<Edit>& edits) {
    auto edited = raw_->clone();
    for (const Edit& edit : edits) edit.apply(*edited);
    Trial trial = attempt(*edited, {});
    if (!trial.problem.empty() || !std::ranges::includes(trial.modules, current_.modules)) return false;
    if (indivisible(*edited, kRanks) > indivisible(*raw_, kRanks)) return false;
    raw_ = std::move(edited);
    current_ = std::move(trial);
    return true;
  }

  /// Values for the optional integers that have none, first for those that are ids of tokens: classifiers need a
  /// pad_token_id.
  std::vector<Edit> possible_repairs() {
    std::vector<Edit> edits;
    visit_fields(*raw_, [&](const std::string& path, const ConfigValue& field) {
      if (const auto* value = std::get_if<std::optional<int64_t>*>(&field); value && !**value)
        for (const int64_t given : {1, 4}) edits.push_back(set_field<std::optional<int64_t>>(path, given, path));
    });
    std::ranges::stable_partition(edits, [](const Edit& edit) { return edit.name.ends_with("token_id"); });
    return edits;
  }

  /// Makes a config run that only a forward on the meta device has accepted, and that could not become small because
  /// small ones are run. One repair may uncover the next.
  void repair_computed() {
    largest_ = kComputableOnce;
    Trial found = attempt(*raw_, {});
    for (bool has_changed = true; has_changed && !found.problem.empty();) {
      has_changed = false;
      for (const Edit& edit : possible_repairs()) {
        auto edited = raw_->clone();
        edit.apply(*edited);
        Trial trial = attempt(*edited, {});
        if (!trial.is_computed || trial.problem == found.problem) continue;
        raw_ = std::move(edited);
        found = std::move(trial);
        has_changed = true;
        break;
      }
    }
    largest_ = kComputable;
    if (!found.problem.empty()) throw std::runtime_error("no small config runs: " + found.problem);
    current_ = std::move(found);
    used_.clear();
    reduced_.clear();
    shrink_repeatedly();
  }

  void shrink_repeatedly() {
    for (int pass = 0; pass < 4; ++pass)
      if (!shrink() && current_.is_computed) return;
  }

  /// Makes the default config run.
  void repair() {
    for (const Edit& edit : possible_repairs()) {
      auto edited = raw_->clone();
      edit.apply(*edited);
      Trial trial = attempt(*edited, {});
      if (!trial.problem.empty()) continue;
      raw_ = std::move(edited);
      current_ = std::move(trial);
      return;
    }
  }

  /// The values to try for an integer field of this value, best first.
  std::vector<int64_t> candidates(const std::string& path, int64_t value) const {
    const Hint* const hint = find_hint(path);
    if (value <= (hint ? kSmall : kMedium) || (reduced_.contains(path) && value <= 512)) return {};
    std::vector<int64_t> sizes = {32, 64, 96, 128, 160, 48,
                                  40, 24, 16, 8,   256, 512};  // halves of a head's features are even
    if (hint) sizes = hint->sizes;
    // Different sizes get different values, so that a mix-up shows.
    if (value > kMedium)
      std::ranges::stable_partition(sizes, [&](int64_t size) { return !used_.contains(size) && size <= 160; });
    std::erase_if(sizes, [&](int64_t size) { return size >= value; });
    return sizes;
  }

  /// Reduces each integer field once. Returns whether any changed.
  bool shrink() {
    bool has_changed = false;
    std::vector<std::pair<std::string, int64_t>> fields = integer_fields(*raw_);
    // Counts first: a size that is a multiple of the default number of heads may leave a head one feature. Layers even
    // before them, because fewer layers take less time.
    std::ranges::stable_partition(fields, [](const auto& field) { return find_hint(field.first) != nullptr; });
    std::ranges::stable_partition(fields,
                                  [](const auto& field) { return field.first.find("layer") != std::string::npos; });
    for (const auto& [path, value] : fields) {
      bool changed = shrink_layers(path, value);
      if (!changed)
        for (const int64_t size : candidates(path, value)) {
          if (!accept({set_integer(path, size)})) continue;
          if (value > kMedium) used_.insert(size);
          reduced_.insert(path);
          changed = true;
          break;
        }
      const bool is_large = value > (find_hint(path) ? kSmall : kMedium);
      if (!changed && is_large && !reduced_.contains(path)) changed = shrink_with_another(path, value);
      has_changed = has_changed || changed;
    }
    return has_changed;
  }

  /// Divides a field that cannot change alone, and another field, by the same number: of a product that must equal
  /// another one.
  bool shrink_with_another(const std::string& path, int64_t value) {
    for (const auto& [other, other_value] : integer_fields(*raw_)) {
      if (other == path || other_value <= kSmall) continue;
      for (const int64_t factor : {64, 32, 16, 8, 4, 2}) {
        if (value % factor != 0 || other_value % factor != 0) continue;
        if (std::min(value, other_value) / factor < kRanks) continue;
        if (!accept({set_integer(path, value / factor), set_integer(other, other_value / factor)})) continue;
        reduced_.insert(path);
        return true;
      }
    }
    return false;
  }

  /// If the field counts layers, keeps as few as the model's classes need, and enough for stages that are neither first
  /// nor last. Returns whether it has changed.
  bool shrink_layers(const std::string& path, int64_t value) {
    const int64_t fewest = entry_.plan->first_stack ? 2 : 3;
    if (value <= fewest || others_.contains(path)) return false;
    auto edited = raw_->clone();
    set_integer(path, fewest).apply(*edited);
    const Trial trial = attempt(*edited, {});
    if (!trial.modules.empty() && trial.parameters == current_.parameters) {
      others_.insert(path);
      return false;
    }
    for (int64_t size = fewest; size < std::min(value, int64_t{13}); ++size) {
      const size_t before = current_.parameters;
      if (accept({set_integer(path, size)})) return current_.parameters != before;
    }
    return false;
  }

  /// Gives a count that the plan splits a value that the ranks divide, if one runs.
  void make_divisible(const Divides& divided) {
    if (divided.axis != "tp") return;
    const ConfigIntegers integers = config_integers(*finished(*raw_));
    if (evaluate_monomial(divided.field, integers) % kRanks == 0) return;
    const int64_t before = indivisible(*raw_, kRanks);
    for (const auto& [path, value] : integer_fields(*raw_)) {
      if (divided.field.find(path) == std::string_view::npos) continue;
      for (const int64_t size : {4, 8, 12, 16, 32}) {
        auto edited = raw_->clone();
        set_integer(path, size).apply(*edited);
        Trial trial = attempt(*edited, {});
        if (!trial.problem.empty() || indivisible(*edited, kRanks) >= before) continue;
        raw_ = std::move(edited);
        current_ = std::move(trial);
        return;
      }
    }
  }

  /// Whether `tp` ranks can hold the model's parameters.
  bool is_split(const AnyConfig& raw, int64_t tp) const {
    const auto config = finished(raw);
    const Model model = build_on_meta(entry_, *config);
    ParameterTable table = parameter_table(*model.module, *entry_.plan, *config, /*stages=*/{});
    return split_over(table, entry_, *config, tp);
  }

  /// Adds configs with as many alternatives at once as run together, one per field, until each that can run has.
  void add_variants(std::vector<SmallConfig>& configs) {
    std::vector<Alternative> left = alternatives(*raw_, *entry_.plan);
    std::vector<int64_t> ranks = {2, kRanks};
    std::erase_if(ranks, [&](int64_t tp) { return !is_split(*raw_, tp); });
    for (size_t number = 0; number < kVariants && (number == 0 || !left.empty()); ++number) {
      auto raw = raw_->clone();
      BatchOptions options;
      std::string name;
      const auto try_batch = [&](bool BatchOptions::* member) {
        BatchOptions more = options;
        more.*member = true;
        if (attempt(*raw, more).problem.empty()) options = more;
      };
      if (number == 0 && reads_tokens(entry_)) try_batch(&BatchOptions::is_padded);
      if (number == 0 && config_integers(*raw).contains("type_vocab_size")) try_batch(&BatchOptions::has_segments);
      const size_t before = left.size();
      std::set<std::string> edited_paths;
      std::erase_if(left, [&](const Alternative& alternative) {
        if (edited_paths.contains(alternative.path)) return false;
        return std::ranges::any_of(alternative.edits, [&](const Edit& edit) {
          auto edited = raw->clone();
          edit.apply(*edited);
          const Trial trial = attempt(*edited, options);
          if (!trial.problem.empty() || !trial.is_computed) return false;
          const auto remains_split = [&](int64_t tp) { return is_split(*edited, tp); };
          if (split_counts(*edited) != split_counts(*raw) && !std::ranges::all_of(ranks, remains_split)) return false;
          raw = std::move(edited);
          edited_paths.insert(alternative.path);
          name += (name.empty() ? "" : ", ") + edit.name;
          return true;
        });
      });
      const bool has_batch = options.is_padded || options.has_segments;
      if (left.size() == before && !has_batch) break;
      if (has_batch) name += name.empty() ? "padded" : ", padded";
      configs.push_back({name, finished(*raw), options});
    }
  }

  static inline std::vector<std::pair<std::string, int64_t>> last_found_;  // sizes of the entry before

  const Entry& entry_;
  std::unique_ptr<AnyConfig> raw_;  // not finished: finish() fills fields that depend on others
  Trial current_;
  int64_t largest_ = kComputable;  // models of more elements are run on meta only
  std::set<int64_t> used_;         // sizes that fields have been reduced to
  std::set<std::string> reduced_;  // fields that have been
  std::set<std::string> others_;   // fields that count no layers
};

}  // namespace

std::vector<SmallConfig> small_configs(const Entry& entry) { return Finder(entry).find(); }

}  // namespace modular::execute
