// The implementation of read_body.h: converts one function's body from Clang's AST to plain values.
#pragma once

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>
#include <clang/AST/StmtCXX.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "generator/model/read_body.h"

namespace modgen {

/// Name, for messages, of a default member initializer for which reads_object() holds.
inline constexpr const char* kReadsOtherMembers = "a default member initializer that reads other members";

/// Whether `type` is a module holder or a OneOf.
bool is_holder(clang::QualType type);

/// Whether a class is a struct of the contract or of the family that a braced list initializes member by member.
bool is_project_struct(const clang::CXXRecordDecl& record);

/// Whether `code` names the object that it belongs to, or a member of it.
bool reads_object(const clang::Stmt& code);

class BodyReader {
 public:
  BodyReader(const clang::ASTContext& context, Declarations& declarations, uint32_t file);

  Body read(const clang::FunctionDecl& function);
  /// The default argument of `parameter`; null if there is none.
  std::shared_ptr<const Expr> read_default(const clang::ParmVarDecl& parameter);
  Expr read(const clang::Expr& written_or_not);
  /// The number of a parameter or local variable, from 1 on in the order in which they are first seen.
  uint32_t to_number(const clang::ValueDecl& variable);

 private:
  // ---- read_body.cc: source spans and statements ----

  SourceSpan find_span(clang::CharSourceRange range, bool* in_macro = nullptr) const;
  SourceSpan find_span(clang::SourceRange range, bool* in_macro = nullptr) const;
  /// A statement's range up to the semicolon after it, if one is there.
  SourceSpan span_with_semicolon(const clang::Stmt& statement) const;
  std::string source_text(clang::SourceRange range) const;

  Initializer read_initializer(const clang::CXXCtorInitializer& initializer);
  Expr unknown_at(clang::SourceRange range, std::string construct) const;
  /// Reads the arguments of an initializer: the constructor's arguments, or the single value.
  void read_arguments(const clang::Expr& init, std::vector<Expr>& out);
  void read_children(const clang::CompoundStmt& compound, std::vector<Stmt>& out);
  std::vector<Stmt> read_branch(const clang::Stmt* statement);
  void read_declarations(const clang::DeclStmt& statement, std::vector<Stmt>& out);
  std::string macro_at(const clang::Stmt& statement) const;
  bool read_check(const clang::Stmt& statement, std::vector<Stmt>& out);
  void add_names(const clang::VarDecl& variable, Stmt& result);
  void read_stmt(const clang::Stmt& statement, std::vector<Stmt>& out);
  void read_if(const clang::IfStmt& branch, Stmt& result, std::vector<Stmt>& out);
  void read_switch(const clang::SwitchStmt& choice, Stmt& result, std::vector<Stmt>& out);
  void read_range_for(const clang::CXXForRangeStmt& loop, Stmt& result, std::vector<Stmt>& out);
  void read_for(const clang::ForStmt& loop, Stmt& result, std::vector<Stmt>& out);

  // ---- read_objects.cc ----

  /// Whether a construction only converts or copies its single argument, so that it can be replaced by the argument.
  bool is_conversion(const clang::CXXConstructExpr& construct) const;
  /// Whether the constructor that `construct` calls takes its argument `index` for its value, whatever it is bound to.
  bool takes_value(const clang::CXXConstructExpr& construct, unsigned index) const;
  static bool is_default_construction(const clang::Expr& init);
  void read_construction(const clang::CXXConstructExpr& construct, Expr& result);
  void read_list(const clang::InitListExpr& list, Expr& result);
  /// Whether an element of `list`, in the form with conversions, is bound to a reference.
  bool keeps_unread(const clang::InitListExpr& list) const;
  void read_global(const clang::VarDecl& variable, Expr& result);
  /// The value that `field` gets where no initializer names it, in the code at `where`; empty if it is not known.
  /// `initial` is its default member initializer, or null.
  std::optional<Expr> default_value(const clang::FieldDecl& field, const clang::Expr* initial,
                                    clang::SourceRange where);
  /// The members of an object of a struct of the family that is initialized by default.
  Expr default_members(const clang::CXXRecordDecl& record, clang::SourceRange where);
  /// The value of a variable that is declared without an initializer, if its class is a struct of the family.
  std::optional<Expr> read_default_object(const clang::VarDecl& variable);

  // ---- read_expressions.cc ----

  struct Conversions {
    std::vector<const clang::CastExpr*> casts;  // the implicit ones
    bool read = false;                          // they read the value, or make it const
  };
  /// `expr` without implicit conversions, parentheses and other nodes that are not written in the source.
  const clang::Expr& written(const clang::Expr& expr, Conversions* conversions = nullptr) const;
  static bool is_unread(const clang::Expr& written, const Conversions& conversions) {
    return written.isLValue() && !written.getType().isConstQualified() && !conversions.read;
  }
  /// Name of the construct, for messages, if the meaning of `expr` or of one of its conversions is not known; empty
  /// otherwise.
  std::string find_unknown(const clang::Expr& expr, const std::vector<const clang::CastExpr*>& casts) const;

  void read_operands(const clang::Expr& expr, Expr& result);
  void read_reference(const clang::DeclRefExpr& reference, Expr& result);
  void read_operator(std::string name, std::initializer_list<const clang::Expr*> operands, Expr& result);
  void read_call(const clang::CallExpr& call, Expr& result);
  void read_method(const clang::CXXMemberCallExpr& call, Expr& result);
  void read_cast(const clang::ExplicitCastExpr& cast_expr, Expr& result);
  void read_lambda(const clang::LambdaExpr& lambda, Expr& result);
  /// The declaration that Clang resolved `call` to, with the spans of the call's parts.
  std::shared_ptr<const Callee> get_callee(const clang::CallExpr& call, const Expr& result) const;

  const clang::ASTContext& context_;
  const clang::SourceManager& sources_;
  Declarations& declarations_;
  uint32_t file_;
  int defaults_ = 0;  // defaults and constants that are being read, each because another one names it
  std::unordered_map<const clang::ValueDecl*, uint32_t> numbers_;  // never iterated
};

}  // namespace modgen
