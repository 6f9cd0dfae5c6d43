#include "tests/contract/declarations.h"

#include <clang/AST/ASTConsumer.h>
#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/RawCommentList.h>
#include <clang/Basic/SourceManager.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/FrontendAction.h>
#include <clang/Lex/Lexer.h>
#include <clang/Lex/PPCallbacks.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Tooling/Tooling.h>

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "generator/print/format.h"

namespace contract {
namespace {

/// The text of a comment line without its comment marker; empty if the line is not a comment.
std::optional<std::string> comment_text(std::string_view line, std::string_view mark) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with(mark)) return std::nullopt;
  line.remove_prefix(mark.size());
  if (line.starts_with("<")) line.remove_prefix(1);
  if (line.starts_with(" ")) line.remove_prefix(1);
  return std::string(line);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string squeezed(const std::string& text) {
  return std::regex_replace(std::regex_replace(text, std::regex("\\s+"), " "), std::regex("^ | $"), "");
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');)
    if (part = squeezed(part); !part.empty()) parts.push_back(part);
  return parts;
}

/// Splits a comment into prose and operand lines.
void read_comment(const std::vector<std::string>& lines, Declaration& into) {
  static const std::regex operand(R"(- (\w+(?:, \w+)*)(?: \[([^\]]*)\])?([:, ].*)?)");
  std::vector<std::string> listed;
  for (const std::string& line : lines) {
    if (line.starts_with("- ")) {
      listed.push_back(line);
    } else if (!listed.empty() && line.starts_with("  ")) {
      listed.back() += " " + squeezed(line);
    } else {
      into.comment += line.empty() ? "\n\n" : (into.comment.empty() || into.comment.ends_with('\n') ? "" : " ") + line;
    }
  }
  for (const std::string& line : listed) {
    std::smatch match;
    if (!std::regex_match(line, match, operand)) {
      into.comment += "\n" + line;
      continue;
    }
    into.operands.push_back({split(match[1]), split(match[2]), match[2].matched, squeezed(match[3])});
  }
}

class Reader {
 public:
  Reader(const std::string& root, Contract& contract) : root_(root), contract_(contract) {}

  void use(const clang::SourceManager& sources) { sources_ = &sources; }

  /// The contract header at `location`, such as "runtime/model/functions.h"; empty if it is in another file.
  std::string get_header(clang::SourceLocation location) const {
    const std::string path = sources_->getFilename(sources_->getExpansionLoc(location)).str();
    if (!path.starts_with(root_ + "/")) return "";
    const std::string header = path.substr(root_.size() + 1);
    return header == "modular/modular.h" || header.starts_with("runtime/model/") ? header : "";
  }

  void macro(const clang::Token& name, const clang::MacroInfo& info) {
    const std::string header = get_header(name.getLocation());
    if (header.empty()) return;
    Declaration result = declaration(Declaration::Kind::macro, header, name.getLocation());
    result.name = name.getIdentifierInfo()->getName().str();
    if (!seen_macros_.insert(result.name).second) return;  // the other branch of an #ifdef
    result.signature = result.name;
    if (info.isFunctionLike()) {
      std::string parameters;
      for (const clang::IdentifierInfo* parameter : info.params())
        parameters += (parameters.empty() ? "" : ", ") +
                      (parameter->getName() == "__VA_ARGS__" ? std::string("...") : parameter->getName().str());
      result.signature += "(" + parameters + ")";
    }
    read_comment(lines_above(name.getLocation(), "///"), result);
    contract_.declarations.push_back(std::move(result));
  }

  void translation_unit(clang::ASTContext& context) {
    context_ = &context;
    for (const clang::Decl* decl : context.getTranslationUnitDecl()->decls())
      if (const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(decl); space && space->getName() == "modular")
        find_declarations(*space, "");
    std::stable_sort(contract_.declarations.begin(), contract_.declarations.end(),
                     [](const Declaration& a, const Declaration& b) {
                       return std::tie(a.header, a.line) < std::tie(b.header, b.line);
                     });
    // A class X that TORCH_MODULE(X) defines is documented by its implementation, XImpl.
    for (Declaration& entry : contract_.declarations)
      if (entry.kind == Declaration::Kind::type && entry.name.ends_with("Impl") &&
          holders_.contains(entry.name.substr(0, entry.name.size() - 4)))
        entry.name.resize(entry.name.size() - 4);
  }

 private:
  std::string location_text(clang::SourceLocation location) const {
    return sources_->getExpansionLoc(location).printToString(*sources_);
  }

  Declaration declaration(Declaration::Kind kind, const std::string& header, clang::SourceLocation location) {
    if (!contract_.openings.contains(header)) {
      std::string opening;
      for (const std::string& line : split_lines(buffer(location).str())) {
        const auto text = comment_text(line, "//");
        if (!text) break;
        opening += (opening.empty() ? "" : " ") + *text;
      }
      contract_.openings[header] = opening;
    }
    return {kind, header, sources_->getExpansionLineNumber(location), {}, {}, {}, {}, {}};
  }

  llvm::StringRef buffer(clang::SourceLocation location) const {
    return sources_->getBufferData(sources_->getFileID(sources_->getExpansionLoc(location)));
  }

  size_t offset(clang::SourceLocation location) const {
    return sources_->getFileOffset(sources_->getExpansionLoc(location));
  }

  std::string text(clang::SourceLocation begin, size_t end) const {
    return buffer(begin).slice(offset(begin), end).str();
  }

  /// The comment lines directly above a location.
  std::vector<std::string> lines_above(clang::SourceLocation location, std::string_view mark) const {
    const llvm::StringRef before = buffer(location).take_front(offset(location));
    std::vector<std::string> lines = split_lines(before.take_front(before.rfind('\n') + 1).str()), found;
    for (; !lines.empty(); lines.pop_back()) {
      const auto comment = comment_text(lines.back(), mark);
      if (!comment) break;
      found.insert(found.begin(), *comment);
    }
    return found;
  }

  void find_declarations(const clang::DeclContext& space, const std::string& prefix) {
    for (const clang::Decl* decl : space.decls()) {
      if (decl->isImplicit() || get_header(decl->getLocation()).empty()) continue;
      if (const auto* inner = llvm::dyn_cast<clang::NamespaceDecl>(decl)) {
        if (inner->getName() != "detail") find_declarations(*inner, prefix + inner->getName().str() + "::");
        continue;
      }
      if (llvm::isa<clang::UsingDirectiveDecl, clang::EmptyDecl, clang::UsingShadowDecl>(decl)) continue;
      const auto* named = llvm::dyn_cast<clang::NamedDecl>(decl);
      if (!named) throw std::runtime_error(location_text(decl->getLocation()) + ": cannot describe this declaration");
      if (decl->getLocation().isMacroID()) {
        holders_.insert(prefix + named->getName().str());
        continue;
      }
      declare(*named, prefix);
    }
  }

  void declare(const clang::NamedDecl& named, const std::string& prefix) {
    const clang::Decl* inner = &named;
    if (const auto* pattern = llvm::dyn_cast<clang::TemplateDecl>(&named)) inner = pattern->getTemplatedDecl();
    const auto* record = llvm::dyn_cast<clang::CXXRecordDecl>(inner);
    if (record && !record->isThisDeclarationADefinition()) return;
    const auto* function = llvm::dyn_cast<clang::FunctionDecl>(inner);
    using Kind = Declaration::Kind;
    Kind kind = Kind::type;
    if (function)
      kind = Kind::function;
    else if (llvm::isa<clang::VarDecl>(inner))
      kind = Kind::variable;
    else if (!llvm::isa<clang::TypeDecl, clang::UsingDecl>(inner))
      throw std::runtime_error(location_text(named.getLocation()) + ": cannot describe this kind of declaration");
    Declaration result = declaration(kind, get_header(named.getLocation()), named.getLocation());
    result.name = prefix + named.getNameAsString();
    read_comment(lines_above(named.getBeginLoc(), "///"), result);
    if (function) {
      result.signature = signature(named, *function);
      for (const clang::ParmVarDecl* parameter : function->parameters())
        result.parameters.push_back({parameter->getNameAsString(), parameter->getType().getAsString()});
    } else if (record) {
      result.signature = class_text(named, *record);
    } else {
      result.signature = text(named.getBeginLoc(), statement_end(named.getEndLoc()));
    }
    result.signature = formatted(result.signature);
    contract_.declarations.push_back(std::move(result));
  }

  /// The offset after the next semicolon.
  size_t statement_end(clang::SourceLocation last) const { return buffer(last).find(';', offset(last)) + 1; }

  static std::string formatted(const std::string& code) {
    static const std::regex noise(R"((^|[\n{;] *)inline |/\*implicit\*/ )");
    const std::string text = std::regex_replace(code, noise, "$1");
    std::string result = modgen::format(text, {modgen::range(0, text.size())});
    while (result.ends_with('\n')) result.pop_back();
    return result;
  }

  /// The text of a function up to its body, with a semicolon. `outer` is the function or its template.
  std::string signature(const clang::NamedDecl& outer, const clang::FunctionDecl& function) const {
    const size_t closing = offset(function.getFunctionTypeLoc().getRParenLoc()) + 1;
    const llvm::StringRef file = buffer(function.getLocation());
    size_t end = closing;
    if (!llvm::isa<clang::CXXConstructorDecl>(function)) {
      end =
          function.doesThisDeclarationHaveABody() ? offset(function.getBody()->getBeginLoc()) : file.find(';', closing);
    }
    return squeezed(text(outer.getBeginLoc(), end)) + ";";
  }

  /// The text of a class with its public members and their comments. `outer` is the class or its template.
  std::string class_text(const clang::NamedDecl& outer, const clang::CXXRecordDecl& record) const {
    std::string code = squeezed(text(outer.getBeginLoc(), offset(record.getBraceRange().getBegin()))) + " {\n";
    if (record.isClass()) code += " public:\n";
    std::set<size_t> begins;  // offsets of members: several declarators of one declaration share their text
    for (const clang::Decl* member : record.decls()) {
      if (member->isImplicit() || member->getAccess() != clang::AS_public) continue;
      if (llvm::isa<clang::AccessSpecDecl, clang::CXXDestructorDecl>(member)) continue;
      if (const auto* tag = llvm::dyn_cast<clang::TagDecl>(member); tag && tag->isEmbeddedInDeclarator()) continue;
      if (!begins.insert(offset(member->getBeginLoc())).second) continue;
      for (const std::string& line : lines_above(member->getBeginLoc(), "///")) code += "  /// " + line + "\n";
      const clang::Decl* inner = member;
      if (const auto* pattern = llvm::dyn_cast<clang::TemplateDecl>(member)) inner = pattern->getTemplatedDecl();
      if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(inner)) {
        code += "  " + signature(*llvm::cast<clang::NamedDecl>(member), *function) + "\n";
      } else {
        const size_t end = statement_end(member->getEndLoc());
        code += "  " + text(member->getBeginLoc(), end) + comment_after(buffer(member->getLocation()), end) + "\n";
      }
    }
    return code + "};";
  }

  /// The comment at the end of a line, with its continuation on the following lines.
  static std::string comment_after(llvm::StringRef file, size_t end) {
    std::string found;
    for (bool first = true;; first = false) {
      const size_t stop = file.find('\n', end);
      const llvm::StringRef line = file.slice(end, stop);
      const llvm::StringRef trimmed = line.ltrim();
      if (!trimmed.starts_with("//") || trimmed.starts_with("///") || (!first && line.size() - trimmed.size() < 12))
        return found;
      found += first ? "  " + trimmed.str() : trimmed.drop_front(2).rtrim().str();
      end = stop + 1;
    }
  }

  std::string root_;
  Contract& contract_;
  const clang::SourceManager* sources_ = nullptr;
  clang::ASTContext* context_ = nullptr;
  std::set<std::string> seen_macros_;
  std::set<std::string> holders_;
};

class Consumer : public clang::ASTConsumer {
 public:
  explicit Consumer(Reader& reader) : reader_(reader) {}
  void HandleTranslationUnit(clang::ASTContext& context) override { reader_.translation_unit(context); }
  bool shouldSkipFunctionBody(clang::Decl* decl) override { return reader_.get_header(decl->getLocation()).empty(); }

 private:
  Reader& reader_;
};

class Macros : public clang::PPCallbacks {
 public:
  explicit Macros(Reader& reader) : reader_(reader) {}
  void MacroDefined(const clang::Token& name, const clang::MacroDirective* directive) override {
    reader_.macro(name, *directive->getMacroInfo());
  }

 private:
  Reader& reader_;
};

class Action : public clang::ASTFrontendAction {
 public:
  explicit Action(Reader& reader) : reader_(reader) {}
  /// Avoids instantiating templates.
  clang::TranslationUnitKind getTranslationUnitKind() override { return clang::TU_Prefix; }

 protected:
  bool BeginSourceFileAction(clang::CompilerInstance& compiler) override {
    reader_.use(compiler.getSourceManager());
    compiler.getFrontendOpts().SkipFunctionBodies = true;  // skips libtorch's bodies: see shouldSkipFunctionBody
    compiler.getPreprocessor().addPPCallbacks(std::make_unique<Macros>(reader_));
    return true;
  }
  std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance&, llvm::StringRef) override {
    return std::make_unique<Consumer>(reader_);
  }

 private:
  Reader& reader_;
};

}  // namespace

Contract read_contract(const std::string& root, const std::string& torch, const std::string& clang_resources) {
  Contract contract;
  Reader reader(root, contract);
  const std::vector<std::string> arguments = {
      "-std=c++20",       "-w",        "-resource-dir",
      clang_resources,    "-I" + root, "-isystem",
      torch + "/include", "-isystem",  torch + "/include/torch/csrc/api/include"};
  const bool compiled = clang::tooling::runToolOnCodeWithArgs(
      std::make_unique<Action>(reader), "#include \"modular/modular.h\"\n#include \"runtime/model/model.h\"\n",
      arguments, root + "/contract.cc");  // its includes are searched next to it first
  if (!compiled) throw std::runtime_error("the contract's headers do not compile");
  return contract;
}

}  // namespace contract
