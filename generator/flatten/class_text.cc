// Flattens one class: its head, its merged members, its holder.
#include <clang/AST/DeclCXX.h>
#include <clang/AST/ExprCXX.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "generator/flatten/family.h"
#include "generator/flatten/members.h"
#include "generator/flatten/outside.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

class ClassText {
 public:
  ClassText(Family& family, Entity& entity)
      : family_(family), entity_(entity), merged_(merge_members(family, entity)) {}

  Fragment make() {
    supers_.is_redefined = [this](const clang::CXXMethodDecl& method) {
      return std::none_of(merged_.members.begin(), merged_.members.end(), [&](const Member& member) {
        return member.decl && member.decl->getCanonicalDecl() == method.getCanonicalDecl();
      });
    };
    for (const Member& member : merged_.members)
      if (member.is_new && entity_.levels[member.level].symbol == entity_.declared)
        entity_.new_methods.push_back({member.name, member.near, token(member.decl->getLocation())});
    Fragment text = head();
    text.append(entity_.levels.size() == 1 ? verbatim_body() : merged_body());
    return text;
  }

 private:
  const clang::CXXRecordDecl& record(size_t level) const { return *entity_.levels[level].symbol->record; }
  const std::string& get_text(size_t level) const {
    return family_.file_text(entity_.levels[level].symbol->spec->file);
  }
  Fragment render(SourceSpan span, size_t level, std::vector<Replacement> replacements = {}) {
    return family_.render(span, entity_.levels[level], entity_, {}, std::move(replacements));
  }
  SourceSpan token(clang::SourceLocation location) const {
    return family_.parsed().token(family_.specs().manager(), location);
  }

  // ---- The head -----------------------------------------------------------------------------------------------------

  /// The class's annotations: its own, those on its aliases, and inherited ones.
  Fragment class_annotations() {
    Fragment text;
    std::vector<AnnotationKind> kinds;
    const auto take = [&](const clang::Decl& decl, const Level& level, bool own) {
      std::vector<AnnotationKind> here;
      for (const AnnotationMacro& note : annotations_on(decl, family_)) {
        if (note.kind == AnnotationKind::stands_for || (!own && note.kind == AnnotationKind::entry)) continue;
        if (std::ranges::any_of(kinds, [&](AnnotationKind one) { return replaces_inherited(one, note.kind); }))
          continue;
        here.push_back(note.kind);
        text.append(family_.render(note.where, level, entity_));
        text.add(std::string(" "));
      }
      kinds.insert(kinds.end(), here.begin(), here.end());
    };
    if (entity_.declared)
      for (const auto* alias : entity_.declared->aliases) take(*alias, Level{entity_.declared, {}}, true);
    for (const Level& level : entity_.levels) take(*level.symbol->record, level, level.symbol == entity_.declared);
    return text;
  }

  /// Comment, class key, annotations, name and bases, up to and including the opening brace.
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
      const SourceSpan comment = leading_comment(get_text(level), slice.whole);
      if (comment.begin < comment.end) text = render(comment, level);
    }
    if (!text.empty()) text.add(std::string("\n"));
    const SourceSpan key = token(record(root).getBeginLoc()), name = token(record(root).getLocation());
    const SourceSpan own_name = token(record(0).getLocation());
    text.append(render(key, root));
    text.add(std::string(" "));
    text.append(class_annotations());
    text.append(render(own_name, 0));
    if (record(0).hasAttr<clang::FinalAttr>()) text.add(std::string(" final"));
    // The root's bases, then the library classes that the other levels add as bases.
    const SourceSpan open = token(record(root).getBraceRange().getBegin());
    const SourceSpan bases = written_bases(root);
    text.append(render(bases, root));
    bool has_bases = record(root).getNumBases() != 0;
    for (size_t level = root; level-- > 0;)
      for (const clang::CXXBaseSpecifier& base : record(level).bases()) {
        if (family_.specs().symbol(base.getType()->getAsCXXRecordDecl())) continue;
        text.add(std::string(std::exchange(has_bases, true) ? ", " : " : "));
        text.append(render(family_.parsed().span(family_.specs().manager(), base.getSourceRange()), level));
      }
    text.append(render({name.file, bases.end, after_line_comment(get_text(root), open.end)}, root));
    return text;
  }

  /// From behind the name of a class, or behind `final`, to the end of its last base.
  SourceSpan written_bases(size_t level) const {
    const clang::CXXRecordDecl& class_record = record(level);
    SourceSpan span = token(class_record.getLocation());
    span.begin = span.end;
    if (const auto* final = class_record.getAttr<clang::FinalAttr>())
      span.begin = span.end = token(final->getLocation()).end;
    for (const clang::CXXBaseSpecifier& base : class_record.bases())
      span.end = std::max(span.end, family_.parsed().span(family_.specs().manager(), base.getSourceRange()).end);
    return span;
  }

  // ---- The body -----------------------------------------------------------------------------------------------------

  Fragment verbatim_body() {
    const SourceSpan open = token(record(0).getBraceRange().getBegin());
    const Symbol& symbol = *entity_.levels[0].symbol;
    const SourceSpan whole = symbol.slices.front()->whole;
    std::vector<Replacement> bodies;
    for (const Member& member : merged_.members)
      if (const auto body = body_after(member)) bodies.push_back(*body);
    Fragment text;
    SourceSpan rest{open.file, after_line_comment(get_text(0), open.end), whole.end};
    for (const Member& member : merged_.members)
      if (auto movable = body_inside(member)) append_method(text, rest, 0, member, *movable, bodies);
    text.append(render(rest, 0, bodies));
    append_holder(text);
    return text;
  }

  /// The body of a method that its class defines; nullopt for other members, and if the body cannot leave the class.
  std::optional<MovableBody> body_inside(const Member& member) {
    const clang::FunctionDecl* function =
        member.kind == Member::Kind::method && member.decl ? member.decl->getAsFunction() : nullptr;
    if (!function || !function->doesThisDeclarationHaveABody() || function->isDefaulted()) return std::nullopt;
    MovableBody movable(entity_, member.level, *function);
    return movable.can_move() ? std::optional(movable) : std::nullopt;
  }

  /// Appends `rest`, up to the end of the method's body, which goes where `movable` goes.
  void append_method(Fragment& text, SourceSpan& rest, size_t level, const Member& member, MovableBody& movable,
                     const std::vector<Replacement>& replacements) {
    const SourceSpan body =
        family_.parsed().span(family_.specs().manager(), member.decl->getAsFunction()->getBody()->getSourceRange());
    text.append(render({rest.file, rest.begin, body.begin}, level, replacements));
    text.append(movable.text([&] { return render(body, level, replacements); }));
    rest.begin = body.end;
  }

  /// Replaces the semicolon of a method that is defined outside its class with the method's body.
  std::optional<Replacement> body_after(const Member& member) {
    const clang::FunctionDecl* function = member.decl ? member.decl->getAsFunction() : nullptr;
    if (!function) return std::nullopt;
    const clang::FunctionDecl& definition = Specs::defined(*function);
    if (&definition == function || !definition.hasBody()) return std::nullopt;
    const SourceSpan body = family_.parsed().span(family_.specs().manager(), definition.getBody()->getSourceRange());
    uint32_t begin = body.begin;
    if (const auto* constructor = llvm::dyn_cast<clang::CXXConstructorDecl>(&definition))
      begin = initializers_begin(*constructor, body);
    const uint32_t semicolon = next_code(get_text(member.level), member.slice->core.end);
    MovableBody movable(entity_, member.level, *function);
    Fragment text = movable.text([&] {
      Fragment code(" ");
      code.append(render({body.file, begin, body.end}, member.level, kept_calls(member)));
      return code;
    });
    movable.add_values(family_, definition);
    SourceSpan where{body.file, member.slice->core.end, semicolon + 1};
    if (const SourceSpan pure = pure_specifier(family_, *function); pure.begin < pure.end) {
      if (llvm::isa<clang::CXXDestructorDecl>(function) && member.level > 0)
        where.begin = pure.begin;  // that of a class which derives is not pure
      else if (movable.can_move())
        movable.move();
    }
    return Replacement{where, text};
  }
  /// The colon before the first initializer, or the beginning of the body.
  uint32_t initializers_begin(const clang::CXXConstructorDecl& constructor, SourceSpan body) const {
    uint32_t first = body.begin;
    for (const clang::CXXCtorInitializer* init : constructor.inits())
      if (init->isWritten())
        first = std::min(first, family_.parsed().span(family_.specs().manager(), init->getSourceRange()).begin);
    if (first == body.begin) return first;
    const std::string& text = family_.file_text(body.file);
    uint32_t colon = first;
    for (const RawToken& one : raw_tokens(text, token(constructor.getLocation()).end, first))
      if (one.end == one.begin + 1 && text[one.begin] == ':') colon = one.begin;
    return colon;
  }
  std::vector<Replacement> kept_calls(const Member& member) {
    return member.kind == Member::Kind::method ? super_calls(family_, entity_, member.level, *member.decl, {}, supers_)
                                               : std::vector<Replacement>{};
  }

  void append_holder(Fragment& text) {
    for (size_t level = 0; level < entity_.levels.size(); ++level) {
      const Symbol& symbol = *entity_.levels[level].symbol;
      if (!symbol.holder) continue;
      const Slice& slice = *symbol.slices.back();
      const SourceSpan comment = leading_comment(get_text(level), slice.whole);
      text.add(std::string("\n"));
      if (comment.begin < comment.end) {
        text.append(render(comment, level));
        text.add(std::string("\n"));
      }
      text.add("TORCH_MODULE(" + entity_.name + ");", symbol.where);
      const auto last_slice = [](const Symbol& one) { return one.holder ? one.slices.back() : one.slices.front(); };
      append_comment_after(text, last_slice);
      return;
    }
  }

  /// Whether `method` overrides a virtual method of a library's class. The flattened class still derives from that
  /// class.
  bool overrides_library(const clang::CXXMethodDecl& method) const {
    const bool is_own = family_.specs().symbol(method.getParent()) != nullptr;
    return !is_own || std::any_of(method.begin_overridden_methods(), method.end_overridden_methods(),
                                  [&](const clang::CXXMethodDecl* one) { return overrides_library(*one); });
  }

  /// Makes methods that override only methods of specs virtual by themselves: nothing is overridden when flattened, but
  /// other classes may derive.
  void replace_override(const Member& member, std::vector<Replacement>& replacements) const {
    const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(member.decl);
    if (!method || overrides_library(*method)) return;
    if (method->size_overridden_methods() > 0 && !method->isVirtualAsWritten()) {
      SourceSpan where = family_.parsed().token(family_.specs().manager(), method->getBeginLoc());
      where.end = where.begin;
      Fragment word;
      word.add(std::string("virtual "));
      replacements.push_back({where, word});
    }
    for (const auto* attribute : method->attrs()) {
      if (!llvm::isa<clang::OverrideAttr, clang::FinalAttr>(attribute)) continue;
      SourceSpan where = family_.parsed().span(family_.specs().manager(), attribute->getRange());
      if (get_text(member.level)[where.begin - 1] == ' ') --where.begin;
      replacements.push_back({where, Fragment()});
    }
  }

  Fragment member_text(const Member& member) {
    const SourceSpan whole = member.slice->whole;
    if (member.kind == Member::Kind::constructor) {
      const auto& constructor = *llvm::cast<clang::CXXConstructorDecl>(member.decl);
      ConstructorContext context{family_, entity_, field_order(), dropped_initializers(), supers_, deferred_};
      return constructor_text(context, member.level, constructor, whole, member.implied_by);
    }
    std::vector<Replacement> replacements;
    std::optional<MovableBody> movable = body_inside(member);
    if (auto body = body_after(member))
      replacements.push_back(std::move(*body));
    else
      replacements = movable ? movable->render([&] { return kept_calls(member); }) : kept_calls(member);
    for (const AnnotationMacro& note : annotations_on(*member.slice->decls.front(), family_))
      if (note.kind == AnnotationKind::tp_none) replacements.push_back({note.where, Fragment()});
    replace_override(member, replacements);
    if (is_deferred(member))
      replacements.push_back({{whole.file, token(member.decl->getLocation()).end, member.slice->core.end}, Fragment()});
    if (!member.inherited_annotations.empty()) {
      const uint32_t code = next_code(get_text(member.level), whole.begin);
      Fragment words;
      for (const auto& [level, note] : member.inherited_annotations) {
        words.append(render(note, level));
        words.add(std::string(" "));
      }
      replacements.push_back({{whole.file, code, code}, words});
    }
    Fragment text;
    if (member.inherited_comment.begin < member.inherited_comment.end) {
      text.append(render(member.inherited_comment, member.comment_level));
      text.add(std::string("\n"));
    }
    Fragment own;
    SourceSpan rest = whole;
    if (movable) append_method(own, rest, member.level, member, *movable, replacements);
    own.append(render(rest, member.level, std::move(replacements)));
    text.append(own.trimmed());
    return text;
  }

  std::vector<std::string> field_order() const {
    std::vector<std::string> names;
    for (const Member& member : merged_.members)
      if (member.kind == Member::Kind::field)
        for (const auto* decl : member.slice->decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl)) names.push_back(field->getName().str());
    return names;
  }

  /// Fields that are removed, or that a redeclaration initializes again, with the level that does so.
  std::map<std::string, size_t> dropped_initializers() const {
    std::map<std::string, size_t> levels;
    for (const auto& [name, where] : entity_.removed)
      for (size_t level = 0; level < entity_.levels.size(); ++level)
        if (entity_.levels[level].symbol->spec->file == where.file) levels[name] = level;
    for (const Member& member : merged_.members) {
      const auto* field = member.decl ? llvm::dyn_cast<clang::FieldDecl>(member.decl) : nullptr;
      if (field && member.redefines && field->hasInClassInitializer() && !is_null(*field->getInClassInitializer()))
        levels[member.name] = member.level;
    }
    return levels;
  }

  /// Whether the initializer is `{nullptr}`. A holder needs it in C++, but it creates no module.
  static bool is_null(const clang::Expr& initializer) {
    const clang::Expr* expr = initializer.IgnoreUnlessSpelledInSource();
    if (const auto* list = llvm::dyn_cast<clang::InitListExpr>(expr); list && list->getNumInits() == 1)
      expr = list->getInit(0)->IgnoreUnlessSpelledInSource();
    if (const auto* construct = llvm::dyn_cast<clang::CXXConstructExpr>(expr);
        construct && construct->getNumArgs() == 1)
      expr = construct->getArg(0)->IgnoreUnlessSpelledInSource();
    return llvm::isa<clang::CXXNullPtrLiteralExpr>(expr);
  }

  static const char* label(clang::AccessSpecifier access) {
    return access == clang::AS_private ? " private:\n" : access == clang::AS_protected ? " protected:\n" : " public:\n";
  }

  /// Whether the constructors assign the field what its default member initializer says.
  bool is_deferred(const Member& member) const {
    const auto* field = llvm::dyn_cast_or_null<clang::FieldDecl>(member.decl);
    return field && field->hasInClassInitializer() && !deferred_.empty() && deferred_.front().contains(member.name);
  }

  /// Rejects a field that only some constructors assign: then it has no default member initializer.
  void check_deferred() {
    for (const std::set<std::string>& one : deferred_)
      for (const Member& member : merged_.members) {
        const auto* field = llvm::dyn_cast_or_null<clang::FieldDecl>(member.decl);
        if (!field || one.contains(member.name) == deferred_.front().contains(member.name)) continue;
        return family_.specs().reject(token(field->getLocation()),
                                      "'" + member.name +
                                          "' is initialized from state that the body of one of the base's constructors "
                                          "sets, and not those of the others",
                                      "assign it in the bodies of constructors of this class");
      }
  }

  /// The text of a member with the comments above it.
  struct Written {
    const Member& member;
    Fragment own, above;
    size_t kept_before, kept_after;  // methods of bases that its text calls: indices of `supers_.kept`
  };

  std::vector<Written> write_members() {
    std::vector<Written> written;
    for (const Member& member : merged_.members) {
      const size_t kept_before = supers_.kept.size();
      Fragment own = member_text(member).trimmed(), above;
      for (const auto& [level, comment] : member.above) {
        above.append(render(comment, level));
        above.add(std::string("\n"));
      }
      written.push_back({member, std::move(own), std::move(above), kept_before, supers_.kept.size()});
    }
    check_deferred();
    for (Written& one : written)
      if (is_deferred(one.member)) one.own = member_text(one.member).trimmed();
    return written;
  }

  Fragment merged_body() {
    Fragment text;
    text.add(std::string("\n"));
    clang::AccessSpecifier access = record(entity_.levels.size() - 1).isStruct() ? clang::AS_public : clang::AS_private;
    const Member* previous = nullptr;
    const auto emit = [&](const Written& written) {
      const Member& member = written.member;
      // Methods of bases whose result type follows from their bodies come before their first call.
      for (size_t index = written.kept_after; index-- > written.kept_before;) {
        if (!supers_.kept[index].comes_first) continue;
        text.add(std::string(previous ? "\n" : "") + (access == clang::AS_private ? "" : label(clang::AS_private)));
        access = clang::AS_private;
        text.append(supers_.kept[index].text);
        text.add(std::string("\n\n"));
      }
      const bool relabel = member.access != access;
      const bool functions =
          member.kind == Member::Kind::method || member.kind == Member::Kind::constructor ||
          (previous && (previous->kind == Member::Kind::method || previous->kind == Member::Kind::constructor));
      const bool adjacent = previous && previous->level == member.level && previous->slice + 1 == member.slice;
      if (previous && (member.blank_before || relabel || (functions && !adjacent))) text.add(std::string("\n"));
      if (relabel) text.add(label(member.access));
      access = member.access;
      text.append(written.above);
      text.append(written.own);
      text.add(std::string("\n"));
      previous = &member;
    };
    for (const Written& member : write_members()) emit(member);
    if (!std::ranges::all_of(supers_.kept, &KeptMethod::comes_first)) {
      text.add(access == clang::AS_private ? "\n" : "\n private:\n");
      for (const KeptMethod& method : supers_.kept) {
        if (method.comes_first) continue;
        text.append(method.text);
        text.add(std::string("\n"));
      }
    }
    for (size_t level = entity_.levels.size(); level-- > 0;) {
      const Slice& tail = merged_.slices[entity_.levels.size() - 1 - level].back();
      const SourceSpan comment = leading_comment(get_text(level), tail.whole);
      if (comment.begin == comment.end) continue;
      text.append(render(comment, level));
      text.add(std::string("\n"));
    }
    text.add(std::string("};"));
    const auto first_slice = [](const Symbol& symbol) { return symbol.slices.front(); };
    append_comment_after(text, first_slice);
    append_holder(text);
    return text;
  }

  /// Appends the comment behind the slice that `choose` selects, from the nearest level that has one.
  template <class Choose>
  void append_comment_after(Fragment& text, Choose&& choose) {
    for (size_t level = 0; level < entity_.levels.size(); ++level) {
      const Slice& slice = *choose(*entity_.levels[level].symbol);
      const std::string& source = get_text(level);
      uint32_t after = slice.core.end;
      while (after < slice.whole.end && source[after] == ';') ++after;
      const SourceSpan comment = leading_comment(source, {slice.whole.file, after, slice.whole.end});
      if (comment.begin == comment.end) continue;
      text.add(std::string("  "));
      text.append(render(comment, level));
      return;
    }
  }

  Family& family_;
  Entity& entity_;
  const MergedMembers merged_;
  Supers supers_;
  std::vector<std::set<std::string>> deferred_;  // as in ConstructorContext
};

}  // namespace

Fragment class_text(Family& family, Entity& entity) { return ClassText(family, entity).make(); }

}  // namespace modgen
