// The two layer stacks of an entry, and the pipeline stages that hold a module.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "generator/weave/pipeline.h"

namespace modgen {
namespace {

/// The stage annotations on `node` and its ancestors, outermost first.
std::vector<std::pair<const ModuleNode*, AnnotationKind>> marks(const ModuleNode& node) {
  std::vector<std::pair<const ModuleNode*, AnnotationKind>> found;
  for (const ModuleNode* at = &node; at && at->field; at = at->parent) {
    if (at->parent && at->parent->field == at->field)
      continue;  // list elements and alternatives share the annotation of their field
    for (const AnnotationKind kind :
         {AnnotationKind::pp_first, AnnotationKind::pp_split, AnnotationKind::pp_last, AnnotationKind::pp_all})
      if (find_annotation(at->field->annotations, kind)) found.emplace(found.begin(), at, kind);
  }
  return found;
}

bool holds_list(const ModuleNode& node, bool is_split) {
  bool found = false;
  for_each_node(node, [&](const ModuleNode& inner) {
    found |= inner.kind == ModuleNode::Kind::list &&
             (!is_split || find_annotation(inner.field->annotations, AnnotationKind::pp_split) != nullptr);
  });
  return found;
}

}  // namespace

Stacks find_stacks(const ModuleNode& root) {
  std::array<bool, 2> found{};
  Stacks stacks;
  bool is_split = false;
  for_each_node(root, [&](const ModuleNode& node) {
    const auto marked = marks(node);
    if (marked.size() != 1 || marked[0].first != &node) return;
    const AnnotationKind kind = marked[0].second;
    is_split |= kind == AnnotationKind::pp_split;
    if (node.kind == ModuleNode::Kind::list || !holds_list(node, false)) return;
    for (const size_t stack : {0, 1}) {
      if (kind != (stack == 0 ? AnnotationKind::pp_first : AnnotationKind::pp_last)) continue;
      found[stack] = true;
      stacks.are_split[stack] |= holds_list(node, true);
    }
  });
  stacks.exist = found[0] && found[1] && !is_split;
  return stacks;
}

StagePosition find_stage_position(const ModuleNode& node, const Stacks& stacks) {
  const auto marked = marks(node);
  if (marked.empty()) return {};
  const auto [top, kind] = marked.front();
  StagePosition position{kind, 0, top->field, top->field};
  for (const auto& [inner, inner_kind] : marked)
    if (inner_kind == AnnotationKind::pp_all) return {inner_kind, 0, inner->field, top->field};
  if (!stacks.exist) return position;
  position.stack = kind == AnnotationKind::pp_first ? 0 : 1;
  if (!stacks.are_split[position.stack]) return position;
  if (marked.size() > 1)
    position.kind = marked[1].second, position.marked = marked[1].first->field;
  else
    position.kind = holds_list(*top, true) ? AnnotationKind::none : AnnotationKind::pp_last;
  return position;
}

bool is_split_list(const ModuleNode& node, const Stacks& stacks) {
  if (node.kind != ModuleNode::Kind::list) return false;
  const StagePosition position = find_stage_position(node, stacks);
  return position.kind == AnnotationKind::pp_split && position.marked == node.field;
}

}  // namespace modgen
