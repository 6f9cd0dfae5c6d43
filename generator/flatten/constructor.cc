// Constructors: the base's is unravelled into the derived one's, so that it reads as if written for this class.
#include <clang/AST/Attr.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <functional>

#include "generator/flatten/base_call.h"
#include "generator/flatten/family.h"
#include "generator/resolve/effects.h"
#include "generator/source/edits.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

/// Text is made when it is known to stay: what it names is then needed.
using Later = std::function<Fragment()>;

struct Part {
  Later text;              // of an initializer: `field(value)`, of a statement: with its semicolon
  Later comment;           // above it
  std::string field;       // that it sets; empty where it sets none or several
  std::string registered;  // the name that it registers
  std::set<std::string> reads;
  std::set<std::string> writes;  // of a statement
  bool is_base = false;          // of a library's base class
};

struct Parts {
  std::vector<Part> initializers;
  std::vector<Part> statements;
  Fragment tail;  // comments before the closing brace
};

class Unraveller {
 public:
  explicit Unraveller(const ConstructorContext& context)
      : context_(context),
        family_(context.family),
        entity_(context.entity),
        parsed_(family_.parsed()),
        manager_(family_.specs().manager()) {}

  Fragment make(size_t level, const clang::CXXConstructorDecl& declared, SourceSpan slice) {
    const auto& constructor = llvm::cast<clang::CXXConstructorDecl>(Specs::defined(declared));
    const clang::Stmt* body = constructor.getBody();
    // Nothing to unravel: the text as it stands.
    const bool in_class = &constructor == &declared;
    if (level + 1 == entity_.levels.size() && context_.dropped.empty() && in_class) return render(slice, level, {});
    if (!body) return render(slice, level, {});
    Parts parts = unravel(level, constructor, {});
    for (const Skipped& skipped : skipped_) {
      const auto sets = [&](const Part& part) { return part.field == skipped.name || part.writes.count(skipped.name); };
      if (std::none_of(parts.initializers.begin(), parts.initializers.end(), sets) &&
          std::none_of(parts.statements.begin(), parts.statements.end(), sets))
        family_.specs().refuse(skipped.where,
                               "nothing sets '" + skipped.name + "': the constructor of its class is skipped",
                               "set it in this constructor, or remove it with a private using-declaration",
                               {{Diagnostic::Severity::note,
                                 parsed_.token(manager_, skipped.field->getLocation()),
                                 "'" + skipped.name + "'",
                                 "",
                                 {}}});
    }
    const uint32_t end = in_class ? head_end(constructor) : span(declared.getSourceRange()).end;
    Fragment text;
    std::stable_sort(parts.initializers.begin(), parts.initializers.end(),
                     [&](const Part& a, const Part& b) { return rank(a) < rank(b); });
    for (size_t index = 0; index < parts.initializers.size(); ++index) {
      const Part& part = parts.initializers[index];
      text.add(std::string(index == 0 ? "\n : " : ",\n"));
      if (const Fragment comment = part.comment(); !comment.empty()) {
        text.append(comment);
        text.add(std::string("\n"));
      }
      text.append(part.text());
    }
    text.add(std::string(" {"));
    for (const Part& part : parts.statements) {
      text.add(std::string("\n"));
      text.append(part.text());
    }
    if (const Fragment tail = parts.tail.trimmed(); !tail.empty()) {
      text.add(std::string("\n"));
      text.append(tail);
      text.add(std::string("\n"));
    }
    text.add(std::string(parts.statements.empty() ? "}" : "\n}"));
    Fragment whole =
        render({slice.file, slice.begin, end}, level, {}, unused_parameters(declared, text.text())).trimmed();
    whole.append(text);
    return whole;
  }

 private:
  /// Commented out, as in `double /*factor*/`: what only a dropped initializer read.
  std::vector<Replacement> unused_parameters(const clang::CXXConstructorDecl& constructor,
                                             const std::string& code) const {
    std::set<std::string> words;
    for (const RawToken& token : raw_tokens(code, 0, static_cast<uint32_t>(code.size())))
      if (token.kind == RawToken::Kind::identifier) words.insert(code.substr(token.begin, token.end - token.begin));
    std::vector<Replacement> replacements;
    for (const clang::ParmVarDecl* parameter : constructor.parameters()) {
      if (!parameter->getDeclName() || words.count(parameter->getNameAsString()) ||
          parameter->hasAttr<clang::UnusedAttr>())
        continue;
      const SourceSpan name = parsed_.token(manager_, parameter->getLocation());
      Fragment comment;
      comment.add("/*" + parameter->getNameAsString() + "*/", name);
      replacements.push_back({name, comment});
    }
    return replacements;
  }

  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  Fragment render(SourceSpan where, size_t level, const Substitution& arguments,
                  std::vector<Replacement> replacements = {}) {
    return family_.render(where, entity_.levels[level], entity_, arguments, std::move(replacements));
  }

  size_t rank(const Part& part) const {
    if (part.is_base) return 0;
    const auto found = std::find(context_.field_order.begin(), context_.field_order.end(), part.field);
    return 1 + static_cast<size_t>(found - context_.field_order.begin());
  }

  /// Where the signature ends: the colon of the initializers, or the body.
  uint32_t head_end(const clang::CXXConstructorDecl& constructor) const {
    const SourceSpan body = span(constructor.getBody()->getSourceRange());
    uint32_t end = body.begin;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten()) end = std::min(end, span(init->getSourceRange()).begin);
    if (end == body.begin) return end;
    const SourceSpan name = parsed_.token(manager_, constructor.getLocation());
    uint32_t colon = end;
    for (const RawToken& token : raw_tokens(family_.file_text(body.file), name.end, end))
      if (token.end == token.begin + 1 && family_.file_text(body.file)[token.begin] == ':') colon = token.begin;
    return colon;
  }

  bool is_dropped(const std::string& field, size_t level) const {
    const auto dropped = context_.dropped.find(field);
    return dropped != context_.dropped.end() && dropped->second < level;
  }

  Parts unravel(size_t level, const clang::CXXConstructorDecl& constructor, const Substitution& arguments) {
    Parts parts;
    const SourceSpan body = span(constructor.getBody()->getSourceRange());
    std::vector<const clang::CXXCtorInitializer*> written;
    bool ran_base = false;
    for (const clang::CXXCtorInitializer* init : constructor.inits()) {
      if (init->isWritten())
        written.push_back(init);
      else if (init->isBaseInitializer())
        ran_base |= run_base(*init, level, arguments, parts);  // the base's default constructor
    }
    std::sort(written.begin(), written.end(),
              [](const auto* a, const auto* b) { return a->getSourceOrder() < b->getSourceOrder(); });
    std::vector<SourceSpan> cores;
    for (const auto* init : written) cores.push_back(span(init->getSourceRange()));
    const std::vector<SourceSpan> slices =
        written.empty() ? std::vector<SourceSpan>{}
                        : own_gaps(family_.file_text(body.file), {body.file, cores.front().begin, body.begin}, cores);

    for (size_t index = 0; index < written.size(); ++index) {
      const clang::CXXCtorInitializer& init = *written[index];
      if (init.isDelegatingInitializer()) {
        family_.specs().refuse(cores[index], "modgen does not unravel delegating constructors",
                               "write out the initializers");
        return parts;
      }
      if (init.isBaseInitializer()) {
        if (run_base(init, level, arguments, parts)) {
          ran_base = true;
          continue;
        }
      }
      Part part;
      part.is_base = init.isBaseInitializer();
      if (init.isAnyMemberInitializer()) part.field = init.getAnyMember()->getNameAsString();
      if (is_dropped(part.field, level)) continue;
      part.registered = registered_name(init.getInit());
      const Effects effects = effects_of(init.getInit());
      part.reads = effects.reads;
      part.comment = comments_at(slices[index], cores[index], level, arguments);
      if (ran_base && init.isAnyMemberInitializer() && needs_statements(effects, parts)) {
        add_as_statement(init, std::move(part), cores[index], level, arguments, parts);
        continue;
      }
      part.text = [this, where = cores[index], level, arguments] { return render(where, level, arguments); };
      std::erase_if(parts.initializers,
                    [&](const Part& inherited) { return !part.field.empty() && inherited.field == part.field; });
      parts.initializers.push_back(std::move(part));
    }

    calls_[level] = super_calls(family_, entity_, level, constructor, arguments, context_.supers);
    for (const auto& [stmt, slice] : statement_slices(family_, *constructor.getBody())) {
      if (!stmt)
        parts.tail.append(render(slice, level, arguments));
      else
        add_statement(*stmt, slice, level, arguments, parts);
    }
    return parts;
  }

  /// The comments above an initializer and behind it.
  Later comments_at(SourceSpan slice, SourceSpan core, size_t level, const Substitution& arguments) {
    const std::string& text = family_.file_text(slice.file);
    uint32_t behind = core.end;
    while (behind < slice.end && (text[behind] == ',' || text[behind] == ' ')) ++behind;
    return [this, above = comment_above(slice, level, arguments), level, arguments,
            comment = leading_comment(text, {slice.file, behind, slice.end})] {
      Fragment result = above();
      if (comment.begin == comment.end) return result;
      if (!result.empty()) result.add(std::string("\n"));
      result.append(render(comment, level, arguments));
      return result;
    };
  }

  /// Whether code behind the base's body has to see what statements of that body did.
  static bool needs_statements(const Effects& effects, const Parts& parts) {
    return std::any_of(parts.statements.begin(), parts.statements.end(), [&](const Part& statement) {
      return effects.calls_own_methods ||
             std::any_of(statement.writes.begin(), statement.writes.end(),
                         [&](const std::string& field) { return !field.empty() && effects.reads.count(field); });
    });
  }

  /// `gain(offset * 2)` as `gain = offset * 2;`, behind the base's body that sets `offset`.
  void add_as_statement(const clang::CXXCtorInitializer& init, Part part, SourceSpan where, size_t level,
                        const Substitution& arguments, Parts& parts) {
    const clang::FieldDecl& field = *init.getAnyMember();
    const clang::Expr* value = init.getInit()->IgnoreImplicit();
    if (const auto* list = llvm::dyn_cast<clang::ParenListExpr>(value); list && list->getNumExprs() == 1)
      value = list->getExpr(0);
    if (const auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(value);
        made && !llvm::isa<clang::CXXTemporaryObjectExpr>(made) && made->getNumArgs() == 1)
      value = made->getArg(0);
    const bool several = llvm::isa<clang::ParenListExpr>(value) || (llvm::isa<clang::CXXConstructExpr>(value) &&
                                                                    !llvm::isa<clang::CXXTemporaryObjectExpr>(value));
    if (field.getType().isConstQualified() || field.getType()->isReferenceType() || several)
      return family_.specs().refuse(
          where,
          "'" + part.field +
              "' is initialized from what the body of the base's constructor sets, and cannot be assigned behind it",
          several ? "assign it in the constructor's body" : "declare it without const and without a reference");
    part.writes = {part.field};
    part.text = [this, name = part.field, value = span(value->getSourceRange()), level, arguments,
                 comment = part.comment] {
      Fragment text = comment();
      if (!text.empty()) text.add(std::string("\n"));
      text.add(family_.member_name(name, *entity_.levels[level].symbol, entity_.levels[level], entity_) + " = ");
      text.append(render(value, level, arguments));
      text.add(std::string(";"));
      return text;
    };
    part.comment = [] { return Fragment(); };
    parts.statements.push_back(std::move(part));
  }

  Later comment_above(SourceSpan slice, size_t level, const Substitution& arguments) {
    const SourceSpan comment = leading_comment(family_.file_text(slice.file), slice);
    return [this, comment, level, arguments] {
      return comment.begin < comment.end ? render(comment, level, arguments) : Fragment();
    };
  }

  /// Runs the constructor of a base that is a level of this class; false where the base is a library's.
  bool run_base(const clang::CXXCtorInitializer& init, size_t level, const Substitution& outer, Parts& parts) {
    const std::optional<BaseCall> call = base_call(family_, entity_, level, init);
    if (!call) return false;
    for (const size_t skipped : call->skipped) check_skipped(skipped, init);
    if (!call->constructor) return true;
    Parts inherited = unravel(call->level, *call->constructor, base_arguments(family_, entity_, *call, level, outer));
    if (level == 0) {
      const SourceSpan cause = init.isWritten() ? span(init.getSourceRange()) : entity_.levels[0].symbol->where;
      const auto asked_for = [cause](Later text) -> Later {
        return [cause, text = std::move(text)] {
          Fragment result = text();
          result.set_cause(cause);
          return result;
        };
      };
      for (auto* parts_of : {&inherited.initializers, &inherited.statements})
        for (Part& part : *parts_of) part.text = asked_for(std::move(part.text));
    }
    parts.initializers.insert(parts.initializers.end(), inherited.initializers.begin(), inherited.initializers.end());
    parts.statements.insert(parts.statements.end(), inherited.statements.begin(), inherited.statements.end());
    parts.tail.append(inherited.tail);
    return true;
  }

  /// What a level declares whose constructor is skipped has nothing that creates it but this class.
  void check_skipped(size_t level, const clang::CXXCtorInitializer& init) {
    for (const clang::FieldDecl* field : entity_.levels[level].symbol->record->fields()) {
      const std::string name = field->getNameAsString();
      const bool stays =
          std::find(context_.field_order.begin(), context_.field_order.end(), name) != context_.field_order.end();
      if (stays && !field->hasInClassInitializer() && !context_.dropped.count(name))
        skipped_.push_back({name, field, span(init.getSourceRange())});
    }
  }

  /// Whether `if (parameter) statement` has `true` as its argument. With `false` it stays: it registers what else
  /// nothing would.
  static bool always_holds(const clang::IfStmt& condition, const Substitution& arguments) {
    const auto* named = llvm::dyn_cast<clang::DeclRefExpr>(condition.getCond()->IgnoreParenImpCasts());
    const auto argument = arguments.find(named ? llvm::dyn_cast<clang::ParmVarDecl>(named->getDecl()) : nullptr);
    return argument != arguments.end() && argument->second.text() == "true" && !condition.hasElseStorage() &&
           !condition.hasInitStorage() && !llvm::isa<clang::CompoundStmt>(condition.getThen());
  }

  /// Appends a statement, or puts it in the place of the inherited one with the same target. `comment` stands above it.
  void add_statement(const clang::Stmt& stmt, SourceSpan slice, size_t level, const Substitution& arguments,
                     Parts& parts, SourceSpan comment = {}) {
    const SourceSpan above = comment.empty() ? leading_comment(family_.file_text(slice.file), slice) : comment;
    if (const auto* condition = llvm::dyn_cast<clang::IfStmt>(&stmt);
        condition && always_holds(*condition, arguments)) {
      const clang::Stmt& then = *condition->getThen();
      return add_statement(then, {slice.file, span(then.getSourceRange()).begin, slice.end}, level, arguments, parts,
                           above);
    }
    const clang::Stmt* inner = &stmt;
    if (const auto* expr = llvm::dyn_cast<clang::Expr>(inner)) inner = expr->IgnoreImplicit();
    const clang::Expr* value = nullptr;
    Part part;
    if (const auto* assignment = llvm::dyn_cast<clang::BinaryOperator>(inner);
        assignment && assignment->getOpcode() == clang::BO_Assign) {
      part.field = own_field(assignment->getLHS());
      value = assignment->getRHS();
    } else if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner);
               call && call->getOperator() == clang::OO_Equal) {
      part.field = own_field(call->getArg(0));
      value = call->getArg(1);
    }
    if (is_remove(*inner, parts)) return;
    if (is_dropped(part.field, level)) return;
    part.registered = registered_name(&stmt);
    const Effects effects = effects_of(value ? value : &stmt);
    part.reads = effects.reads;
    part.writes = effects.writes;
    if (!part.field.empty()) part.writes.insert(part.field);
    // A statement whose only use was to serve a removed member goes with it.
    if (!part.registered.empty() && is_dropped(part.registered, level) && part.field.empty()) return;

    const SourceSpan core = span(stmt.getSourceRange());
    const auto same_target = [&](const Part& inherited) {
      return (!part.field.empty() && inherited.field == part.field) ||
             (part.field.empty() && !part.registered.empty() && inherited.registered == part.registered);
    };
    const bool is_derived = level + 1 < entity_.levels.size();
    if (is_derived && effects.locals.empty() && value) {
      const auto init = std::find_if(parts.initializers.begin(), parts.initializers.end(), same_target);
      if (init != parts.initializers.end() && !read_between(parts, init, part.field) && readable_at(part)) {
        init->text = [this, field = part.field, where = span(value->getSourceRange()), level, arguments] {
          const Symbol& owner = *entity_.levels[level].symbol;
          Fragment text(family_.member_name(field, owner, entity_.levels[level], entity_) + "(");
          text.append(render(where, level, arguments, calls_[level]));
          text.add(std::string(")"));
          return text;
        };
        init->reads = part.reads;
        init->registered = part.registered;
        if (!above.empty()) init->comment = [this, above, level, arguments] { return render(above, level, arguments); };
        return;
      }
      if (init != parts.initializers.end() && !part.registered.empty() && init->registered == part.registered)
        return refuse_order(core, part);
    }
    part.text = [this, slice, comment, level, arguments] {
      Fragment text = comment.empty() ? Fragment() : render(comment, level, arguments);
      if (!text.empty()) text.add(std::string("\n"));
      text.append(render(slice, level, arguments, calls_[level]).trimmed());
      return text;
    };
    if (is_derived) {
      const auto inherited = std::find_if(parts.statements.begin(), parts.statements.end(), same_target);
      if (inherited != parts.statements.end()) {
        bool in_place = effects.locals.empty();
        for (auto after = inherited + 1; after != parts.statements.end(); ++after)
          in_place &= !after->reads.count(part.field) && !part.reads.count(after->field);
        if (in_place) {
          *inherited = std::move(part);
          return;
        }
        if (!part.registered.empty() && inherited->registered == part.registered) return refuse_order(core, part);
      }
    }
    parts.statements.push_back(std::move(part));
  }

  /// `remove(member);` takes what creates the member along; the constructor creates it anew afterwards.
  bool is_remove(const clang::Stmt& stmt, Parts& parts) {
    const auto* call = llvm::dyn_cast<clang::CallExpr>(&stmt);
    const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
    if (!callee || callee->getQualifiedNameAsString() != "modular::remove") return false;
    const std::string field = own_field(call->getArg(0));
    const auto sets = [&](const Part& part) {
      return part.field == field || (part.field.empty() && part.registered == field);
    };
    if (std::erase_if(parts.initializers, sets) + std::erase_if(parts.statements, sets) == 0 &&
        !context_.dropped.count(field))
      family_.specs().refuse(span(stmt.getSourceRange()), "the inherited constructor does not create '" + field + "'",
                             "remove this statement", {}, remove_with_line(parsed_, span(stmt.getSourceRange())));
    return true;
  }

  /// Code behind the inherited place reads the target, so replacing it there would change what that code sees.
  bool read_between(const Parts& parts, std::vector<Part>::const_iterator init, const std::string& field) const {
    for (auto after = init + 1; after != parts.initializers.end(); ++after)
      if (after->reads.count(field)) return true;
    return std::any_of(parts.statements.begin(), parts.statements.end(),
                       [&](const Part& part) { return part.reads.count(field) != 0; });
  }

  /// All that the value reads is initialized before its field.
  bool readable_at(const Part& part) const {
    const size_t place = rank(part);
    return std::all_of(part.reads.begin(), part.reads.end(), [&](const std::string& field) {
      Part read;
      read.field = field;
      return rank(read) < place;
    });
  }

  void refuse_order(SourceSpan where, const Part& part) {
    family_.specs().refuse(
        where,
        "'" + part.registered +
            "' cannot be registered anew in the place of the inherited registration: code in between reads it",
        "write remove(" + part.registered +
            "); before this statement, or redefine the constructor without calling the base's",
        {}, write_before(where, "remove(" + part.registered + ");"));
  }

  struct Skipped {
    std::string name;
    const clang::FieldDecl* field;
    SourceSpan where;
  };

  const ConstructorContext& context_;
  std::map<size_t, std::vector<Replacement>> calls_;  // super calls in each level's body
  std::vector<Skipped> skipped_;                      // fields whose class's constructor does not run
  Family& family_;
  Entity& entity_;
  const Parsed& parsed_;
  const clang::SourceManager& manager_;
};

}  // namespace

Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice) {
  return Unraveller(context).make(index, constructor, slice);
}

}  // namespace modgen
