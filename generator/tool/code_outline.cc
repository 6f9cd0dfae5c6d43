#include "generator/tool/code_outline.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/Frontend/CompilerInstance.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "generator/parse/session.h"
#include "generator/source/slices.h"

namespace modgen {

namespace {

std::string without_underscore(std::string name) {
  while (name.size() > 1 && name.ends_with('_')) name.pop_back();
  return name;
}

std::string without_impl(const std::string& name) {
  return name.size() > 4 && name.ends_with("Impl") ? name.substr(0, name.size() - 4) : name;
}

/// Reads the module classes of a translation unit from its AST.
class Reader {
 public:
  Reader(clang::CompilerInstance& compiler, const Parsed& parsed, uint32_t file, std::vector<ClassCode>& classes)
      : manager_(compiler.getSourceManager()), parsed_(parsed), file_(file), classes_(classes) {}

  void read(const clang::Decl& decl) {
    if (const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(&decl)) {
      for (const clang::Decl* inner : space->decls()) read(*inner);
      return;
    }
    const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(&decl);
    if (!record || !record->isThisDeclarationADefinition() || !is_module(*record)) return;
    const SourceSpan name = parsed_.token(manager_, record->getLocation());
    if (name.file != file_ || record->getLocation().isMacroID()) return;
    ClassCode code;
    code.name = without_impl(record->getNameAsString());
    code.where = parsed_.sources.locate(name);
    for (const clang::FieldDecl* field : record->fields()) {
      const SourceSpan type = parsed_.span(manager_, field->getTypeSourceInfo()->getTypeLoc().getSourceRange());
      code.members.push_back({without_underscore(field->getNameAsString()), text(type), {}});
    }
    for (const clang::CXXMethodDecl* method : record->methods()) add(*method, code);
    classes_.push_back(std::move(code));
  }

 private:
  static bool is_module(const clang::CXXRecordDecl& record) {
    bool found = false;
    record.forallBases([&](const clang::CXXRecordDecl* base) {
      found |= base->getQualifiedNameAsString() == "torch::nn::Module";
      return !found;
    });
    return found;
  }

  void add(const clang::CXXMethodDecl& method, ClassCode& code) const {
    if (method.isImplicit() || llvm::isa<clang::CXXDestructorDecl>(method)) return;
    const clang::FunctionDecl* definition = method.getDefinition();
    if (!definition) return;
    const bool constructs = llvm::isa<clang::CXXConstructorDecl>(method);
    std::string source = text(parsed_.span(manager_, definition->getSourceRange()));
    // Drop the class qualifier of a method that is defined outside of its class.
    if (const clang::NestedNameSpecifierLoc owner = definition->getQualifierLoc()) {
      const std::string spelled = text(parsed_.span(manager_, owner.getSourceRange()));
      if (const size_t at = source.find(spelled); !spelled.empty() && at != std::string::npos)
        source.erase(at, spelled.size());
    }
    code.methods.push_back({constructs ? "constructor" : method.getNameAsString(), source, {}});
  }

  std::string text(SourceSpan span) const {
    return span.file == 0 || span.end < span.begin ? std::string() : std::string(parsed_.sources.text(span));
  }

  const clang::SourceManager& manager_;
  const Parsed& parsed_;
  uint32_t file_;
  std::vector<ClassCode>& classes_;
};

}  // namespace

std::vector<std::string> comparable(const std::string& code, const std::string& prefix) {
  // Namespaces and specifiers that do not affect the comparison.
  static const std::set<std::string> spaces = {"torch", "nn", "at", "c10", "modular"};
  static const std::set<std::string> ignored = {"const", "override", "explicit", "inline", "virtual", "noexcept"};
  std::vector<std::string> tokens;
  for (const RawToken& token : raw_tokens(code, 0, static_cast<uint32_t>(code.size()))) {
    if (token.kind == RawToken::Kind::comment) continue;
    std::string word = code.substr(token.begin, token.end - token.begin);
    if (token.kind == RawToken::Kind::identifier) {
      if (ignored.count(word)) continue;
      if (word == "auto") word = "Tensor";
      if (!prefix.empty() && word.size() > prefix.size() && word.starts_with(prefix))
        word = "@" + without_impl(word.substr(prefix.size()));
      word = without_underscore(word);
    }
    if (word == "::" && !tokens.empty() && spaces.count(tokens.back())) {
      tokens.pop_back();
      continue;
    }
    if (word == "->" && !tokens.empty() && tokens.back() == "this") {
      tokens.pop_back();
      continue;
    }
    tokens.push_back(std::move(word));
  }
  return tokens;
}

std::vector<ClassCode> find_classes(const Output& output) {
  const FamilyModel& model = *output.model;
  std::vector<ClassCode> classes;
  for (const Class& owner : model.classes) {
    const auto outline = std::ranges::find(output.outline->classes, owner.holder, &ClassOutline::name);
    if (owner.holder.empty() || outline == output.outline->classes.end() || !outline->declared || outline->alias)
      continue;
    ClassCode code{owner.holder, output.family, outline->where, {}, {}};
    for (const Field& field : owner.fields)
      code.members.push_back({without_underscore(field.name), field.type, comparable(field.type, model.prefix)});
    for (const Function& function : owner.functions) {
      std::string text;
      for (const Text& part : function.text)
        text.append(model.text, part.slice.begin, part.slice.end - part.slice.begin);
      code.methods.push_back(
          {function.is_constructor ? "constructor" : function.name, text, comparable(text, model.prefix)});
    }
    classes.push_back(std::move(code));
  }
  return classes;
}

HandWritten read_hand_written(const GenerateOptions& options, const std::string& file) {
  const std::string path = std::filesystem::absolute(file).lexically_normal().string();
  if (!std::filesystem::is_regular_file(path)) throw std::runtime_error("there is no file " + file);
  Session session(resolved(options), {path});
  const Parsed& parsed = session.parsed();
  HandWritten result;
  if (session.read_spec()) {
    Reader reader(session.compiler(), parsed, parsed.sources.find(path), result.classes);
    for (const clang::Decl* decl : parsed.top_level) reader.read(*decl);
  }
  for (const Remark& remark : parsed.remarks)
    result.errors.push_back({remark.severity, parsed.sources.locate(remark.where), remark.message, remark.advice, {}});
  return result;
}

void make_comparable(std::vector<ClassCode>& classes, const std::string& prefix) {
  for (ClassCode& code : classes) {
    for (MemberCode& member : code.members) member.tokens = comparable(member.type, prefix);
    for (MethodCode& method : code.methods) method.tokens = comparable(method.text, prefix);
  }
}

}  // namespace modgen
