#include "generator/flatten/members.h"

#include <clang/AST/DeclCXX.h>
#include <clang/AST/DeclTemplate.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "generator/flatten/family.h"
#include "generator/flatten/implicit_members.h"
#include "generator/flatten/operands.h"
#include "generator/flatten/overloads.h"
#include "generator/flatten/special_members.h"
#include "generator/source/fixes.h"
#include "generator/source/slices.h"

namespace modgen {
namespace {

class Merge {
 public:
  Merge(const Family& family, Entity& entity) : family_(family), entity_(entity) {}

  MergedMembers make() {
    for (size_t level = entity_.levels.size(); level-- > 0;) merge_level(level);
    drop_hidden_members(family_, entity_, reintroduced_, members_);
    check_special_members(family_, entity_);
    check_exception_specifications(family_, entity_, members_);
    check_overloads(family_, entity_, members_);
    check_shared_variables(family_, entity_, members_);
    // Code that reads a constant that was a field has its value inlined.
    std::erase_if(members_, [&](const Member& member) {
      return member.redefines && member.decl && folded_constant(entity_, member.name) == member.decl;
    });
    for (const auto& [name, conflict] : conflicts_) reject_conflict(conflict);
    for (const ReplacedType& type : replaced_types_) check_replaced_type(family_, entity_, type, members_);
    return {std::move(members_), std::move(slices_)};
  }

 private:
  const clang::CXXRecordDecl& record(size_t level) const { return *entity_.levels[level].symbol->record; }
  const std::string& get_text(size_t level) const {
    return family_.file_text(entity_.levels[level].symbol->spec->file);
  }
  SourceSpan token(clang::SourceLocation location) const {
    return family_.parsed().token(family_.specs().manager(), location);
  }

  static std::string qualifiers(const clang::FunctionDecl& function) {
    const auto* method = llvm::dyn_cast<clang::CXXMethodDecl>(&function);
    if (!method) return "";
    const clang::RefQualifierKind reference = method->getRefQualifier();
    return std::string(method->isConst() ? "const" : "") + (method->isVolatile() ? " volatile" : "") +
           (reference == clang::RQ_None     ? ""
            : reference == clang::RQ_LValue ? " &"
                                            : " &&");
  }

  void merge_level(size_t level) {
    slices_.push_back(family_.specs().members(record(level)));
    const bool is_root = level + 1 == entity_.levels.size();
    std::vector<Member> own;
    bool inherits_constructors = false;
    std::vector<std::pair<size_t, SourceSpan>> above;  // comments at the last access specifier
    std::set<std::string> reintroduced;                // names that a using-declaration makes visible
    for (const Slice& slice : slices_.back()) {
      if (slice.decls.empty()) continue;
      auto* decl = slice.decls.front();
      if (llvm::isa<clang::AccessSpecDecl>(decl)) {
        const std::string& text = get_text(level);
        const SourceSpan colon{slice.core.file, next_code(text, slice.core.begin), slice.core.end};
        for (const SourceSpan& comment :
             {leading_comment(text, slice.whole), leading_comment(text, {colon.file, colon.end, slice.whole.end})})
          if (comment.begin < comment.end) above.push_back({level, comment});
        continue;
      }
      if (llvm::isa<clang::UsingDecl>(decl) && !is_root) {
        for (const clang::Decl* one : slice.decls) {  // using A::x, A::y;
          const auto* use = llvm::cast<clang::UsingDecl>(one);
          if (use->getDeclName().getNameKind() == clang::DeclarationName::CXXConstructorName)
            inherits_constructors = true;
          else if (use->getAccess() == clang::AS_private)
            remove(use->getDeclName().getAsString(), *use, slice, level);
          else
            reintroduce(*use, slice, reintroduced);
        }
        continue;
      }
      Member member;
      member.level = level;
      member.slice = &slice;
      member.decl = llvm::dyn_cast<clang::NamedDecl>(decl);
      member.access = decl->getAccess();
      member.blank_before = blank_before(get_text(level), slice.whole);
      if (member.decl) member.name = llvm::isa<clang::CXXDestructorDecl>(decl) ? "~" : member.decl->getNameAsString();
      member.friend_signature = friend_signature(family_, entity_, level, *decl);
      member.above = std::move(above);
      above.clear();
      if (llvm::isa<clang::FieldDecl>(decl)) {
        member.kind = Member::Kind::field;
      } else if (llvm::isa<clang::CXXConstructorDecl>(decl)) {
        member.kind = Member::Kind::constructor;
        member.signature = family_.parameter_types(*decl->getAsFunction(), entity_.levels[level], entity_);
      } else if (const auto* function = decl->getAsFunction()) {
        member.kind = Member::Kind::method;
        member.signature = family_.parameter_types(*function, entity_.levels[level], entity_);
        member.qualifiers = qualifiers(*function);
        if (function->isDeleted() && !is_root) {
          remove_overload(member, slice);
          continue;
        }
      }
      if (slice.decls.size() > 1 && !is_root) {
        for (auto* several : slice.decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(several);
              field && find_field(field->getName().str()))
            family_.specs().reject(slice.core,
                                   "this redeclares '" + field->getName().str() + "' together with other members",
                                   "declare one member per line");
      }
      own.push_back(std::move(member));
    }
    const std::set<std::string> early = is_root ? std::set<std::string>() : initialized_before_base(level);
    for (Member& member : own) member.before_inherited = member.kind == Member::Kind::field && early.count(member.name);
    if (!is_root) inherit_special_members(family_, entity_, level, inherits_constructors, members_);
    for (Member& member : own) {
      if (member.kind == Member::Kind::constructor) hide_inherited_constructors(family_, entity_, member, members_);
      const bool is_overload = reintroduced.count(member.name) != 0;
      insert(std::move(member), is_root, is_overload);
    }
    reintroduced_[level] = std::move(reintroduced);
  }

  /// Inherited members that a using-declaration names have its access.
  void reintroduce(const clang::UsingDecl& use, const Slice& slice, std::set<std::string>& names) {
    const std::string name = use.getDeclName().getAsString();
    names.insert(name);
    std::set<size_t> named;
    for (const clang::UsingShadowDecl* one : use.shadows())
      for (size_t level = 0; level < entity_.levels.size(); ++level)
        if (one->getTargetDecl()->getDeclContext()->getPrimaryContext() == &record(level)) named.insert(level);
    for (Member& member : members_) {
      if (member.name != name) continue;
      member.access = use.getAccess();
      if (named.contains(member.level) || named.upper_bound(member.level) == named.end()) continue;
      const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(member.decl);
      if (method && method->size_overridden_methods() > 0) continue;  // calls of the other one run it
      family_.specs().reject(slice.core,
                             "this names a base's '" + name + "' that another base in between redefines, whose '" +
                                 name + "' the flattened class has",
                             "name the nearest base",
                             {{Diagnostic::Severity::note, member.slice->core, "the other one", "", {}}});
      return;
    }
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

  static bool blank_before(const std::string& text, SourceSpan slice) {
    int breaks = 0;
    for (uint32_t at = slice.begin; at < slice.end && std::isspace(static_cast<unsigned char>(text[at])); ++at)
      breaks += text[at] == '\n';
    return breaks > 1;
  }

  Member* find_field(const std::string& name) {
    for (Member& member : members_)
      if (member.kind == Member::Kind::field)
        for (const auto* decl : member.slice->decls)
          if (const auto* field = llvm::dyn_cast<clang::FieldDecl>(decl); field && field->getName() == name)
            return &member;
    return nullptr;
  }

  void remove(const std::string& name, const clang::UsingDecl& use, const Slice& slice, size_t level) {
    if (Member* field = find_field(name); field && field->slice->decls.size() > 1) {
      family_.specs().reject(slice.core,
                             "'" + name + "' is declared together with other members and cannot be removed alone",
                             "declare one member per line in the base",
                             {{Diagnostic::Severity::note, field->slice->core, "the declaration", "", {}}});
      return;
    }
    const size_t before = members_.size();
    std::erase_if(members_, [&](const Member& member) {
      const bool matches = member.kind != Member::Kind::constructor && member.name == name;
      if (matches) note_conflict(name, member.signature, level, slice.core, member);
      return matches;
    });
    if (members_.size() == before)
      family_.specs().reject(
          token(use.getNameInfo().getLoc()),
          "'" + entity_.name + "' does not inherit a member '" + name + "' to remove", "do not name it here", {},
          slice.decls.size() == 1 ? remove_with_line(family_.parsed(), slice.core) : std::vector<Edit>{});
    entity_.removed[name] = token(use.getNameInfo().getLoc());
  }

  void remove_overload(const Member& deleted, const Slice& slice) {
    const size_t before = members_.size();
    std::erase_if(members_, [&](const Member& member) {
      return member.kind == Member::Kind::method && member.name == deleted.name &&
             member.signature == deleted.signature;
    });
    if (members_.size() == before)
      family_.specs().reject(
          slice.core, "'" + entity_.name + "' does not inherit this overload of '" + deleted.name + "' to remove",
          "remove this line", {}, remove_with_line(family_.parsed(), slice.core));
    else if (std::none_of(members_.begin(), members_.end(),
                          [&](const Member& member) { return member.name == deleted.name; }))
      entity_.removed[deleted.name] = slice.core;
  }

  /// A member that both classes of Both<…> declare, and the first level of the class that derives from them.
  struct Conflict {
    std::string name;
    SourceSpan under, over;
    size_t over_begin;
  };

  /// Compares `level`'s declaration of the member `name` with the inherited one: a conflict if they come from the two
  /// classes of Both<…>. A redeclaration in the deriving class resolves it.
  void note_conflict(const std::string& name, const std::string& signature, size_t level, SourceSpan where,
                     const Member& inherited) {
    const auto known = conflicts_.find(name + signature);
    if (known != conflicts_.end() && level < known->second.over_begin) conflicts_.erase(known);
    for (size_t last = level; last < inherited.level; ++last) {
      const Level& joined = entity_.levels[last];
      if (joined.under == 0 || level + joined.over <= last || inherited.level > last + joined.under) continue;
      conflicts_[name + signature] = {name, inherited.slice->core, where, last + 1 - joined.over};
    }
  }

  void reject_conflict(const Conflict& conflict) const {
    const Symbol& symbol = *entity_.levels[conflict.over_begin == 0 ? 0 : conflict.over_begin - 1].symbol;
    family_.specs().reject(symbol.where, "both bases of '" + symbol.name + "' declare '" + conflict.name + "'",
                           "declare it here to resolve the conflict",
                           {{Diagnostic::Severity::note, conflict.under, "the first base's", "", {}},
                            {Diagnostic::Severity::note, conflict.over, "the second base's", "", {}}});
  }

  /// Inserts a member. With `is_overload`, inherited methods of its name stay next to it unless they have the same
  /// signature.
  void insert(Member member, bool is_root, bool is_overload) {
    if (!is_root && !member.friend_signature.empty()) {
      const auto inherited = std::ranges::find(members_, member.friend_signature, &Member::friend_signature);
      if (inherited != members_.end()) {
        member.blank_before = inherited->blank_before;
        *inherited = std::move(member);
        return;
      }
    }
    if (!is_root && member.kind != Member::Kind::constructor && !member.name.empty()) {
      entity_.removed.erase(member.name);
      if (Member* inherited = redefined_by(member, is_overload)) {
        note_conflict(member.name, member.signature, member.level, member.slice->core, *inherited);
        if (replaces_type(family_, entity_, *inherited, member))
          replaced_types_.push_back({*inherited, member.level, member.slice->core});
        member.blank_before = inherited->blank_before;
        member.redefines = true;
        member.above.insert(member.above.begin(), inherited->above.begin(), inherited->above.end());
        if (member.kind == Member::Kind::method) inherit_comment(*inherited, member);
        if (member.kind == Member::Kind::field) inherit_annotations(*inherited, member);
        if (const auto* field = llvm::dyn_cast_or_null<clang::FieldDecl>(member.decl))
          check_redeclared(family_, *field, llvm::dyn_cast_or_null<clang::FieldDecl>(inherited->decl),
                           member.slice->core);
        *inherited = std::move(member);
        return;
      }
    }
    if (member.decl && is_marked_replaces(member)) reject_replaces(member);
    if (is_root) {
      members_.push_back(std::move(member));
      return;
    }
    // A new member follows the last one of its kind. Methods also follow the constructors; constructors precede the
    // first method.
    const auto after_last = [&](auto&& is_kind) {
      size_t after = 0;
      for (size_t index = 0; index < members_.size(); ++index)
        if (is_kind(members_[index].kind)) after = index + 1;
      return after;
    };
    size_t at = member.kind == Member::Kind::other ? after_named(member) : 0;
    if (member.kind == Member::Kind::constructor) {
      at = after_last([](Member::Kind kind) { return kind == Member::Kind::constructor; });
      while (at < members_.size() && members_[at].kind == Member::Kind::other) ++at;
      member.blank_before = true;
    } else if (member.kind == Member::Kind::method) {
      at = after_last(
          [](Member::Kind kind) { return kind == Member::Kind::method || kind == Member::Kind::constructor; });
      if (at == 0) at = members_.size();
      member.blank_before = true;
      const auto* method = llvm::dyn_cast_or_null<clang::CXXMethodDecl>(member.decl);
      member.is_new = method && method->size_overridden_methods() == 0 && !is_marked_replaces(member);
      member.near = nearest_inherited(member);
    } else if (member.kind == Member::Kind::field && member.before_inherited) {
      const auto stays_before = [&](const Member& other) {
        return other.kind != Member::Kind::field || (other.before_inherited && other.level == member.level);
      };
      while (at < members_.size() && stays_before(members_[at])) ++at;
      if (at < members_.size()) {
        member.blank_before = members_[at].blank_before;
        members_[at].blank_before = false;
      }
    } else if (member.kind == Member::Kind::field) {
      at = after_last([](Member::Kind kind) { return kind == Member::Kind::field; });
      // The blank line above the first field of its class separates it from the methods there, not from the inherited
      // fields.
      const bool first_there = at > 0 && members_[at - 1].level != member.level;
      if (first_there) member.blank_before = false;
      if (at == 0) at = members_.size();
    }
    members_.insert(members_.begin() + static_cast<long>(at), std::move(member));
  }

  /// The position of `member`, a type, a constant or the like: after those that its text names and those that its class
  /// adds before it, else first.
  size_t after_named(const Member& member) const {
    const std::set<std::string> words = words_in(family_, member.slice->core);
    size_t after = 0;
    for (size_t index = 0; index < members_.size(); ++index) {
      const Member& other = members_[index];
      const bool is_added = other.level == member.level && !other.redefines;
      if (other.kind == Member::Kind::other && (is_added || words.count(other.name))) after = index + 1;
    }
    return after;
  }

  bool is_marked_replaces(const Member& member) const {
    return std::ranges::any_of(annotations_on(*member.decl, family_),
                               [](const AnnotationMacro& note) { return note.kind == AnnotationKind::replaces; });
  }

  /// Reports a new member that is marked REPLACES.
  void reject_replaces(const Member& member) const {
    for (const AnnotationMacro& note : annotations_on(*member.decl, family_)) {
      if (note.kind != AnnotationKind::replaces) continue;
      const std::string near = nearest_inherited(member);
      family_.specs().reject(note.where, "'" + member.name + "' of '" + entity_.name + "' replaces no inherited member",
                             near.empty() ? "remove REPLACES" : "rename it to '" + near + "', or remove REPLACES");
    }
  }

  /// The inherited member of the same kind with the name nearest to `member`'s; empty if no name is similar.
  std::string nearest_inherited(const Member& member) const {
    std::vector<std::string> names;
    for (const Member& other : members_)
      if (other.level > member.level && other.kind == member.kind) names.push_back(other.name);
    return nearest_name(member.name, names);
  }

  Member* redefined_by(const Member& member, bool is_overload) {
    Member *only = nullptr, *unlike = nullptr;  // unlike: const where `member` is not, or the other way round
    int overloads = 0;
    if (Member* field = member.kind == Member::Kind::field ? find_field(member.name) : nullptr) return field;
    for (Member& inherited : members_) {
      if (inherited.name != member.name || inherited.kind == Member::Kind::constructor) continue;
      check_replaced(family_, entity_, inherited, member);
      if (member.kind != Member::Kind::method || inherited.kind != Member::Kind::method) return &inherited;
      if (inherited.level == member.level) continue;
      if (inherited.signature == member.signature) {
        if (inherited.qualifiers == member.qualifiers) return &inherited;
        unlike = &inherited;
      }
      only = &inherited;
      ++overloads;
    }
    if (is_overload) return nullptr;
    return unlike ? unlike : overloads == 1 ? only : nullptr;
  }

  void inherit_comment(const Member& inherited, Member& member) {
    const SourceSpan own = leading_comment(get_text(member.level), member.slice->whole);
    if (own.begin < own.end) return;
    if (inherited.inherited_comment.begin < inherited.inherited_comment.end) {
      member.inherited_comment = inherited.inherited_comment;
      member.comment_level = inherited.comment_level;
    } else {
      member.inherited_comment = leading_comment(get_text(inherited.level), inherited.slice->whole);
      member.comment_level = inherited.level;
    }
  }

  void inherit_annotations(const Member& inherited, Member& member) {
    const std::vector<AnnotationMacro> own = annotations_on(*member.decl, family_);
    member.inherited_annotations = inherited.inherited_annotations;
    for (const AnnotationMacro& note : annotations_on(*inherited.decl, family_))
      if (note.kind != AnnotationKind::replaces && std::ranges::none_of(own, [&](const AnnotationMacro& one) {
            return replaces_inherited(one.kind, note.kind);
          }))
        member.inherited_annotations.emplace_back(inherited.level, note.where);
  }

  std::map<size_t, std::set<std::string>> reintroduced_;  // names that a level's using-declarations make visible
  std::map<std::string, Conflict> conflicts_;             // by name and signature
  std::vector<ReplacedType> replaced_types_;
  const Family& family_;
  Entity& entity_;
  std::vector<Member> members_;
  std::deque<std::vector<Slice>> slices_;
};

}  // namespace

std::vector<AnnotationMacro> annotations_on(const clang::Decl& decl, const Family& family) {
  return annotations(decl, family.specs().manager(), family.parsed());
}

MergedMembers merge_members(const Family& family, Entity& entity) { return Merge(family, entity).make(); }

}  // namespace modgen
