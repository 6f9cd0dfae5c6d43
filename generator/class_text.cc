// Flattening of one class: its members merged over all levels.
#include <clang/AST/Attr.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "generator/edits.h"
#include "generator/family.h"
#include "generator/slices.h"

namespace modgen {
namespace {

/// Annotations that exclude each other: a redeclaration that names one of them inherits none of the group.
std::string annotation_group(const std::string& kind) {
  if (kind == "tied_to" || kind == "ties" || kind == "entry" || kind == "fsdp_unit" || kind == "stands_for")
    return kind;
  return kind.substr(0, kind.find('_'));  // tp, pp, ep
}

struct Slot {
  enum class Kind { field, method, constructor, other };
  Kind kind = Kind::other;
  std::string name;       // may be empty
  std::string signature;  // of a method: its parameters' types, in this family's names
  size_t level = 0;
  const Slice* slice = nullptr;
  const clang::NamedDecl* decl = nullptr;
  clang::AccessSpecifier access = clang::AS_public;
  bool blank_before = false;
  std::vector<std::pair<size_t, SourceSpan>> above;  // comments before it that are not its own, with their levels
  bool redefines = false;
  bool before_inherited = false;  // of a field that is initialized before its class's base
  SourceSpan inherited_comment;   // of the method that this one redefines
  size_t comment_level = 0;
  std::vector<Fragment> inherited_annotations;  // of the field that this one redeclares
  std::optional<Fragment> made;                 // text of a kept base method
};

class ClassText {
 public:
  ClassText(Family& family, Entity& entity) : family_(family), entity_(entity) {}

  Fragment make() {
    const size_t root = entity_.levels.size() - 1;
    for (size_t index = root + 1; index-- > 0;) merge_level(index);
    supers_.is_redefined = [this](const clang::CXXMethodDecl& method) {
      return std::none_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return slot.decl && slot.decl->getCanonicalDecl() == method.getCanonicalDecl();
      });
    };
    Fragment text = head();
    if (root == 0)
      text.append(verbatim_body());
    else
      text.append(merged_body());
    return text;
  }

 private:
  const clang::CXXRecordDecl& record(size_t level) const { return *entity_.levels[level].symbol->record; }
  const std::string& text_of(size_t level) const { return family_.file_text(entity_.levels[level].symbol->spec->file); }
  Fragment render(SourceSpan span, size_t level, std::vector<Replacement> replacements = {}) {
    return family_.render(span, entity_.levels[level], entity_, {}, std::move(replacements));
  }
  SourceSpan token(clang::SourceLocation location) const {
    return family_.parsed().token(family_.specs().manager(), location);
  }
  std::vector<AnnotationMacro> notes(const clang::Decl& decl) const {
    return annotations(decl, family_.specs().manager(), family_.parsed());
  }

  // ---- The head -----------------------------------------------------------------------------------------------------

  /// Own annotations, of the class or of its aliases, and those that are inherited.
  Fragment class_annotations() {
    Fragment text;
    std::vector<std::string> groups;
    const auto take = [&](const clang::Decl& decl, const Level& level, bool own) {
      std::vector<std::string> here;
      for (const AnnotationMacro& note : notes(decl)) {
        const std::string group = annotation_group(note.kind);
        if (note.kind == "stands_for" || (!own && note.kind == "entry")) continue;
        if (std::find(groups.begin(), groups.end(), group) != groups.end()) continue;
        here.push_back(group);
        text.append(family_.render(note.where, level, entity_));
        text.add(std::string(" "));
      }
      groups.insert(groups.end(), here.begin(), here.end());
    };
    if (entity_.declared)
      for (const auto* alias : entity_.declared->aliases) take(*alias, Level{entity_.declared, {}}, true);
    for (const Level& level : entity_.levels) take(*level.symbol->record, level, level.symbol == entity_.declared);
    return text;
  }

  /// Comment, class key, annotations, name and bases, up to behind the opening brace.
  Fragment head() {
    const size_t root = entity_.levels.size() - 1;
    Fragment text;
    if (entity_.declared && entity_.declared->is_alias()) {
      const Slice& slice = *entity_.declared->slices.front();
      const SourceSpan comment = leading_comment(family_.file_text(slice.whole.file), slice.whole);
      if (comment.begin < comment.end) text = family_.render(comment, Level{entity_.declared, {}}, entity_);
    }
    for (size_t level = 0; level <= root && text.empty(); ++level) {
      const Slice& slice = *entity_.levels[level].symbol->slices.front();
      const SourceSpan comment = leading_comment(text_of(level), slice.whole);
      if (comment.begin < comment.end) text = render(comment, level);
    }
    if (!text.empty()) text.add(std::string("\n"));
    const SourceSpan key = token(record(root).getBeginLoc()), name = token(record(root).getLocation());
    const SourceSpan own_name = token(record(0).getLocation());
    text.append(render(key, root));
    text.add(std::string(" "));
    text.append(class_annotations());
    text.append(render(own_name, 0));
    const SourceSpan open = token(record(root).getBraceRange().getBegin());
    text.append(render({name.file, name.end, behind_line_comment(text_of(root), open.end)}, root));
    return text;
  }

  // ---- The members --------------------------------------------------------------------------------------------------

  /// The types of a method's parameters, with classes of specs as this family names them.
  std::string signature(const clang::FunctionDecl& function, size_t level) const {
    std::string text;
    for (const clang::ParmVarDecl* parameter : function.parameters())
      text += parameter->getType().getCanonicalType().getUnqualifiedType().getAsString() + ",";
    constexpr std::string_view kSpace = "modular::";
    std::string result;
    for (size_t at = 0; at < text.size();) {
      const size_t found = text.find(kSpace, at);
      result += text.substr(at, found - at);
      if (found == std::string::npos) break;
      size_t end = found;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' || text[end] == ':'))
        ++end;
      result += named(text.substr(found, end - found), level);
      at = end;
    }
    return result;
  }

  /// "modular::alpha::AlphaMLPImpl" as this family names it.
  std::string named(const std::string& type, size_t level) const {
    const size_t space = type.find("::") + 2, name = type.find("::", space);
    if (name == std::string::npos) return type;
    const Spec* spec = family_.specs().family(type.substr(space, name - space));
    for (const Symbol* symbol : spec ? spec->symbols : std::vector<Symbol*>{})
      if (symbol->record && symbol->record->getName() == type.substr(name + 2))
        return symbol == entity_.levels[level].symbol ? entity_.name : family_.name_of(*symbol, entity_.levels[level]);
      else if (symbol->holder && symbol->holder->getName() == type.substr(name + 2))
        return family_.name_of(*symbol, entity_.levels[level]) + " ";
    return type;
  }

  void merge_level(size_t level) {
    members_.push_back(family_.specs().members(record(level)));
    const bool is_root = level + 1 == entity_.levels.size();
    std::vector<Slot> own;
    bool has_constructor = false, inherits_constructors = false;
    std::vector<std::pair<size_t, SourceSpan>> above;  // comments at the last access specifier
    for (const Slice& slice : members_.back()) {
      if (slice.decls.empty()) continue;
      auto* decl = slice.decls.front();
      if (llvm::isa<clang::AccessSpecDecl>(decl)) {
        const std::string& text = text_of(level);
        const SourceSpan colon{slice.core.file, next_code(text, slice.core.begin), slice.core.end};
        for (const SourceSpan& comment :
             {leading_comment(text, slice.whole), leading_comment(text, {colon.file, colon.end, slice.whole.end})})
          if (comment.begin < comment.end) above.push_back({level, comment});
        continue;
      }
      if (auto* use = llvm::dyn_cast<clang::UsingDecl>(decl); use && !is_root) {
        const std::string name = use->getDeclName().getAsString();
        if (use->getDeclName().getNameKind() == clang::DeclarationName::CXXConstructorName)
          inherits_constructors = true;
        else if (use->getAccess() == clang::AS_private)
          remove(name, *use, slice);
        continue;
      }
      Slot slot;
      slot.level = level;
      slot.slice = &slice;
      slot.decl = llvm::dyn_cast<clang::NamedDecl>(decl);
      slot.access = decl->getAccess();
      slot.blank_before = blank_before(text_of(level), slice.whole);
      if (slot.decl) slot.name = llvm::isa<clang::CXXDestructorDecl>(decl) ? "~" : slot.decl->getNameAsString();
      slot.above = std::move(above);
      above.clear();
      if (llvm::isa<clang::FieldDecl>(decl)) {
        slot.kind = Slot::Kind::field;
      } else if (llvm::isa<clang::CXXConstructorDecl>(decl)) {
        slot.kind = Slot::Kind::constructor;
        has_constructor = true;
      } else if (const auto* function = decl->getAsFunction()) {
        slot.kind = Slot::Kind::method;
        slot.signature = signature(*function, level);
        if (function->isDeleted() && !is_root) {
          remove_overload(slot, slice);
          continue;
        }
      }
      if (slice.decls.size() > 1 && !is_root) {
        for (auto* several : slice.decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(several);
              field && find_field(field->getName().str()))
            family_.specs().refuse(slice.core,
                                   "this redeclares '" + field->getName().str() + "' together with other members",
                                   "declare one member a line");
      }
      own.push_back(std::move(slot));
    }
    const std::set<std::string> early = is_root ? std::set<std::string>() : initialized_before_base(level);
    for (Slot& slot : own) slot.before_inherited = slot.kind == Slot::Kind::field && early.count(slot.name);
    if (!is_root && has_constructor && !inherits_constructors)
      std::erase_if(slots_, [](const Slot& slot) { return slot.kind == Slot::Kind::constructor; });
    if (!is_root && !has_constructor && !inherits_constructors) check_constructible(level);
    for (Slot& slot : own) place(std::move(slot), is_root);
  }

  /// Fields whose initializers are written before the base's.
  std::set<std::string> initialized_before_base(size_t level) const {
    std::set<std::string> names;
    for (const clang::CXXConstructorDecl* constructor : record(level).ctors()) {
      int base = -1;
      for (const clang::CXXCtorInitializer* init : constructor->inits())
        if (init->isWritten() && init->isBaseInitializer() &&
            family_.specs().symbol(init->getBaseClass()->getAsCXXRecordDecl()))
          base = init->getSourceOrder();
      for (const clang::CXXCtorInitializer* init : constructor->inits())
        if (init->isWritten() && init->isAnyMemberInitializer() && init->getSourceOrder() < base)
          names.insert(init->getAnyMember()->getNameAsString());
    }
    return names;
  }

  /// A class that only inherits from one with constructors needs to say that it wants them.
  void check_constructible(size_t level) {
    const Slot* needs_arguments = nullptr;
    for (const Slot& slot : slots_)
      if (slot.kind == Slot::Kind::constructor) {
        const auto* constructor = llvm::cast<clang::CXXConstructorDecl>(slot.decl);
        if (constructor->isDefaultConstructor()) return;
        needs_arguments = &slot;
      }
    if (!needs_arguments) return;
    const Symbol& symbol = *entity_.levels[level].symbol;
    const std::string base = symbol.base->name + (symbol.base->kind == Symbol::Kind::module_class ? "Impl" : "");
    family_.specs().refuse(
        symbol.where, "'" + symbol.name + "' has no constructor: its base's are not inherited",
        "add 'using " + base + "::" + base + ";' to its public part",
        {{Diagnostic::Severity::note, needs_arguments->slice->core, "the base's constructor", "", {}}},
        declare_public(family_.parsed(), token(record(level).getBraceRange().getBegin()), record(level).isStruct(),
                       "using " + base + "::" + base + ";"));
  }

  static bool blank_before(const std::string& text, SourceSpan slice) {
    int breaks = 0;
    for (uint32_t at = slice.begin; at < slice.end && std::isspace(static_cast<unsigned char>(text[at])); ++at)
      breaks += text[at] == '\n';
    return breaks > 1;
  }

  Slot* find_field(const std::string& name) {
    for (Slot& slot : slots_)
      if (slot.kind == Slot::Kind::field)
        for (const auto* decl : slot.slice->decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl); field && field->getName() == name)
            return &slot;
    return nullptr;
  }

  void remove(const std::string& name, const clang::UsingDecl& use, const Slice& slice) {
    if (Slot* field = find_field(name); field && field->slice->decls.size() > 1) {
      family_.specs().refuse(slice.core,
                             "'" + name + "' is declared together with other members and cannot be removed alone",
                             "declare one member a line in the base",
                             {{Diagnostic::Severity::note, field->slice->core, "the declaration", "", {}}});
      return;
    }
    const size_t before = slots_.size();
    std::erase_if(slots_, [&](const Slot& slot) { return slot.kind != Slot::Kind::constructor && slot.name == name; });
    if (slots_.size() == before)
      family_.specs().refuse(slice.core, "'" + entity_.name + "' does not inherit a member '" + name + "' to remove",
                             "remove this line", {}, remove_with_line(family_.parsed(), slice.core));
    entity_.removed[name] = token(use.getNameInfo().getLoc());
  }

  void remove_overload(const Slot& deleted, const Slice& slice) {
    const size_t before = slots_.size();
    std::erase_if(slots_, [&](const Slot& slot) {
      return slot.kind == Slot::Kind::method && slot.name == deleted.name && slot.signature == deleted.signature;
    });
    if (slots_.size() == before)
      family_.specs().refuse(
          slice.core, "'" + entity_.name + "' does not inherit this overload of '" + deleted.name + "' to remove",
          "remove this line", {}, remove_with_line(family_.parsed(), slice.core));
    else if (std::none_of(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.name == deleted.name; }))
      entity_.removed[deleted.name] = slice.core;
  }

  void place(Slot slot, bool is_root) {
    if (!is_root && slot.kind != Slot::Kind::constructor && !slot.name.empty()) {
      entity_.removed.erase(slot.name);
      if (Slot* inherited = redefined_by(slot)) {
        slot.blank_before = inherited->blank_before;
        slot.redefines = true;
        slot.above.insert(slot.above.begin(), inherited->above.begin(), inherited->above.end());
        if (slot.kind == Slot::Kind::method) inherit_comment(*inherited, slot);
        if (slot.kind == Slot::Kind::field) inherit_annotations(*inherited, slot);
        *inherited = std::move(slot);
        return;
      }
    }
    if (is_root) {
      slots_.push_back(std::move(slot));
      return;
    }
    // A new member stands behind the last one of its kind: a method also behind the constructors, a constructor before
    // the first method.
    const auto behind_last = [&](auto&& is_kind) {
      size_t behind = 0;
      for (size_t index = 0; index < slots_.size(); ++index)
        if (is_kind(slots_[index].kind)) behind = index + 1;
      return behind;
    };
    size_t at = 0;
    if (slot.kind == Slot::Kind::constructor) {
      at = behind_last([](Slot::Kind kind) { return kind == Slot::Kind::constructor; });
      while (at < slots_.size() && slots_[at].kind == Slot::Kind::other) ++at;
      slot.blank_before = true;
    } else if (slot.kind == Slot::Kind::method) {
      at = behind_last([](Slot::Kind kind) { return kind == Slot::Kind::method || kind == Slot::Kind::constructor; });
      if (at == 0) at = slots_.size();
      slot.blank_before = true;
    } else if (slot.kind == Slot::Kind::field && slot.before_inherited) {
      const auto stays_before = [&](const Slot& other) {
        return other.kind != Slot::Kind::field || (other.before_inherited && other.level == slot.level);
      };
      while (at < slots_.size() && stays_before(slots_[at])) ++at;
      if (at < slots_.size()) {
        slot.blank_before = slots_[at].blank_before;
        slots_[at].blank_before = false;
      }
    } else if (slot.kind == Slot::Kind::field) {
      at = behind_last([](Slot::Kind kind) { return kind == Slot::Kind::field; });
      // The blank line above the first field of its class parts it from the methods there, not from the inherited
      // fields.
      const bool first_there = at > 0 && slots_[at - 1].level != slot.level;
      if (first_there) slot.blank_before = false;
      if (at == 0) at = slots_.size();
    }
    slots_.insert(slots_.begin() + static_cast<long>(at), std::move(slot));
  }

  Slot* redefined_by(const Slot& slot) {
    Slot* only = nullptr;
    int overloads = 0;
    for (Slot& inherited : slots_) {
      if (slot.kind == Slot::Kind::field) {
        if (Slot* field = find_field(slot.name)) return field;
      }
      if (inherited.name != slot.name || inherited.kind == Slot::Kind::constructor) continue;
      if (slot.kind != Slot::Kind::method || inherited.kind != Slot::Kind::method) return &inherited;
      if (inherited.level == slot.level) continue;
      if (inherited.signature == slot.signature) return &inherited;
      only = &inherited;
      ++overloads;
    }
    return overloads == 1 ? only : nullptr;
  }

  void inherit_comment(const Slot& inherited, Slot& slot) {
    const SourceSpan own = leading_comment(text_of(slot.level), slot.slice->whole);
    if (own.begin < own.end) return;
    if (inherited.inherited_comment.begin < inherited.inherited_comment.end) {
      slot.inherited_comment = inherited.inherited_comment;
      slot.comment_level = inherited.comment_level;
    } else {
      slot.inherited_comment = leading_comment(text_of(inherited.level), inherited.slice->whole);
      slot.comment_level = inherited.level;
    }
  }

  void inherit_annotations(const Slot& inherited, Slot& slot) {
    std::vector<std::string> own;
    for (const AnnotationMacro& note : notes(*slot.decl)) own.push_back(annotation_group(note.kind));
    slot.inherited_annotations = inherited.inherited_annotations;
    for (const AnnotationMacro& note : notes(*inherited.decl))
      if (std::find(own.begin(), own.end(), annotation_group(note.kind)) == own.end())
        slot.inherited_annotations.push_back(render(note.where, inherited.level));
  }

  // ---- The body -----------------------------------------------------------------------------------------------------

  Fragment verbatim_body() {
    const SourceSpan open = token(record(0).getBraceRange().getBegin());
    const Symbol& symbol = *entity_.levels[0].symbol;
    const SourceSpan whole = symbol.slices.front()->whole;
    std::vector<Replacement> bodies;
    for (const Slot& slot : slots_)
      if (const auto body = body_behind(slot)) bodies.push_back(*body);
    Fragment text = render({open.file, behind_line_comment(text_of(0), open.end), whole.end}, 0, std::move(bodies));
    append_holder(text);
    return text;
  }

  /// In the place of its semicolon, the body of a method that is defined behind its class.
  std::optional<Replacement> body_behind(const Slot& slot) {
    const auto* function = llvm::dyn_cast_or_null<clang::FunctionDecl>(slot.decl);
    if (!function || slot.level + 1 > entity_.levels.size()) return std::nullopt;
    const clang::FunctionDecl& definition = Specs::defined(*function);
    if (&definition == function || !definition.hasBody()) return std::nullopt;
    const SourceSpan body = family_.parsed().span(family_.specs().manager(), definition.getBody()->getSourceRange());
    uint32_t begin = body.begin;
    if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&definition))
      for (const RawToken& token : raw_tokens(text_of(slot.level), name_behind(*constructor), body.begin))
        if (text_of(slot.level)[token.begin] == ':' && token.end == token.begin + 1) {
          begin = token.begin;
          break;
        }
    const uint32_t semicolon = next_code(text_of(slot.level), slot.slice->core.end);
    Fragment text(" ");
    text.append(render({body.file, begin, body.end}, slot.level, kept_calls(slot)));
    return Replacement{{body.file, slot.slice->core.end, semicolon + 1}, text};
  }
  uint32_t name_behind(const clang::FunctionDecl& function) const { return token(function.getLocation()).end; }
  std::vector<Replacement> kept_calls(const Slot& slot) {
    return slot.kind == Slot::Kind::method ? super_calls(family_, entity_, slot.level, *slot.decl, {}, supers_)
                                           : std::vector<Replacement>{};
  }

  void append_holder(Fragment& text) {
    for (size_t level = 0; level < entity_.levels.size(); ++level) {
      const Symbol& symbol = *entity_.levels[level].symbol;
      if (!symbol.holder) continue;
      const Slice& slice = *symbol.slices.back();
      const SourceSpan comment = leading_comment(text_of(level), slice.whole);
      text.add(std::string("\n"));
      if (comment.begin < comment.end) {
        text.append(render(comment, level));
        text.add(std::string("\n"));
      }
      text.add("TORCH_MODULE(" + entity_.name + ");", symbol.where);
      const auto last_slice = [](const Symbol& one) { return one.holder ? one.slices.back() : one.slices.front(); };
      append_comment_behind(text, last_slice);
      return;
    }
  }

  Fragment slot_text(const Slot& slot) {
    if (slot.made) return *slot.made;
    const SourceSpan whole = slot.slice->whole;
    if (slot.kind == Slot::Kind::constructor) {
      const auto& constructor = *llvm::cast<clang::CXXConstructorDecl>(slot.decl);
      ConstructorContext context{family_, entity_, field_order(), dropped_initializers(), supers_};
      return constructor_text(context, slot.level, constructor, whole);
    }
    std::vector<Replacement> replacements;
    if (auto body = body_behind(slot))
      replacements.push_back(std::move(*body));
    else
      replacements = kept_calls(slot);
    for (const AnnotationMacro& note : notes(*slot.slice->decls.front()))
      if (note.kind == "tp_none") replacements.push_back({note.where, Fragment()});
    if (!slot.inherited_annotations.empty()) {
      const uint32_t code = next_code(text_of(slot.level), whole.begin);
      Fragment words;
      for (const Fragment& note : slot.inherited_annotations) {
        words.append(note);
        words.add(std::string(" "));
      }
      replacements.push_back({{whole.file, code, code}, words});
    }
    Fragment text;
    if (slot.inherited_comment.begin < slot.inherited_comment.end) {
      text.append(render(slot.inherited_comment, slot.comment_level));
      text.add(std::string("\n"));
    }
    text.append(render(whole, slot.level, std::move(replacements)).trimmed());
    return text;
  }

  std::vector<std::string> field_order() const {
    std::vector<std::string> names;
    for (const Slot& slot : slots_)
      if (slot.kind == Slot::Kind::field)
        for (const auto* decl : slot.slice->decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl)) names.push_back(field->getName().str());
    return names;
  }

  /// Fields that are gone or that a redeclaration initializes anew, with the level that says so.
  std::map<std::string, size_t> dropped_initializers() const {
    std::map<std::string, size_t> levels;
    for (const auto& [name, where] : entity_.removed)
      for (size_t level = 0; level < entity_.levels.size(); ++level)
        if (entity_.levels[level].symbol->spec->file == where.file) levels[name] = level;
    for (const Slot& slot : slots_) {
      const auto* field = slot.decl ? llvm::dyn_cast<clang::FieldDecl>(slot.decl) : nullptr;
      if (field && slot.redefines && field->hasInClassInitializer() && !is_null(*field->getInClassInitializer()))
        levels[slot.name] = slot.level;
    }
    return levels;
  }

  /// `{nullptr}`, which a holder needs in C++, creates nothing.
  static bool is_null(const clang::Expr& initializer) {
    const clang::Expr* expr = initializer.IgnoreUnlessSpelledInSource();
    if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(expr); list && list->getNumInits() == 1)
      expr = list->getInit(0)->IgnoreUnlessSpelledInSource();
    if (const auto* made = llvm::dyn_cast<clang::CXXConstructExpr>(expr); made && made->getNumArgs() == 1)
      expr = made->getArg(0)->IgnoreUnlessSpelledInSource();
    return llvm::isa<clang::CXXNullPtrLiteralExpr>(expr);
  }

  static const char* label(clang::AccessSpecifier access) {
    return access == clang::AS_private ? " private:\n" : access == clang::AS_protected ? " protected:\n" : " public:\n";
  }

  Fragment merged_body() {
    Fragment text;
    text.add(std::string("\n"));
    clang::AccessSpecifier access = record(entity_.levels.size() - 1).isStruct() ? clang::AS_public : clang::AS_private;
    const Slot* previous = nullptr;
    const auto emit = [&](const Slot& slot) {
      Fragment own = slot_text(slot).trimmed();
      const bool relabel = slot.access != access;
      const bool functions =
          slot.kind == Slot::Kind::method || slot.kind == Slot::Kind::constructor ||
          (previous && (previous->kind == Slot::Kind::method || previous->kind == Slot::Kind::constructor));
      const bool neighbours = previous && previous->level == slot.level && previous->slice + 1 == slot.slice;
      if (previous && (slot.blank_before || relabel || (functions && !neighbours))) text.add(std::string("\n"));
      if (relabel) text.add(label(slot.access));
      access = slot.access;
      for (const auto& [level, comment] : slot.above) {
        text.append(render(comment, level));
        text.add(std::string("\n"));
      }
      text.append(own);
      text.add(std::string("\n"));
      previous = &slot;
    };
    for (const Slot& slot : slots_) emit(slot);
    if (!supers_.kept.empty()) {
      text.add(access == clang::AS_private ? "\n" : "\n private:\n");
      for (const KeptMethod& method : supers_.kept) {
        text.append(method.text);
        text.add(std::string("\n"));
      }
    }
    for (size_t level = entity_.levels.size(); level-- > 0;) {
      const Slice& tail = members_[entity_.levels.size() - 1 - level].back();
      const SourceSpan comment = leading_comment(text_of(level), tail.whole);
      if (comment.begin == comment.end) continue;
      text.append(render(comment, level));
      text.add(std::string("\n"));
    }
    text.add(std::string("};"));
    const auto first_slice = [](const Symbol& symbol) { return symbol.slices.front(); };
    append_comment_behind(text, first_slice);
    append_holder(text);
    return text;
  }

  /// The comment behind the slice that `choose` gives, of the nearest level that has one.
  template <class Choose>
  void append_comment_behind(Fragment& text, Choose&& choose) {
    for (size_t level = 0; level < entity_.levels.size(); ++level) {
      const Slice& slice = *choose(*entity_.levels[level].symbol);
      const std::string& source = text_of(level);
      uint32_t behind = slice.core.end;
      while (behind < slice.whole.end && source[behind] == ';') ++behind;
      const SourceSpan comment = leading_comment(source, {slice.whole.file, behind, slice.whole.end});
      if (comment.begin == comment.end) continue;
      text.add(std::string("  "));
      text.append(render(comment, level));
      return;
    }
  }

  Family& family_;
  Entity& entity_;
  std::deque<std::vector<Slice>> members_;  // by level, root first; slots point into them
  std::vector<Slot> slots_;
  Supers supers_;
};

}  // namespace

Fragment class_text(Family& family, Entity& entity) { return ClassText(family, entity).make(); }

}  // namespace modgen
