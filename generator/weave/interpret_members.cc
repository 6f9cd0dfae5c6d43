// Evaluation of names: variables, members, modules and their parameters.
#include <algorithm>
#include <set>
#include <utility>

#include "generator/weave/interpreter.h"
#include "generator/weave/partition.h"
#include "generator/weave/second_names.h"
#include "generator/weave/trace.h"

namespace modgen {
namespace {

std::string wrong_stage_advice(Region owner) {
  if (owner == Region::first_stage)
    return "use it only to compute the value that the loop carries, or do not mark it PP_FIRST";
  if (owner == Region::last_stage)
    return "use it only after the loop over the PP_SPLIT list, on its result, or do not mark it PP_LAST";
  return "use the elements of the list only within the loop";
}

/// The sizes of a tensor that is constructed as `torch::ones({heads, width})` or `torch::ones({})`; null if they are
/// not listed.
const std::vector<Expr>* find_listed_sizes(const Expr* construction) {
  static const std::set<std::string_view> by_sizes = {"ones", "zeros", "empty", "full", "rand", "randn"};
  const bool is_made = construction && construction->kind == Expr::Kind::call &&
                       by_sizes.contains(unqualified(construction->name)) && !construction->operands.empty();
  if (!is_made) return nullptr;
  const Expr& sizes = construction->operands[0];
  const bool is_empty =
      sizes.kind == Expr::Kind::construct && sizes.operands.empty() && sizes.type.starts_with("c10::ArrayRef<");
  return sizes.kind == Expr::Kind::list || is_empty ? &sizes.operands : nullptr;
}

/// The number of dimensions of the registered tensor `node`, if all branches of the constructor give it the same.
std::optional<int64_t> find_constructed_rank(const ModuleNode& node) {
  const std::vector<Expr>* sizes = find_listed_sizes(node.construction);
  for (const Expr* construction : node.others)
    if (const auto* other = find_listed_sizes(construction); !sizes || !other || other->size() != sizes->size())
      return std::nullopt;
  return sizes ? std::optional(static_cast<int64_t>(sizes->size())) : std::nullopt;
}

}  // namespace

Value Interpreter::registered_tensor(const ModuleNode& node, std::string_view name, bool is_parameter,
                                     std::optional<int64_t> rank) const {
  if (axis_ != Axis::tp && axis_ != Axis::sequence) return Value::tensor(kInvariant, is_parameter, rank);
  const Partition partition = find_partition(node, name);
  if (axis_ == Axis::sequence) {
    Value whole = Value::tensor(kInvariant, is_parameter, rank);
    whole.is_fixed = true;
    whole.is_inside = partition.dim.has_value();
    if (is_parameter && !whole.is_inside) whole.parameters = {name.empty() ? node.path : node.path_to(name)};
    return whole;
  }
  Value value = Value::tensor(to_type(partition), is_parameter, rank);
  value.counts = find_counts(node, partition, local_counts_);
  value.is_vocabulary = is_vocabulary(node, partition, vocabularies_);
  return value;
}

Variable* Interpreter::find_variable(const Expr& expr) {
  const auto found = frame_->variables.find(expr.variable);
  return found == frame_->variables.end() ? nullptr : &found->second;
}

Value Interpreter::evaluate_local(const Expr& expr) {
  const Variable* variable = find_variable(expr);
  if (!variable && frame_->outside_of_lambda) return make_invariant(expr.type, true);
  if (!variable)
    return fail(expr.span, "unproven: " + expr.name + " is not a variable of this method", "declare it in this method");
  if (variable->was_moved)
    return fail(expr.span, expr.name + " is read after it was moved from",
                "drop the std::move, or assign it a new value");
  // A lambda may run at any time after its captures were assigned new values.
  if (frame_->outside_of_lambda && frame_->outside_of_lambda->contains(expr.variable) &&
      variable->value.kind != Value::Kind::module)
    return make_invariant(expr.type, true);
  Value value = variable->refers_to ? read(*variable->refers_to, expr) : variable->value;
  if (value.kind == Value::Kind::mismatch)
    return fail(expr.span, expr.name + " is " + value.text, "make it the same on all paths that lead here");
  return value;
}

Value Interpreter::evaluate_field(const Expr& expr) {
  if (!expr.operands.empty()) {
    const ModuleNode* const named = frame_->self && has_pipeline_ ? find_named_module(*frame_->self, expr) : nullptr;
    const bool everywhere = named && find_stage_position(*named, stacks_).kind == AnnotationKind::pp_all;
    const bool before = std::exchange(reaches_everywhere_, reaches_everywhere_ || everywhere);
    const Value holder = evaluate(expr.operands[0]);
    reaches_everywhere_ = before;
    return evaluate_member(expr, holder);
  }
  if (!frame_->self) {
    const std::optional<AccessPath> path = get_access_path(expr);
    return path ? read(*path, expr) : Value::unknown(expr.name + ", a member of an object", expr.span);
  }
  if (const ModuleNode* child = frame_->self->child(expr.name)) return evaluate_child(expr, *child);
  return evaluate_plain_field(expr, *frame_->self);
}

Value Interpreter::evaluate_plain_field(const Expr& expr, const ModuleNode& owner) {
  Value value = make_invariant(expr.type, true);
  if (!owner.type) {
    const bool is_split = owner.field && split_annotation(owner.field->annotations);
    return is_split ? Value::unknown(expr.name + ", a member of a layer that is split over tp", expr.span) : value;
  }
  const auto field = std::find_if(owner.type->fields.begin(), owner.type->fields.end(),
                                  [&](const Field& f) { return f.name == expr.name; });
  if (field == owner.type->fields.end())
    return Value::unknown(expr.name + ", a member of libtorch's modules", expr.span);
  // Tensors and modules without an owner are errors already.
  if (!field->is_plain && field->canonical != "at::Tensor" && field->modules == Field::Modules::none)
    return Value::unknown(expr.name + ", a member that may hold tensors without registering them", expr.span);
  const bool local = axis_ == Axis::tp && find_annotation(field->annotations, AnnotationKind::tp_local);
  if (local) {
    insert_call(Call::local, expr);
    value = Value::number();
  }
  if (value.kind == Value::Kind::number) {
    Expr own;
    own.kind = Expr::Kind::field;
    own.name = expr.name;
    const Size size = trace_size(owner, own);
    value.count = size.count;
    value.count.is_share = local;
    if (local) value.counts = {size.local_fields.begin(), size.local_fields.end()};
  }
  return value;
}

std::optional<Value> Interpreter::find_shared(const Expr& expr, const ModuleNode& owner, const Field& field) {
  const auto [known, is_new] = shared_.try_emplace(&field);
  if (is_new) known->second = modgen::find_shared(family_, *owner.type, field);
  const std::optional<SourceSpan>& where = known->second;
  if (!where || !is_split_inside(root_)) return std::nullopt;
  report(expr.span, "unproven: " + field.name + " keeps what may be a tensor or module that has another name, too",
         "read that by its own name, as in up->weight", {{false, *where, "it is stored here", "", {}}});
  return Value::failure();
}

Value Interpreter::evaluate_child(const Expr& expr, const ModuleNode& child) {
  if (child.parent && child.parent->type)
    if (const auto shared = find_shared(expr, *child.parent, *child.field)) return *shared;
  if (is_second_name(child) && is_split_inside(root_))
    return fail(expr.span, "unproven: " + child.path + " is a module that has another name, too",
                "read it by the member that it was made for");
  if (child.is_module()) {
    if (has_pipeline_ && is_split_list(child, stacks_) && traversed_list_ != &expr && !reaches_everywhere_)
      return fail(expr.span,
                  "the PP_SPLIT list " + child.field->name +
                      " is accessed outside its loop: a stage holds only some of its elements",
                  "loop over it in order: for (auto& element : *" + child.field->name + ")");
    return module_value(child);
  }
  const bool is_parameter = child.kind == ModuleNode::Kind::parameter;
  if (is_parameter)
    read_parameters(expr, child);
  else
    check_stage(expr, child);
  Value value = registered_tensor(child, "", is_parameter, find_constructed_rank(child));
  if (const std::vector<Expr>* sizes = find_listed_sizes(child.construction); sizes && child.others.empty())
    for (size_t i = 0; i < sizes->size(); ++i)
      if (const Expr& size = (*sizes)[i]; size.kind == Expr::Kind::literal && size.name == "1")
        value.ones.push_back(static_cast<int64_t>(i) - static_cast<int64_t>(sizes->size()));
  value.reduces = axis_ == Axis::tp && is_parameter && child.field &&
                  find_annotation(child.field->annotations, AnnotationKind::tp_reduce);
  return value;
}

Value Interpreter::evaluate_member(const Expr& expr, const Value& object) {
  if (object.kind == Value::Kind::failed || object.kind == Value::Kind::unknown) return object;
  if (object.kind == Value::Kind::module) {
    const ModuleNode& node = *object.node;
    if (const ModuleNode* child = node.child(expr.name)) return evaluate_child(expr, *child);
    const bool is_parameter = expr.name == "weight" || expr.name == "bias";
    const bool is_matrix = node.kind == ModuleNode::Kind::linear || node.kind == ModuleNode::Kind::embedding;
    if (is_parameter && (is_matrix || (!node.type && expr.type == "at::Tensor"))) {
      const bool is_norm = node.library_class.find("Norm") != std::string::npos;
      const std::optional<int64_t> rank = is_matrix ? std::optional<int64_t>(expr.name == "weight" ? 2 : 1)
                                          : is_norm ? std::optional<int64_t>(1)
                                                    : std::nullopt;
      read_parameters(expr, node);
      return registered_tensor(node, expr.name, true, rank);
    }
    return evaluate_plain_field(expr, node);
  }
  if (object.kind == Value::Kind::tuple && (expr.name == "first" || expr.name == "second")) {
    const size_t i = expr.name == "second";
    if (i < object.elements.size()) return object.elements[i];
  }
  const auto member = object.members.find(expr.name);
  if (member != object.members.end()) return member->second;
  if (!object.is_invariant() && object.kind != Value::Kind::object) return unproven(expr, object, "." + expr.name);
  if (names_module(expr.operands[0].type)) return unknown_module(expr);
  if (object.is_built) return Value::unknown(expr.name + ", a member that is not set", expr.span);
  Value value = make_invariant(expr.type, true);
  value.is_inside = object.is_inside;
  set_storage(value, object.storage);
  if (frame_->self && is_config(family_, expr.operands[0].type))
    if (const auto holder = trace_config(*frame_->self, expr.operands[0]))
      value.count = field_count(*holder + expr.name);
  return value;
}

bool Interpreter::names_module(const std::string& type) const {
  const std::string held(type.substr(0, type.find(' ')));  // "…Impl *" too
  if ((held.starts_with("torch::nn::") || held.starts_with("modular::nn::")) &&
      held.find("Options") == std::string::npos)
    return true;
  for (const char* contract_module :
       {"modular::ModuleListOf", "modular::OneOf", "modular::TransposedLinear", "modular::LayerNorm"})
    if (held.starts_with(contract_module)) return true;
  return std::any_of(family_.classes.begin(), family_.classes.end(), [&](const Class& owner) {
    const std::string name = "modular::" + family_.name + "::" + owner.name;
    return !owner.holder.empty() && (held == name || held + "Impl" == name);
  });
}

Value Interpreter::unknown_module(const Expr& expr) {
  return fail(expr.span, "unproven: the module that this refers to is not known",
              "name it by its member, as in attention->query(x), or as the loop variable of a for loop over its list");
}

bool Interpreter::is_split_inside(const ModuleNode& node) const {
  bool split = false;
  for_each_node(node, [&](const ModuleNode& inner) {
    if (inner.field) split |= split_annotation(inner.field->annotations) != nullptr;
    if (inner.field)
      split |= has_pipeline_ && find_annotation(inner.field->annotations, AnnotationKind::pp_split) != nullptr;
    if (inner.type)
      for (const Field& field : inner.type->fields)
        split |= find_annotation(field.annotations, AnnotationKind::tp_local) != nullptr;
  });
  return split;
}

void Interpreter::read_parameters(const Expr& expr, const ModuleNode& node) {
  const ModuleNode* unit = node.unit();
  if (is_entry_ && std::find(units_.begin(), units_.end(), unit) == units_.end())
    report(expr.span,
           "a parameter of " + node.path + " is read outside of the forward of its unit, " + unit->path +
               ", where it is not unsharded",
           "read it in " + unit->type->name + "::forward, or remove FSDP_UNIT from that class");
  check_stage(expr, node);
}

void Interpreter::check_stage(const Expr& expr, const ModuleNode& node) {
  if (!has_pipeline_ || !is_entry_) return;
  static constexpr std::pair<AnnotationKind, Region> stages[] = {{AnnotationKind::pp_first, Region::first_stage},
                                                                 {AnnotationKind::pp_split, Region::split_stage},
                                                                 {AnnotationKind::pp_last, Region::last_stage}};
  const StagePosition position = find_stage_position(node, stacks_);
  if (position.kind == AnnotationKind::pp_all || !position.in) return;
  if (stacks_.exist) {
    StageReads::Read& read = position.stack == 0 ? frame_->reading.first : frame_->reading.last;
    if (!read.at) read = {&expr, &node, position.in};
    if (!stacks_.are_split[position.stack]) return;
  }
  const Region running = regions_[position.stack];
  for (const auto& [kind, region] : stages)
    if (position.kind == kind && region != running)
      report(expr.span, wrong_stage(node, region, running), wrong_stage_advice(region));
}

void Interpreter::check_dropout_stage(const Expr& expr, const ModuleNode& dropout) {
  const bool is_of_layer = find_stage_position(dropout, stacks_).kind == AnnotationKind::pp_split;
  if (!has_pipeline_ || !is_entry_ || stacks_.exist || is_of_layer) return;
  const Region running = regions_[0];
  const auto [known, is_new] = dropping_.try_emplace(&dropout, running);
  if (running == Region::split_stage || known->second != running)
    report(expr.span, dropout.path + " runs in several pipeline stages, each of which counts its calls from the first",
           "use a dropout layer of its own for each call");
}

std::string Interpreter::wrong_stage(const ModuleNode& node, Region owner, Region running) const {
  static constexpr const char* held[] = {"", "the first pipeline stage", "the stages of the split list",
                                         "the last pipeline stage"};
  static constexpr const char* run[] = {"on every stage", "on the first stage only",
                                        "within the loop over the split list", "on the last stage only"};
  return node.path + " is held by " + held[static_cast<int>(owner)] + (stacks_.exist ? " of its stack" : "") +
         " alone, but is used " + run[static_cast<int>(running)];
}

}  // namespace modgen
