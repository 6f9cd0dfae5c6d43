// Reads a TOML file and --set options into a RunConfig.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/checkpoint/added_rows.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/checkpoint/json_text.h"
#include "runtime/checkpoint/pretrained.h"
#include "runtime/config/config_errors.h"
#include "runtime/config/config_field.h"
#include "runtime/config/renamed_keys.h"
#include "runtime/config/run_tokenizer.h"
#include "runtime/config/toml_values.h"
#include "runtime/files/open_file.h"
#include "runtime/model/tasks.h"

namespace modular {

namespace fs = std::filesystem;

namespace {

/// A key that was set, and its location.
struct Assignment {
  std::string path;
  toml::node* value = nullptr;
  std::string where;  // "demo.toml:3:9" or "--set train.steps=x"
  std::string text;   // of --set, verbatim
};

void flatten(const std::string& file, const std::string& prefix, toml::table& table, std::vector<Assignment>& result) {
  for (auto&& [key, value] : table) {
    const auto path = prefix + std::string(key.str());
    // A set without keys is still a set, without paths.
    if (auto* inner = value.as_table(); inner && !(inner->empty() && prefix == "data.sets.")) {
      flatten(file, path + ".", *inner, result);
    } else {
      const auto& begin = key.source().begin;
      result.push_back({path, &value, fmt::format("{}:{}:{}", file, begin.line, begin.column), {}});
    }
  }
}

bool takes_text(const FieldPointer& value) {
  return std::holds_alternative<std::string*>(value) || std::holds_alternative<std::optional<std::string>*>(value);
}

void apply(const Assignment& assignment, const ConfigField& field, RunConfig& config) {
  const toml::value<std::string> text(assignment.text);
  const bool as_text = !assignment.text.empty() && takes_text(field.value) && !assignment.value->is_string();
  const toml::node& node = as_text ? static_cast<const toml::node&>(text) : *assignment.value;
  const auto read = [&](auto* value) -> std::string {
    if constexpr (std::is_same_v<decltype(value), std::vector<ParameterGroup>*>)
      return *value = read_groups(node, assignment.where), "";
    else if constexpr (std::is_same_v<decltype(value), std::vector<SetOptions>*>)
      return "a table of sets, e.g. {web = {paths = ['web']}}";
    else
      return assign(*value, node);
  };
  const auto expected = std::visit(read, field.value);
  if (!expected.empty())
    reject(assignment.where, fmt::format("{} must be {}, but is {}", field.path, expected, describe(node)));
  const std::string value = toml_value(field.value);
  const FieldRule& rule = field.rule;
  if (rule.at_least && node.is_number() && !(to_number(node) >= *rule.at_least))
    reject(assignment.where, fmt::format("{} must be at least {}, but is {}", field.path, *rule.at_least, value));
  if (rule.at_most && node.is_number() && !(to_number(node) <= *rule.at_most))
    reject(assignment.where, fmt::format("{} must be at most {}, but is {}", field.path, *rule.at_most, value));
  config.origins[field.path] = assignment.where;
}

/// Assigns a field from a run's folder, unless it names a program.
void apply_untrusted(const Assignment& assignment, const ConfigField& field, RunConfig& config) {
  if (field.rule.names == Names::nothing) return apply(assignment, field, config);
  std::string& value = *std::get<std::string*>(field.value);
  const std::string usual = value;
  apply(assignment, field, config);
  if (value == usual || !names_program(field)) return;
  const std::string given = toml_value(field.value);
  value = usual;
  config.origins.erase(field.path);
  config.untrusted[field.path] = fmt::format(
      "{}: {} is {}, and what the folder of a run names is not run: add --set {}={} if you trust it, or --trust-folder "
      "if you trust the entire folder{}",
      assignment.where, field.path, given, field.path, given,
      field.rule.names == Names::library ? "" : fmt::format("; {} is used", toml_value(field.value)));
}

/// Assigns a key of data.sets. Returns false for other keys.
bool apply_set(const Assignment& assignment, RunConfig& config) {
  constexpr std::string_view kSets = "data.sets";
  if (!assignment.path.starts_with(kSets) ||
      (assignment.path == kSets ? !assignment.value->is_table() : assignment.path[kSets.size()] != '.'))
    return false;
  std::vector<Assignment> parts = {assignment};
  if (auto* const table = assignment.value->as_table(); table && !table->empty()) {
    parts.clear();
    flatten("", assignment.path + ".", *table, parts);  // of the command line; a file's tables are flat already
  }
  for (const Assignment& part : parts) {
    if (part.path == kSets) continue;
    const std::string wrong = assign_set(config.data.sets, part.path.substr(kSets.size() + 1), *part.value);
    if (!wrong.empty()) reject(assignment.where, wrong);
  }
  config.origins[std::string(kSets)] = assignment.where;
  return true;
}

/// Assigns a key of an earlier version, as the config.toml of its runs has it. Returns false for other keys.
bool apply_older(const Assignment& assignment, RunConfig& config) {
  if (assignment.path != "parallel.reshard_after_forward" || !assignment.value->is_boolean()) return false;
  config.parallel.zero_stage = assignment.value->as_boolean()->get() ? 3 : 2;
  config.origins["parallel.zero_stage"] = assignment.where;
  return true;
}

/// Replaces keys of earlier versions by their current names, and records them in `config.renamed`. `assignments` come
/// from one source, the file or the command line: setting a key there under both names is an error.
void rename_keys(std::span<Assignment> assignments, RunConfig& config) {
  for (Assignment& assignment : assignments) {
    const std::string now = current_key(assignment.path);
    if (now == assignment.path) continue;
    for (const Assignment& other : assignments)
      if (other.path == now)
        reject(assignment.where, fmt::format("{} is now {}, which is set as well ({}): leave {} out", assignment.path,
                                             now, other.where, assignment.path));
    config.renamed.push_back(fmt::format("{}: {} is now {}", assignment.where, assignment.path, now));
    assignment.path = now;
  }
}

[[noreturn]] void reject_unknown(const Assignment& assignment, const std::vector<ConfigField>& known) {
  const auto unknown = "unknown key " + assignment.path;
  std::vector<std::string> paths;
  std::ranges::transform(known, std::back_inserter(paths), &ConfigField::path);
  if (const auto nearest = nearest_name(assignment.path, paths))
    reject(assignment.where, fmt::format("{}: did you mean {}?", unknown, *nearest));
  const auto section = assignment.path.substr(0, assignment.path.rfind('.') + 1);
  std::string names;
  for (const auto& field : known)
    if (!section.empty() && field.path.starts_with(section))
      names += (names.empty() ? "" : ", ") + field.path.substr(section.size());
  if (names.empty()) reject(assignment.where, unknown + ": `modrun settings` lists all keys");
  reject(assignment.where, fmt::format("{}: [{}] has {}", unknown, section.substr(0, section.size() - 1), names));
}

bool learns_from_text(const Entry& entry) {
  const Task* task = find_task(entry.task);
  return task && task->tokens != Task::Tokens::no_targets;
}

/// Finds the entry called `name`. For a family, returns its language model, or its only entry.
const Entry& entry_named(const std::string& name, const std::string& where) {
  std::vector<const Entry*> of_family, language_models;
  std::vector<std::string> names;
  for (const auto& entry : entries()) {
    if (entry.architecture == name) return entry;
    if (entry.family == name) of_family.push_back(&entry);
    if (entry.family == name && learns_from_text(entry)) language_models.push_back(&entry);
    for (const auto known : {entry.architecture, entry.family}) names.emplace_back(known);
  }
  if (language_models.size() == 1) return *language_models.front();
  if (of_family.empty()) {
    const auto nearest = nearest_name(name, names);
    reject(where, fmt::format("model.entry \"{}\" is not in this program{}; `modrun entries` lists what is", name,
                              nearest ? fmt::format(": did you mean {}?", *nearest) : ""));
  }
  if (of_family.size() > 1)
    reject(where,
           fmt::format("the family {} has several entries: name one, e.g. {}", name, of_family.front()->architecture));
  return *of_family.front();
}

void choose_model(RunConfig& config, const fs::path& file) {
  const auto& [entry, checkpoint, base] = std::tie(config.model.entry, config.model.checkpoint, config.model.base);
  const auto origin = config.origins.find("model.entry");
  const auto where = origin != config.origins.end() ? origin->second : file.empty() ? "--set" : file.string();
  if (!checkpoint.empty()) {
    const auto newest = find_checkpoint(checkpoint);
    const Entry* const wanted = entry.empty() ? nullptr : &entry_named(entry, where);
    fs::path source = newest.empty() ? fs::path(checkpoint) : newest;
    // A run that has saved checkpoints no longer needs its initial weights.
    if (!fs::exists(source))
      if (const auto own = find_checkpoint(config.train.checkpoints()); !own.empty()) source = own;
    // If only rank 0 reads the weights, config.json decides whether they are tied, as other ranks cannot tell.
    config.network =
        config.first_reads() ? read_config(source, wanted, base) : read_pretrained_config(source, wanted, base);
    if (const auto set = config.origins.find("model.base");
        !base.empty() && config.network.base.empty() && set != config.origins.end() && set->second.starts_with("--set"))
      reject(set->second, fmt::format("model.base is for PEFT folders, and {} is not one: leave it out", checkpoint));
    if (wanted && wanted->architecture != config.network.entry->architecture)
      reject(where, fmt::format("model.entry is {} but model.checkpoint holds a {}: leave one of the two out", entry,
                                config.network.entry->architecture));
  } else if (!entry.empty()) {
    config.network.entry = &entry_named(entry, where);
    config.network.config = config.network.entry->make_config();
  } else {
    reject(where,
           "model.entry is not set: name the model, e.g. model.entry = \"llama\", or a folder with model.checkpoint");
  }
  config.model.entry = config.network.entry->architecture;
}

const ConfigField* find(const std::vector<ConfigField>& fields, std::string_view path) {
  for (const auto& field : fields)
    if (field.path == path) return &field;
  return nullptr;
}

/// The command line decides between train.steps and train.epochs. Setting both in one place is an error.
void choose_length(RunConfig& config) {
  const auto steps = config.origins.find("train.steps"), epochs = config.origins.find("train.epochs");
  if (steps == config.origins.end() || epochs == config.origins.end() || config.train.epochs == 0.0) return;
  const bool steps_set = steps->second.starts_with("--set"), epochs_set = epochs->second.starts_with("--set");
  if (steps_set == epochs_set)
    reject(epochs->second,
           fmt::format(
               "train.epochs = {} and train.steps = {} ({}) both set the length of the run: leave one of the two out",
               config.train.epochs, config.train.steps, steps->second));
  if (steps_set) config.train.epochs = 0.0;
  config.origins.erase(steps_set ? epochs : steps);
}

/// Adds the adapters of [lora] to the model, or those of the checkpoint that it starts from.
void choose_adapters(RunConfig& config) {
  const auto find_origin = [&](const char* key) {
    const auto origin = config.origins.find(key);
    return origin == config.origins.end() ? std::string() : origin->second;
  };
  LoraSection& wanted = config.lora;
  if (config.network.lora) {
    LoraSection stored;
    static_cast<LoraOptions&>(stored) = config.network.lora->options;
    const auto get_values = [](LoraSection& section) {
      std::map<std::string, std::string> values;
      section.fields(
          [&](const char* name, auto& value, auto&&...) { values["lora." + std::string(name)] = toml_value(&value); });
      return values;
    };
    const auto asked = get_values(wanted);
    for (const auto& [key, value] : get_values(stored))
      if (const std::string where = find_origin(key.c_str()); !where.empty() && asked.at(key) != value)
        reject(where,
               fmt::format("{} is {}, and {} of the adapters in model.checkpoint \"{}\": leave it out to continue with "
                           "them, or start from the folder that `modrun export` writes, into which they are merged",
                           key, asked.at(key), value, config.model.checkpoint));
    wanted = stored;
    config.network = without_adapters(config.network);
  }
  for (const char* key : {"lora.rank", "lora.alpha", "lora.dropout", "lora.trained"})
    if (const std::string where = find_origin(key); wanted.layers.empty() && where.starts_with("--set"))
      reject(where,
             fmt::format("{} is set, and lora.layers names no layers: name some, e.g. ['q_proj', 'v_proj']", key));
  if (wanted.layers.empty()) return;
  if (wanted.dropout >= 1.0)
    reject(find_origin("lora.dropout"),
           fmt::format("lora.dropout is {}: it is a probability, less than 1", wanted.dropout));
  try {
    adapt(config.network, wanted);
  } catch (const ConfigError& error) {
    reject(find_origin("lora.layers"), error.what());
  }
}

void make_absolute(const char* key, std::string& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error);
  if (error) throw ConfigError(fmt::format("{} names \"{}\": {}", key, path, error.message()));
  path = whole.lexically_normal().string();
}

/// Location of the assignment that an error of the model's config names; the last assignment if the error names
/// several, or none.
std::string origin_of_error(std::string_view sentence, const std::vector<const Assignment*>& assignments,
                            const std::string& otherwise) {
  const auto is_named = [&](const Assignment* assignment) {
    const std::string_view path = assignment->path;
    const std::string_view name = path.substr(path.rfind('.') + 1);
    const auto is_within_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (size_t at = sentence.find(name); at != std::string_view::npos; at = sentence.find(name, at + 1)) {
      const size_t end = at + name.size();
      if ((at == 0 || !is_within_word(sentence[at - 1])) && (end == sentence.size() || !is_within_word(sentence[end])))
        return true;
    }
    return false;
  };
  if (assignments.empty()) return otherwise;
  const auto named = std::find_if(assignments.rbegin(), assignments.rend(), is_named);
  return named == assignments.rend() ? assignments.back()->where : (*named)->where;
}

/// The keys that were set, in order: those of the file, then those of the command line.
struct Assignments {
  toml::table file;
  std::vector<toml::table> overrides;
  std::vector<Assignment> all;  // point into these
  size_t of_file = 0;           // the first ones
};

Assignments read_assignments(const fs::path& file, const std::vector<std::string>& overrides, ConfigSource source) {
  Assignments result;
  if (!file.empty()) {
    result.file = parse_toml_file(file, source == ConfigSource::user ? Links::followed : Links::none);
    flatten(file.string(), "", result.file, result.all);
  }
  result.of_file = result.all.size();
  result.overrides.reserve(overrides.size());
  for (const auto& setting : overrides) {
    const auto where = "--set " + setting;
    const auto equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) reject(where, "expected key=value, e.g. --set train.steps=100");
    const auto text = setting.substr(equals + 1);
    if (!is_utf8(setting)) reject(where, "it is not valid UTF-8, which a run's config.toml must be");
    result.overrides.push_back(parse_setting(text));
    result.all.push_back({setting.substr(0, equals), result.overrides.back().get("value"), where, text});
  }
  return result;
}

/// Assigns the keys of sections. Returns those of the model's own config, which are known once the model is.
std::vector<const Assignment*> apply_sections(const Assignments& assignments, ConfigSource source, RunConfig& config,
                                              Problems& problems) {
  const auto known = section_fields(config);
  std::vector<const Assignment*> of_model;
  for (size_t i = 0; i < assignments.all.size() && !problems.is_full(); ++i) {
    const Assignment& assignment = assignments.all[i];
    if (assignment.path.starts_with("search."))
      continue;  // of `modrun search`, in a file that is used for training too
    if (assignment.path.starts_with("model.config.")) {
      of_model.push_back(&assignment);
      continue;
    }
    problems.collect([&] {
      if (apply_set(assignment, config)) return;
      if (const auto* field = find(known, assignment.path)) {
        if (i < assignments.of_file && source == ConfigSource::run_folder) {
          apply_untrusted(assignment, *field, config);
        } else {
          apply(assignment, *field, config);
          config.untrusted.erase(field->path);
        }
      } else if (!apply_older(assignment, config)) {
        reject_unknown(assignment, known);
      }
    });
  }
  return of_model;
}

/// Assigns the keys of the model's own config.
void apply_to_model(const std::vector<const Assignment*>& of_model, RunConfig& config, Problems& problems) {
  const auto of_entry = model_fields(*config.network.config);
  auto known = section_fields(config);
  known.insert(known.end(), of_entry.begin(), of_entry.end());
  for (const auto* assignment : of_model) {
    if (problems.is_full()) break;
    problems.collect([&] {
      const auto* field = find(of_entry, assignment->path);
      if (!field) reject_unknown(*assignment, known);
      apply(*assignment, *field, config);
    });
  }
}

void make_paths_absolute(RunConfig& config) {
  make_absolute("train.dir", config.train.dir);
  if (!config.model.checkpoint.empty()) make_absolute("model.checkpoint", config.model.checkpoint);
  if (!config.model.base.empty()) make_absolute("model.base", config.model.base);
  if (!config.model.tokenizer.empty()) make_absolute("model.tokenizer", config.model.tokenizer);
  for (auto& path : config.data.paths) make_absolute("data.paths", path);
  // A pattern that begins with a wildcard matches absolute paths as it is.
  for (auto& path : config.data.validation)
    if (!path.empty() && std::string_view("*?[").find(path[0]) == std::string_view::npos)
      make_absolute("data.validation", path);
  for (auto& set : config.data.sets)
    for (auto& path : set.paths) make_absolute("data.sets", path);
  if (config.parallel.has_backend_library()) make_absolute("parallel.backend", config.parallel.backend);
  if (is_schedule_file(config.parallel.schedule)) make_absolute("parallel.schedule", config.parallel.schedule);
}

}  // namespace

RunConfig read_run_config(const fs::path& file, const std::vector<std::string>& overrides, ConfigSource source) {
  Assignments assignments = read_assignments(file, overrides, source);
  RunConfig config;
  rename_keys(std::span(assignments.all).first(assignments.of_file), config);
  rename_keys(std::span(assignments.all).subspan(assignments.of_file), config);
  Problems problems;
  const auto of_model = apply_sections(assignments, source, config, problems);
  problems.throw_if_any();

  try {
    choose_model(config, file);
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(fmt::format("model.checkpoint \"{}\" cannot be found: {}",
                                  shortened(config.model.checkpoint, 500), error.code().message()));
  }
  const int64_t stored_rows = vocabulary_rows(config.network);
  apply_to_model(of_model, config, problems);
  problems.throw_if_any();
  try {
    finish_config(*config.network.config, "model.config");
  } catch (const ConfigError& error) {
    reject(origin_of_error(error.what(), of_model, config.model.entry), error.what());
  }
  choose_adapters(config);
  resize_embeddings(config, stored_rows);
  choose_length(config);
  validate(config, problems);
  problems.throw_if_any();
  check_optimizer_options(config);
  make_paths_absolute(config);
  return config;
}

}  // namespace modular
