// Constructors: the base's is unravelled into the derived one's, so that it reads as if written for this class.
#include <clang/AST/ExprCXX.h>
#include <clang/AST/RecursiveASTVisitor.h>

#include <algorithm>
#include <functional>

#include "generator/family.h"
#include "generator/slices.h"

namespace modgen {
namespace {

/// Fields that code reads and writes, and variables that it declares or names.
class Effects : public clang::RecursiveASTVisitor<Effects> {
 public:
  std::set<std::string> reads, writes;
  std::set<const clang::VarDecl*> locals;  // named
  std::map<const clang::NamedDecl*, int> uses;

  static std::string field_of(const clang::Expr* expr) {
    const auto* member = llvm::dyn_cast<clang::MemberExpr>(expr->IgnoreParenImpCasts());
    return member && llvm::isa<clang::CXXThisExpr>(member->getBase()->IgnoreParenImpCasts()) &&
                   llvm::isa<clang::FieldDecl>(member->getMemberDecl())
               ? member->getMemberDecl()->getNameAsString()
               : "";
  }

  bool VisitMemberExpr(clang::MemberExpr* expr) {
    if (const std::string field = field_of(expr); !field.empty()) reads.insert(field);
    return true;
  }
  bool VisitDeclRefExpr(clang::DeclRefExpr* expr) {
    ++uses[expr->getDecl()];
    if (const auto* variable = llvm::dyn_cast<clang::VarDecl>(expr->getDecl()); variable && variable->isLocalVarDecl())
      locals.insert(variable);
    return true;
  }
  bool VisitBinaryOperator(clang::BinaryOperator* expr) {
    if (expr->isAssignmentOp()) writes.insert(field_of(expr->getLHS()));
    return true;
  }
  bool VisitCXXOperatorCallExpr(clang::CXXOperatorCallExpr* expr) {
    if (expr->isAssignmentOp()) writes.insert(field_of(expr->getArg(0)));
    return true;
  }
};

/// The name that register_module("name", …) and its like give, anywhere in `stmt`.
class RegisteredName : public clang::RecursiveASTVisitor<RegisteredName> {
 public:
  std::string name;
  bool VisitCallExpr(clang::CallExpr* call) {
    const clang::FunctionDecl* callee = call->getDirectCallee();
    if (!callee || !callee->getDeclName().isIdentifier() || !callee->getName().starts_with("register_") ||
        call->getNumArgs() == 0)
      return true;
    Literal literal;
    literal.TraverseStmt(call->getArg(0));
    if (name.empty()) name = literal.text;
    return true;
  }

 private:
  struct Literal : clang::RecursiveASTVisitor<Literal> {
    std::string text;
    bool VisitStringLiteral(clang::StringLiteral* literal) {
      text = literal->getString().str();
      return true;
    }
  };
};

/// Text is made when it is known to stay: what it names is then needed.
using Later = std::function<Fragment()>;

struct Part {
  Later text;              // of an initializer: `field(value)`, of a statement: with its semicolon
  Later comment;           // above it
  std::string field;       // that it sets; empty where it sets none or several
  std::string registered;  // the name that it registers
  std::set<std::string> reads;
  bool is_base = false;  // of a library's base class
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

  Fragment make(size_t level, const clang::CXXConstructorDecl& constructor, SourceSpan slice) {
    const clang::Stmt* body = constructor.getBody();
    // Nothing to unravel: the text as it stands.
    if (level + 1 == entity_.levels.size() && context_.dropped.empty()) return render(slice, level, {});
    if (!body) return render(slice, level, {});
    Parts parts = unravel(level, constructor, {});
    Fragment text = render({slice.file, slice.begin, head_end(constructor)}, level, {}).trimmed();

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
    return text;
  }

 private:
  SourceSpan span(clang::SourceRange range) const { return parsed_.span(manager_, range); }
  Fragment render(SourceSpan where, size_t level, const Substitution& arguments) {
    return family_.render(where, entity_.levels[level], entity_, arguments);
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
      Effects effects;
      effects.TraverseStmt(init.getInit());
      part.reads = effects.reads;
      part.comment = comment_above(slices[index], level, arguments);
      part.text = [this, where = cores[index], level, arguments] { return render(where, level, arguments); };
      std::erase_if(parts.initializers,
                    [&](const Part& inherited) { return !part.field.empty() && inherited.field == part.field; });
      parts.initializers.push_back(std::move(part));
    }

    for (const auto& [stmt, slice] : statement_slices(family_, *constructor.getBody())) {
      if (!stmt)
        parts.tail.append(render(slice, level, arguments));
      else
        add_statement(*stmt, slice, level, arguments, parts);
    }
    return parts;
  }

  Later comment_above(SourceSpan slice, size_t level, const Substitution& arguments) {
    const SourceSpan comment = leading_comment(family_.file_text(slice.file), slice);
    return [this, comment, level, arguments] {
      return comment.begin < comment.end ? render(comment, level, arguments) : Fragment();
    };
  }

  /// Runs the constructor of a base that is a level of this class; false where the base is a library's.
  bool run_base(const clang::CXXCtorInitializer& init, size_t level, const Substitution& outer, Parts& parts) {
    const auto* record = init.getBaseClass()->getAsCXXRecordDecl();
    const Symbol* symbol = record ? family_.specs().symbol(record) : nullptr;
    size_t base = level + 1;
    while (symbol && base < entity_.levels.size() && entity_.levels[base].symbol != symbol) ++base;
    if (!symbol || base == entity_.levels.size()) return false;
    const clang::Expr* value = init.getInit();
    const auto* call = value ? llvm::dyn_cast<clang::CXXConstructExpr>(value->IgnoreImplicit()) : nullptr;
    if (!call) {
      family_.specs().refuse(span(init.getSourceRange()), "modgen cannot follow this initialization of the base",
                             "call its constructor with parentheses");
      return true;
    }
    const clang::CXXConstructorDecl* target = call->getConstructor();
    while (const auto inherited = target->getInheritedConstructor()) target = inherited.getConstructor();
    while (base < entity_.levels.size() &&
           entity_.levels[base].symbol->record->getCanonicalDecl() != target->getParent()->getCanonicalDecl())
      ++base;
    const clang::FunctionDecl* definition = nullptr;
    if (base == entity_.levels.size() || target->isDefaulted() || !target->getBody(definition))
      return true;  // an implicit constructor does nothing here
    const auto& constructor = *llvm::cast<clang::CXXConstructorDecl>(definition);

    Effects effects;
    effects.TraverseDecl(const_cast<clang::CXXConstructorDecl*>(&constructor));
    Substitution arguments;
    for (unsigned index = 0; index < constructor.getNumParams(); ++index) {
      const clang::ParmVarDecl* parameter = constructor.getParamDecl(index);
      const clang::Expr* argument = index < call->getNumArgs() ? call->getArg(index) : nullptr;
      const bool is_default = !argument || llvm::isa<clang::CXXDefaultArgExpr>(argument);
      if (is_default) argument = parameter->getDefaultArg();
      if (!is_trivial_argument(*argument) && effects.uses[parameter] > 1)
        family_.specs().refuse(
            span(argument->getSourceRange()),
            "this argument would be evaluated " + std::to_string(effects.uses[parameter]) +
                " times where the base's constructor is unravelled",
            "compute it once, into a member that is initialized before the base",
            {{Diagnostic::Severity::note, span(constructor.getSourceRange()), "the base's constructor", "", {}}});
      Fragment text =
          render(span(argument->getSourceRange()), is_default ? base : level, is_default ? Substitution{} : outer);
      const clang::Expr* bare = argument->IgnoreImplicit();
      if (llvm::isa<clang::BinaryOperator, clang::AbstractConditionalOperator, clang::UnaryOperator>(bare) ||
          (llvm::isa<clang::CXXOperatorCallExpr>(bare) && !is_trivial_argument(*bare))) {
        Fragment wrapped("(");
        wrapped.append(text);
        wrapped.add(std::string(")"));
        text = wrapped;
      }
      arguments[parameter] = text;
    }
    Parts inherited = unravel(base, constructor, arguments);
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

  /// Appends a statement, or puts it in the place of the inherited one with the same target.
  void add_statement(const clang::Stmt& stmt, SourceSpan slice, size_t level, const Substitution& arguments,
                     Parts& parts) {
    const clang::Stmt* inner = &stmt;
    if (const auto* expr = llvm::dyn_cast<clang::Expr>(inner)) inner = expr->IgnoreImplicit();
    const clang::Expr* value = nullptr;
    Part part;
    if (const auto* assignment = llvm::dyn_cast<clang::BinaryOperator>(inner);
        assignment && assignment->getOpcode() == clang::BO_Assign) {
      part.field = Effects::field_of(assignment->getLHS());
      value = assignment->getRHS();
    } else if (const auto* call = llvm::dyn_cast<clang::CXXOperatorCallExpr>(inner);
               call && call->getOperator() == clang::OO_Equal) {
      part.field = Effects::field_of(call->getArg(0));
      value = call->getArg(1);
    }
    if (is_remove(*inner, level, parts)) return;
    if (is_dropped(part.field, level)) return;
    part.registered = registered_name(&stmt);
    Effects effects;
    effects.TraverseStmt(const_cast<clang::Stmt*>(value ? value : &stmt));
    part.reads = effects.reads;
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
          text.append(render(where, level, arguments));
          text.add(std::string(")"));
          return text;
        };
        init->reads = part.reads;
        init->registered = part.registered;
        const SourceSpan comment = leading_comment(family_.file_text(slice.file), slice);
        if (comment.begin < comment.end) init->comment = comment_above(slice, level, arguments);
        return;
      }
      if (init != parts.initializers.end() && !part.registered.empty() && init->registered == part.registered)
        return refuse_order(core, part);
    }
    part.text = [this, slice, level, arguments] { return render(slice, level, arguments).trimmed(); };
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
  bool is_remove(const clang::Stmt& stmt, size_t, Parts& parts) {
    const auto* call = llvm::dyn_cast<clang::CallExpr>(&stmt);
    const clang::FunctionDecl* callee = call ? call->getDirectCallee() : nullptr;
    if (!callee || callee->getQualifiedNameAsString() != "modular::remove") return false;
    const std::string field = Effects::field_of(call->getArg(0));
    const auto sets = [&](const Part& part) {
      return part.field == field || (part.field.empty() && part.registered == field);
    };
    if (std::erase_if(parts.initializers, sets) + std::erase_if(parts.statements, sets) == 0 &&
        !context_.dropped.count(field))
      family_.specs().refuse(span(stmt.getSourceRange()), "the inherited constructor does not create '" + field + "'",
                             "remove this statement");
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
            "); before this statement, or redefine the constructor without calling the base's");
  }

  const ConstructorContext& context_;
  Family& family_;
  Entity& entity_;
  const Parsed& parsed_;
  const clang::SourceManager& manager_;
};

}  // namespace

std::string registered_name(const clang::Stmt* stmt) {
  RegisteredName finder;
  finder.TraverseStmt(const_cast<clang::Stmt*>(stmt));
  return finder.name;
}

Fragment constructor_text(const ConstructorContext& context, size_t index, const clang::CXXConstructorDecl& constructor,
                          SourceSpan slice) {
  return Unraveller(context).make(index, constructor, slice);
}

}  // namespace modgen
