#include "tests/generator/plan_mutants.h"

#include <algorithm>
#include <functional>
#include <set>

#include "generator/source/slices.h"
#include "generator/weave/module_tree.h"
#include "generator/weave/partition.h"
#include "generator/weave/plan.h"

namespace modgen {
namespace {

using enum Verdict;

bool is_linear(const Field& field) {
  const std::string_view type = unqualified(field.type);
  return type == "Linear" || type == "TransposedLinear";
}

// ---- Annotations ----

/// The verdict for a family in which a layer's annotation `from` becomes `to`; if `to` is empty, it is removed.
struct AnnotationChange {
  AnnotationKind from;
  const char* to;
  Verdict verdict;
};

// TP_VOCAB in place of TP_COLWISE is right where no reader needs equal slices, so that it has no verdict here.
constexpr AnnotationChange kAnnotationChanges[] = {
    {AnnotationKind::tp_colwise, "", rejected},
    {AnnotationKind::tp_colwise, "TP_ROWWISE", rejected},
    {AnnotationKind::tp_rowwise, "", rejected},
    {AnnotationKind::tp_rowwise, "TP_COLWISE", rejected},
    {AnnotationKind::tp_rowwise, "TP_VOCAB", rejected},
    {AnnotationKind::tp_colwise_parts, "", rejected},
    {AnnotationKind::tp_colwise_parts, "TP_COLWISE", rejected},
    {AnnotationKind::tp_colwise_parts, "TP_ROWWISE", rejected},
    {AnnotationKind::tp_shard, "", rejected},
    {AnnotationKind::tp_local, "", rejected},
    {AnnotationKind::tp_vocab, "", accepted},  // replicated on every rank
    {AnnotationKind::tp_vocab, "TP_ROWWISE", rejected},
    {AnnotationKind::pp_first, "", rejected},
    {AnnotationKind::pp_first, "PP_LAST", rejected},
    {AnnotationKind::pp_first, "PP_ALL", accepted},
    {AnnotationKind::pp_last, "", rejected},
    {AnnotationKind::pp_last, "PP_FIRST", rejected},
    {AnnotationKind::pp_last, "PP_ALL", accepted},
    {AnnotationKind::pp_split, "", rejected},
    {AnnotationKind::pp_split, "PP_FIRST", rejected},
    {AnnotationKind::pp_split, "PP_LAST", rejected},
    {AnnotationKind::pp_all, "", rejected},
    {AnnotationKind::pp_all, "PP_FIRST", rejected},
    {AnnotationKind::pp_all, "PP_LAST", rejected},
};

/// The fields whose layers an entry ties to another: both have to be split in the same way.
std::set<const Field*> tied_fields(const FamilyModel& model) {
  std::set<const Field*> tied;
  for (const Class& entry : model.classes) {
    if (!find_annotation(entry.annotations, AnnotationKind::entry) || entry.holder.empty()) continue;
    const auto root = build_tree(model, entry);
    for_each_node(*root, [&](const ModuleNode& node) {
      if (!node.field) return;
      for (const Annotation& annotation : node.field->annotations) {
        if (annotation.kind == AnnotationKind::tied_to) tied.insert(node.field);
        const bool is_inner = annotation.kind == AnnotationKind::ties;
        const TiedParameter ends[] = {is_inner ? find_tied(node, inside(annotation.arguments[0])) : TiedParameter(),
                                      is_inner || annotation.kind == AnnotationKind::tied_to
                                          ? find_tied(*node.parent, annotation.arguments.back())
                                          : TiedParameter()};
        for (const TiedParameter& end : ends)
          if (end.layer) tied.insert(end.layer->field);
      }
    });
  }
  return tied;
}

/// Exceptions to the rules above, with their reasons.
struct Exception {
  const char* part;  // part of the mutant's name
  Verdict verdict;
};

constexpr Exception kExceptions[] = {
    // Class scores split by class, which are gathered at the output and for the loss. Scores whose loss may be a
    // regression loss (classification_loss) stay replicated.
    {"GPT2ForTokenClassificationImpl::classifier: TP_COLWISE added", accepted},
    {"BloomForTokenClassificationImpl::classifier: TP_COLWISE added", accepted},
    {"FalconForTokenClassificationImpl::classifier: TP_COLWISE added", accepted},
    {"T5ForTokenClassificationImpl::classifier: TP_COLWISE added", accepted},
    // Its table is read before the unit that would own it.
    {"RelativeAttentionBiasImpl: FSDP_UNIT removed", rejected},
    // Only for checkpoints; entries do not run them.
    {"RobertaPoolerImpl::dense: TP_COLWISE added", accepted},
    {"MPNetPoolerImpl::dense: TP_COLWISE added", accepted},
    {"RobertaModelImpl::pooler: PP_LAST replaced by PP_FIRST", accepted},
    {"MPNetModelImpl::pooler: PP_LAST replaced by PP_FIRST", accepted},
    {"ForSentenceEmbeddingImpl::pooler: PP_LAST replaced by PP_FIRST", accepted},
    {"ForSentencePairClassificationImpl::pooler: PP_LAST replaced by PP_FIRST", accepted},
    // The value's number of dimensions is unknown there, and the sizes of the view that follows are no longer the
    // layer's.
    {"LlavaTextAttentionImpl::forward 6: transposed_twice of q_proj", rejected},
    {"LlavaTextAttentionImpl::forward 6: matmul instead of q_proj", rejected},
    {"LlavaTextAttentionImpl::forward 10: transposed_twice of k_proj", rejected},
    {"LlavaTextAttentionImpl::forward 10: matmul instead of k_proj", rejected},
    {"LlavaTextAttentionImpl::forward 13: transposed_twice of v_proj", rejected},
    {"LlavaTextAttentionImpl::forward 13: matmul instead of v_proj", rejected},
    // The model no longer consists of two stacks.
    {"T5ModelImpl::encoder: PP_FIRST replaced by PP_ALL", rejected},
    {"T5ModelImpl::decoder: PP_LAST replaced by PP_ALL", rejected},
    {"T5ForConditionalGenerationImpl::encoder: PP_FIRST replaced by PP_ALL", rejected},
    {"T5ForConditionalGenerationImpl::decoder: PP_LAST replaced by PP_ALL", rejected},
    {"BartModelImpl::encoder: PP_FIRST replaced by PP_ALL", rejected},
    {"BartModelImpl::decoder: PP_LAST replaced by PP_ALL", rejected},
    {"ModelImpl::vision_model: PP_FIRST replaced by PP_ALL", rejected},
    {"ModelImpl::text_model: PP_LAST replaced by PP_ALL", rejected},
    // A stack whose list is not marked is one piece, which runs on the stage that begins and ends it.
    {"T5DecoderImpl::block: PP_SPLIT removed", accepted},
    {"T5DecoderImpl::block: PP_SPLIT replaced by", accepted},
    {"BartEncoderImpl::layers: PP_SPLIT removed", accepted},
    {"BartEncoderImpl::layers: PP_SPLIT replaced by", accepted},
    {"BartDecoderImpl::layers: PP_SPLIT removed", accepted},
    {"BartDecoderImpl::layers: PP_SPLIT replaced by", accepted},
    // The order of the stacks follows from the inputs of the second one.
    {"T5ModelImpl::encoder: PP_FIRST removed", accepted},
    {"T5ForConditionalGenerationImpl::encoder: PP_FIRST removed", accepted},
    {"BartModelImpl::encoder: PP_FIRST removed", accepted},
    {"SiglipModelImpl::vision_model: PP_FIRST removed", accepted},
    // After the first stack comes a mask of its batch, which each stage computes.
    {"T5ModelImpl::forward: stacks swapped", accepted},
    {"BartModelImpl::forward: stacks swapped", accepted},
    {"T5ForConditionalGenerationImpl::inherited_forward: stacks swapped", accepted},
    // A buffer, which has no gradient: every stage may hold it.
    {"BartForConditionalGenerationImpl::final_logits_bias: PP_LAST removed", accepted},
    // It is inside a stack that is marked itself: the outermost mark decides.
    {"LlavaEncoderImpl::layers: PP_SPLIT", accepted},
    {"LlavaVisionModelImpl::embeddings: PP_FIRST removed", accepted},
    {"LlavaVisionModelImpl::embeddings: PP_FIRST replaced by PP_LAST", accepted},
    {"LlavaVisionModelImpl::pre_layrnorm: PP_FIRST", accepted},
    {"LlavaVisionModelImpl::post_layernorm: PP_LAST", accepted},
};

Verdict get_verdict(const std::string& name, Verdict verdict) {
  for (const Exception& one : kExceptions)
    if (name.find(one.part) != std::string::npos) return one.verdict;
  return verdict;
}

// ---- Bodies ----

/// Code that replaces a value `$`: verdicts for a value that is split along its last dimension and for a full one.
struct Wrap {
  const char* name;
  const char* code;
  Verdict on_split, on_full;
};

constexpr Wrap kWraps[] = {
    {"softmax", "torch::softmax($, -1)", rejected, accepted},
    {"mean", "($ - $.mean(-1, true))", rejected, accepted},
    {"layer_norm", "torch::layer_norm($, {$.size(-1)}, {}, {}, 1e-5)", rejected, accepted},
    {"norm", "($ / ($.norm(2, -1, true) + 1.0))", rejected, accepted},
    {"amax", "($ - $.amax(-1, true))", rejected, accepted},
    {"partial_sum_added", "($ + 0.01 * $.sum(-1, true))", rejected, accepted},
    {"size_as_factor", "($ * (0.01 * static_cast<double>($.size(-1))))", rejected, accepted},
    {"roll", "$.roll(1, -1)", rejected, accepted},
    {"chunks_swapped", "torch::cat({$.chunk(2, -1)[1], $.chunk(2, -1)[0]}, -1)", rejected, accepted},
    {"cumsum", "$.cumsum(-1)", rejected, accepted},
    {"tanh", "torch::tanh($)", accepted, accepted},
    {"scaled", "($ * 0.5)", accepted, accepted},
    {"transposed_twice", "$.transpose(-1, -2).transpose(-1, -2)", accepted, accepted},
};

std::string filled(const std::string& code, const std::string& value) {
  std::string text;
  for (const char letter : code) text += letter == '$' ? value : std::string(1, letter);
  return text;
}

class Mutator {
 public:
  Mutator(const FlattenedSpec& spec, const FamilyModel& model)
      : text_(spec.text), model_(model), tied_(tied_fields(model)) {}

  std::vector<Mutant> all() {
    for (const Class& owner : model_.classes) {
      if (owner.is_config || owner.holder.empty()) continue;
      change_annotations(owner);
      for (const Function& function : owner.functions)
        if (!function.is_constructor && function.name != "reset_parameters") change_method(owner, function);
    }
    return std::move(mutants_);
  }

 private:
  std::string at(SourceSpan span) const { return text_.substr(span.begin, span.end - span.begin); }

  void add(std::string name, Verdict verdict, std::vector<Change> changes) {
    verdict = get_verdict(name, verdict);
    mutants_.push_back({std::move(name), verdict, std::move(changes), owner_, method_});
  }

  /// A change of annotations. `edit` applies it to the parsed class.
  void annotate(const Class& owner, std::string name, Verdict verdict, std::vector<Change> changes,
                std::function<void(Class&)> edit) {
    const size_t index = static_cast<size_t>(&owner - model_.classes.data());
    mutants_.push_back({owner.name + name, get_verdict(owner.name + name, verdict), std::move(changes), "", "",
                        [index, edit](FamilyModel& model) { edit(model.classes[index]); }});
  }

  /// The begin of the declaration of `field`: the first code of its line.
  SourceSpan declaration(const Field& field) const {
    uint32_t begin = field.where.begin;
    while (begin > 0 && text_[begin - 1] != '\n' && text_[begin - 1] != ';') --begin;
    while (text_[begin] == ' ') ++begin;
    return {field.where.file, begin, begin};
  }

  void change_annotations(const Class& owner) {
    for (const Annotation& annotation : owner.annotations)
      if (annotation.kind == AnnotationKind::fsdp_unit && !find_annotation(owner.annotations, AnnotationKind::entry))
        annotate(owner, ": FSDP_UNIT removed", accepted, {{annotation.where, ""}}, [](Class& changed) {
          std::erase_if(changed.annotations,
                        [](const Annotation& one) { return one.kind == AnnotationKind::fsdp_unit; });
        });
    for (size_t i = 0; i < owner.fields.size(); ++i) {
      const Field& field = owner.fields[i];
      for (const Annotation& annotation : field.annotations) change_annotation(owner, i, annotation);
      if (is_linear(field) && !split_annotation(field.annotations))
        for (const char* macro : {"TP_COLWISE", "TP_ROWWISE"}) add_annotation(owner, i, macro);
      if (field.type == "int64_t" && !find_annotation(field.annotations, AnnotationKind::tp_local) &&
          is_read(owner, field))
        add_annotation(owner, i, "TP_LOCAL");
    }
  }

  /// Whether a method reads `field`. Constructors only see full counts.
  static bool is_read(const Class& owner, const Field& field) {
    bool read = false;
    for (const Function& function : owner.functions) {
      if (function.is_constructor || function.name == "reset_parameters") continue;
      Body body = function.body;
      for_each_expr(body, [&](Expr& expr) { read |= get_field(owner, expr) == &field; });
    }
    return read;
  }

  void add_annotation(const Class& owner, size_t field, const std::string& macro) {
    annotate(owner, "::" + owner.fields[field].name + ": " + macro + " added", rejected,
             {{declaration(owner.fields[field]), macro + " "}},
             [=, annotation = make_annotation(macro, owner.fields[field].where)](Class& changed) {
               changed.fields[field].annotations.push_back(annotation);
             });
  }

  /// The parsed annotation of "TP_SHARD(0)".
  static Annotation make_annotation(const std::string& macro, SourceSpan where) {
    Annotation annotation;
    const size_t open = std::min(macro.find('('), macro.size());
    std::string name = "modular.";
    for (const char letter : macro.substr(0, open))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    annotation.kind = annotation_kind(name);
    if (open < macro.size()) annotation.arguments.push_back(macro.substr(open + 1, macro.size() - open - 2));
    annotation.where = where;
    return annotation;
  }

  void change_annotation(const Class& owner, size_t i, const Annotation& annotation) {
    const Field& field = owner.fields[i];
    const size_t position = static_cast<size_t>(&annotation - field.annotations.data());
    const std::string what = "::" + field.name + ": " + at(annotation.where);
    const auto replace = [&](const std::string& to, Verdict verdict) {
      annotate(owner, what + (to.empty() ? " removed" : " replaced by " + to), verdict, {{annotation.where, to}},
               [=, replacement = make_annotation(to, annotation.where)](Class& changed) {
                 std::vector<Annotation>& list = changed.fields[i].annotations;
                 if (to.empty())
                   list.erase(list.begin() + static_cast<std::ptrdiff_t>(position));
                 else
                   list[position] = replacement;
               });
    };
    for (const AnnotationChange& one : kAnnotationChanges) {
      if (annotation.kind != one.from) continue;
      const bool tied = annotation.kind == AnnotationKind::tp_vocab && tied_.contains(&field);
      // A count that only gives the size of a part equals the product.
      const bool names_a_part = annotation.kind == AnnotationKind::tp_local && !is_read(owner, field);
      replace(one.to, tied ? rejected : names_a_part ? accepted : one.verdict);
    }
    if (annotation.kind == AnnotationKind::tp_vocab && is_linear(field)) replace("TP_COLWISE", accepted);
    if (annotation.kind == AnnotationKind::tp_shard && annotation.arguments.size() == 1)
      replace(annotation.arguments[0] == "1" ? "TP_SHARD(0)" : "TP_SHARD(1)", rejected);
    const bool is_plan = is_tensor_parallel(annotation.kind) || is_stage(annotation.kind);
    if (!is_plan || i + 1 >= owner.fields.size()) return;
    const Field& next = owner.fields[i + 1];
    const bool between_parts = annotation.kind == AnnotationKind::tp_local && next.type == "int64_t" &&
                               !is_read(owner, field) &&
                               (find_annotation(next.annotations, AnnotationKind::tp_local) || !is_read(owner, next));
    // Any table that is only looked up may be split by row.
    const bool between_tables = annotation.kind == AnnotationKind::tp_vocab && !tied_.contains(&field) &&
                                field.type == next.type && next.type.ends_with("nn::Embedding");
    annotate(owner, what + " moved to " + next.name, between_parts || between_tables ? accepted : rejected,
             {{annotation.where, ""}, {declaration(next), at(annotation.where) + " "}}, [=](Class& changed) {
               std::vector<Annotation>& list = changed.fields[i].annotations;
               changed.fields[i + 1].annotations.push_back(list[position]);
               list.erase(list.begin() + static_cast<std::ptrdiff_t>(position));
             });
  }

  // ---- Methods ----

  void change_method(const Class& owner, const Function& function) {
    owner_ = owner.name, method_ = function.name;
    change_loop(owner, function);
    change_stacks(owner, function);
    Body body = function.body;
    int number = 0;
    for_each_expr(body, [&](Expr& expr) {
      if (expr.kind != Expr::Kind::method || expr.operands.empty()) return;
      const std::string where = owner.name + "::" + function.name + " " + std::to_string(++number) + ": ";
      if (expr.name == "view" || expr.name == "reshape") change_view(owner, expr, where);
      if (expr.name == "transpose" && views_local_count(owner, expr.operands[0]))
        add(where + "heads not moved before positions", rejected, {{expr.span, at(expr.operands[0].span)}});
      if (expr.name != "forward" || expr.operands[0].kind != Expr::Kind::field || !expr.operands[0].operands.empty())
        return;
      const auto field = std::find_if(owner.fields.begin(), owner.fields.end(),
                                      [&](const Field& f) { return f.name == expr.operands[0].name; });
      if (field != owner.fields.end() && is_linear(*field)) change_layer(*field, expr, where);
    });
  }

  void change_layer(const Field& field, const Expr& expr, const std::string& where) {
    const Annotation* split = split_annotation(field.annotations);
    const bool gives_split = split && split->kind != AnnotationKind::tp_rowwise,
               takes_split = split && split->kind == AnnotationKind::tp_rowwise;
    const std::string call = at(expr.span);
    for (const Wrap& wrap : kWraps) {
      add(where + wrap.name + " of " + field.name, gives_split ? wrap.on_split : wrap.on_full,
          {{expr.span, filled(wrap.code, call)}});
      if (expr.operands.size() == 2)
        add(where + wrap.name + " into " + field.name, takes_split ? wrap.on_split : wrap.on_full,
            {{expr.operands[1].span, filled(wrap.code, "(" + at(expr.operands[1].span) + ")")}});
    }
    if (expr.operands.size() != 2) return;
    const std::string argument = at(expr.operands[1].span);
    add(where + "matmul instead of " + field.name, takes_split ? rejected : accepted,
        {{expr.span, unqualified(field.type) == "Linear"
                         ? "torch::linear(" + argument + ", " + field.name + "->weight)"
                         : "torch::matmul(" + argument + ", " + field.name + "->weight)"}});
  }

  static const Field* get_field(const Class& owner, const Expr& expr) {
    if (expr.kind != Expr::Kind::field || !expr.operands.empty()) return nullptr;
    const auto field =
        std::find_if(owner.fields.begin(), owner.fields.end(), [&](const Field& f) { return f.name == expr.name; });
    return field == owner.fields.end() ? nullptr : &*field;
  }

  static bool is_local_count(const Class& owner, const Expr& expr) {
    const Field* field = get_field(owner, expr);
    return field && find_annotation(field->annotations, AnnotationKind::tp_local);
  }

  static bool views_local_count(const Class& owner, const Expr& expr) {
    if (expr.kind != Expr::Kind::method || expr.name != "view" || expr.operands.size() != 2) return false;
    const std::vector<Expr>& sizes = expr.operands[1].operands;
    return std::any_of(sizes.begin(), sizes.end(), [&](const Expr& size) { return is_local_count(owner, size); });
  }

  /// The variable that the loop carries from element to element.
  static std::string carried_by(const Stmt& loop) {
    for (const Stmt& inner : loop.then_body) {
      if (inner.kind != Stmt::Kind::expression || inner.exprs[0].name != "=") continue;
      const Expr& target = inner.exprs[0].operands[0];
      if (target.kind == Expr::Kind::local) return target.name;
    }
    return "";
  }

  static SourceSpan before(const Stmt& statement) {
    return {statement.span.file, statement.span.begin, statement.span.begin};
  }
  static SourceSpan after(const Stmt& statement) {
    return {statement.span.file, statement.span.end, statement.span.end};
  }

  /// Moves code and members of some stages to others.
  void change_loop(const Class& owner, const Function& function) {
    const std::vector<Stmt>& statements = function.body.statements;
    const auto loop = std::find_if(statements.begin(), statements.end(), [&](const Stmt& statement) {
      if (statement.kind != Stmt::Kind::range_for || statement.exprs[0].operands.size() != 1) return false;
      const Field* list = get_field(owner, statement.exprs[0].operands[0]);
      return list && find_annotation(list->annotations, AnnotationKind::pp_split);
    });
    if (loop == statements.end()) return;
    const std::string carried = carried_by(*loop), where = owner.name + "::" + function.name + ": ";
    const auto feed = std::find_if(statements.begin(), loop, [&](const Stmt& statement) {
      return statement.kind == Stmt::Kind::declare && statement.names == std::vector<std::string>{carried} &&
             !statement.exprs.empty();
    });
    const Expr* next = nullptr;  // output of an element
    for (const Stmt& inner : loop->then_body)
      if (inner.kind == Stmt::Kind::expression && inner.exprs[0].name == "=" && !next)
        next = &inner.exprs[0].operands[1];
    if (carried.empty() || feed == loop || !next) return;
    const SourceSpan body{loop->span.file, loop->then_body.front().span.begin, loop->then_body.back().span.end};
    const auto appended = [&](const std::string& value) {
      return Change{after(*loop), "\n" + carried + " = " + value + ";"};
    };

    add(where + "input kept for the end", rejected,
        {{before(*loop), "const Tensor kept = " + carried + ";\n"}, appended(carried + " + kept")});
    add(where + "elements counted", rejected,
        {{before(*loop), "int64_t walked = 0;\n"},
         {body, "{ ++walked; " + at(body) + " }"},
         appended(carried + " * static_cast<double>(walked)")});
    add(where + "loop in a branch", rejected, {{before(*loop), "if (" + carried + ".dim() > 0) "}});
    add(where + "scaled after the loop", accepted, {appended(carried + " * 0.5")});
    add(where + "input scaled", accepted, {{after(*feed), "\n" + carried + " = " + carried + " * 0.5;"}});
    add(where + "scaled in the loop", accepted, {{next->span, "(" + at(next->span) + ") * 0.9"}});
    for (const Field& field : owner.fields) {
      if (find_annotation(field.annotations, AnnotationKind::pp_last) && takes_and_gives_a_tensor(field)) {
        add(where + field.name + " within the loop", rejected, {{next->span, field.name + "(" + at(next->span) + ")"}});
        add(where + field.name + " on the input", rejected,
            {{feed->exprs[0].span, field.name + "(" + at(feed->exprs[0].span) + ")"}});
      }
      if (find_annotation(field.annotations, AnnotationKind::pp_first) && unqualified(field.type) == "Embedding") {
        const std::string mean = field.name + "->weight.mean()";
        add(where + field.name + " after the loop", rejected, {appended(carried + " + " + mean)});
        add(where + field.name + " within the loop", rejected, {{next->span, "(" + at(next->span) + ") + " + mean}});
        add(where + field.name + " on every stage", rejected,
            {{before(*loop), "const Tensor everywhere = " + mean + ";\n"}, appended(carried + " + everywhere")});
      }
    }
  }

  /// Whether the member contains lists of layers without being one.
  bool is_layer_stack(const Class& owner, const Field& field) const {
    const auto tree = build_tree(model_, owner);
    const ModuleNode* node = tree->child(field.name);
    bool holds = false;
    if (node && node->kind != ModuleNode::Kind::list)
      for_each_node(*node, [&](const ModuleNode& inner) { holds |= inner.kind == ModuleNode::Kind::list; });
    return holds;
  }

  /// Whether `expr`, or a method of `owner` that it calls, names a stack with that mark.
  bool names_marked(const Class& owner, const Expr& expr, AnnotationKind kind) const {
    const Field* field = get_field(owner, expr);
    if (field && find_annotation(field->annotations, kind) && is_layer_stack(owner, *field)) return true;
    if (expr.kind == Expr::Kind::method && expr.operands[0].kind == Expr::Kind::self)
      if (const Function* method = find_method(owner, expr.name, expr.operands.size() - 1)) {
        bool named = false;
        Body body = method->body;
        for_each_stmt(body, [&](Stmt& statement) {
          for (const Expr& inner : statement.exprs) named |= names_marked(owner, inner, kind);
        });
        if (named) return true;
      }
    return std::any_of(expr.operands.begin(), expr.operands.end(),
                       [&](const Expr& operand) { return names_marked(owner, operand, kind); });
  }

  /// Changes the statement after which the model is cut between two stacks.
  void change_stacks(const Class& owner, const Function& function) {
    // Layers that are cut return other values in the middle of a stack, so their result may only be assigned to a
    // variable.
    const bool is_cut = std::ranges::any_of(model_.classes, [](const Class& one) {
      return std::ranges::any_of(one.fields, [](const Field& field) {
        return find_annotation(field.annotations, AnnotationKind::pp_split) != nullptr;
      });
    });
    const Verdict verdict = is_cut ? rejected : accepted;
    const std::vector<Stmt>& statements = function.body.statements;
    const auto crossing = std::find_if(statements.begin(), statements.end(), [&](const Stmt& statement) {
      return statement.kind == Stmt::Kind::declare && statement.names.size() == 1 && !statement.exprs.empty() &&
             names_marked(owner, statement.exprs[0], AnnotationKind::pp_first) &&
             !names_marked(owner, statement.exprs[0], AnnotationKind::pp_last);
    });
    const bool has_last = std::any_of(crossing, statements.end(), [&](const Stmt& statement) {
      return !statement.exprs.empty() && names_marked(owner, statement.exprs[0], AnnotationKind::pp_last);
    });
    if (!has_last) return;
    const std::string where = owner.name + "::" + function.name + ": ", name = crossing->names[0];
    const SourceSpan crossing_value = crossing->exprs[0].span;
    add(where + "crossing value computed twice", rejected,
        {{before(*crossing), "const Tensor kept = " + at(crossing_value) + ";\n"}});
    add(where + "crossing value scaled", verdict, {{crossing_value, "(" + at(crossing_value) + ") * 0.5"}});
    add(where + "crossing value computed in a branch", verdict,
        {{crossing->span, "Tensor " + name + ";\nif (!batch.position_ids.defined() || batch.position_ids.defined()) " +
                              name + " = " + at(crossing_value) + ";"}});
    if (const auto next = crossing + 1; next != statements.end() && next->kind == Stmt::Kind::declare)
      add(where + "stacks swapped", rejected, {{crossing->span, at(next->span)}, {next->span, at(crossing->span)}});
  }

  bool takes_and_gives_a_tensor(const Field& field) const {
    if (unqualified(field.type) == "LayerNorm") return true;
    for (const Class& one : model_.classes) {
      if (one.holder != field.type) continue;
      const Function* forward = find_method(one, "forward", 1);
      return forward && forward->parameters.size() == 1 && forward->return_type == "Tensor" &&
             forward->parameters[0].type.find("Tensor") != std::string::npos;
    }
    return false;
  }

  /// Swaps and scales the sizes of a view that has a local count.
  void change_view(const Class& owner, const Expr& expr, const std::string& where) {
    if (expr.operands.size() != 2 || expr.operands[1].kind != Expr::Kind::list) return;
    const std::vector<Expr>& sizes = expr.operands[1].operands;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!is_local_count(owner, sizes[i])) continue;
      const std::string count = at(sizes[i].span);
      if (i + 1 < sizes.size()) {
        add(where + "sizes swapped after " + count, rejected,
            {{sizes[i].span, at(sizes[i + 1].span)}, {sizes[i + 1].span, count}});
        if (i > 0)
          add(where + "size before " + count + " doubled", rejected,
              {{sizes[i - 1].span, "2 * " + at(sizes[i - 1].span)},
               {sizes[i + 1].span, at(sizes[i + 1].span) + " / 2"}});
      }
      if (i > 0)
        add(where + "sizes swapped before " + count, rejected,
            {{sizes[i].span, at(sizes[i - 1].span)}, {sizes[i - 1].span, count}});
      add(where + count + " as -1", rejected, {{sizes[i].span, "-1"}});
    }
  }

  const std::string& text_;
  const FamilyModel& model_;
  const std::set<const Field*> tied_;
  std::vector<Mutant> mutants_;
  std::string owner_, method_;
};

Class& get_class(FamilyModel& model, const std::string& name) {
  return *std::find_if(model.classes.begin(), model.classes.end(), [&](const Class& c) { return c.name == name; });
}

constexpr const char* kMutant = "_mutant_";

}  // namespace

std::vector<FamilyModel> mutated(const GenerateOptions& options, const FlattenedSpec& spec, const FamilyModel& model,
                                 const std::vector<Mutant>& mutants) {
  // Each changed method is inserted after the original under a new name, and replaces it afterwards.
  std::vector<Change> added;
  for (size_t i = 0; i < mutants.size(); ++i) {
    if (mutants[i].method.empty()) continue;
    for (const Class& owner : model.classes) {
      if (owner.name != mutants[i].owner) continue;
      for (const Function& function : owner.functions) {
        const SourceSpan slice{model.file, next_code(spec.text, function.text.front().slice.begin),
                               function.body.span.end};
        if (function.name != mutants[i].method || !slice.contains(mutants[i].changes.front().where)) continue;
        std::vector<Change> changes = mutants[i].changes;
        changes.push_back({function.where, function.name + kMutant + std::to_string(i)});
        for (Change& change : changes) change.where.begin -= slice.begin, change.where.end -= slice.begin;
        added.push_back({{model.file, slice.end, slice.end},
                         "\n" + changed(spec.text.substr(slice.begin, slice.end - slice.begin), changes)});
      }
    }
  }
  FlattenedSpec all = spec;
  all.text = changed(all.text, added);
  FamilyModel read = read_flattened(options, {all}).front();
  FamilyModel unchanged = read;
  const auto is_mutant = [](const Function& one) { return one.name.find(kMutant) != std::string::npos; };
  for (Class& owner : unchanged.classes) std::erase_if(owner.functions, is_mutant);
  std::vector<FamilyModel> models;
  for (size_t i = 0; i < mutants.size(); ++i) {
    FamilyModel& one = models.emplace_back(unchanged);
    if (mutants[i].edit) {
      mutants[i].edit(one);
      continue;
    }
    const std::string name = mutants[i].method + kMutant + std::to_string(i);
    for (const Function& body : get_class(read, mutants[i].owner).functions) {
      if (body.name != name) continue;
      for (Function& function : get_class(one, mutants[i].owner).functions)
        if (function.name == mutants[i].method && function.parameters.size() == body.parameters.size())
          function.body = body.body, function.text = body.text, function.where = body.where;
    }
  }
  return models;
}

std::vector<Mutant> make_mutants(const FlattenedSpec& spec, const FamilyModel& model) {
  return Mutator(spec, model).all();
}

}  // namespace modgen
