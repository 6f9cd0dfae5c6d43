#include "generator/weave/partition.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

namespace modgen {
namespace {

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text);
}

std::vector<std::string> divided(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    pieces.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return pieces;
}

bool is_name(std::string_view text) {
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text.front())) &&
         std::all_of(text.begin(), text.end(),
                     [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; });
}

/// Parses one factor of a part: a number, a member, or a field of the member `config`.
Expr read_factor(const std::string& text) {
  Expr expr;
  if (!text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    expr.kind = Expr::Kind::literal;
    expr.name = text;
  } else if (is_name(text)) {
    expr.kind = Expr::Kind::field;
    expr.name = text;
  } else if (text.starts_with("config.") && is_name(std::string_view(text).substr(7))) {
    Expr config;
    config.kind = Expr::Kind::field;
    config.name = "config";
    config.type = "modular::Config";
    expr.kind = Expr::Kind::field;
    expr.name = text.substr(7);
    expr.operands = {std::move(config)};
  }
  return expr;  // Kind::other for anything else: its size cannot be traced
}

/// Parses "num_heads * head_dim"; an optional field may be written "*config.head_dim".
Expr read_part(const std::string& text) {
  Expr product;
  for (const std::string& factor : divided(text, '*')) {
    if (factor.empty()) continue;  // left of an optional's dereferencing star
    Expr next = read_factor(factor.starts_with('(') ? trimmed(factor.substr(1, factor.size() - 2)) : factor);
    if (product.kind == Expr::Kind::other && product.operands.empty() && product.name.empty()) {
      product = std::move(next);
      continue;
    }
    Expr both;
    both.kind = Expr::Kind::op;
    both.name = "*";
    both.operands = {std::move(product), std::move(next)};
    product = std::move(both);
  }
  return product;
}

}  // namespace

std::vector<Expr> find_parts(const ModuleNode& layer) {
  const Annotation* annotation = layer.field ? split_annotation(layer.field->annotations) : nullptr;
  std::vector<Expr> parts;
  if (!annotation || annotation->arguments.empty()) return parts;
  const auto pieces = divided(annotation->arguments[0], ',');
  const bool names_dimension =
      annotation->kind == AnnotationKind::tp_shard || annotation->kind == AnnotationKind::tp_reduce;
  const size_t first = names_dimension ? 1 : 0;
  for (size_t i = first; i < pieces.size(); ++i) parts.push_back(read_part(pieces[i]));
  return parts;
}

const Annotation* split_annotation(const std::vector<Annotation>& annotations) {
  for (const AnnotationKind kind :
       {AnnotationKind::tp_colwise, AnnotationKind::tp_colwise_parts, AnnotationKind::tp_rowwise,
        AnnotationKind::tp_vocab, AnnotationKind::tp_shard, AnnotationKind::tp_reduce})
    if (const Annotation* found = find_annotation(annotations, kind)) return found;
  return nullptr;
}

const std::vector<Expr>* layer_arguments(const Expr* construction) {
  if (!construction) return nullptr;
  const bool makes = construction->kind == Expr::Kind::call || construction->kind == Expr::Kind::construct;
  const bool options = makes && construction->operands.size() == 1 &&
                       construction->operands[0].kind != Expr::Kind::literal &&
                       (construction->operands[0].type.find("Options") != std::string::npos);
  if (makes && !options) return &construction->operands;
  for (const Expr& operand : construction->operands)
    if (const auto* found = layer_arguments(&operand)) return found;
  return nullptr;
}

Partition find_partition(const ModuleNode& layer, std::string_view parameter) {
  const Annotation* annotation = layer.field ? split_annotation(layer.field->annotations) : nullptr;
  if (!annotation) return {};
  const auto sizes = [&] {
    std::vector<Size> parts;
    for (const Expr& part : find_parts(layer)) parts.push_back(trace_size(*layer.parent, part));
    return parts;
  };
  const bool is_bias = parameter == "bias";
  const int64_t output = layer.transposed && !is_bias ? 1 : 0, input = layer.transposed ? 0 : 1;
  if (annotation->kind == AnnotationKind::tp_colwise || annotation->kind == AnnotationKind::tp_vocab)
    return {output, {}};
  if (annotation->kind == AnnotationKind::tp_colwise_parts) return {output, sizes()};
  if (annotation->kind == AnnotationKind::tp_rowwise) return is_bias ? Partition() : Partition{input, {}};
  const auto arguments =
      annotation->arguments.empty() ? std::vector<std::string>() : divided(annotation->arguments[0], ',');
  int64_t dim = 0;
  if (!arguments.empty()) std::from_chars(arguments[0].data(), arguments[0].data() + arguments[0].size(), dim);
  return {dim, sizes()};
}

namespace {

/// Argument `i` of `layer`'s construction, or size `i` of a registered tensor's; null if there is none, or if the
/// constructions in other branches have another one.
const Expr* find_size_argument(const ModuleNode& layer, size_t i) {
  const bool is_registered = layer.kind == ModuleNode::Kind::parameter || layer.kind == ModuleNode::Kind::buffer;
  const auto of = [&](const Expr* construction) -> const Expr* {
    const std::vector<Expr>* arguments = is_registered ? nullptr : layer_arguments(construction);
    if (is_registered && construction && construction->kind == Expr::Kind::call && !construction->operands.empty() &&
        construction->operands[0].kind == Expr::Kind::list)
      arguments = &construction->operands[0].operands;
    return arguments && i < arguments->size() ? &(*arguments)[i] : nullptr;
  };
  const Expr* size = of(layer.construction);
  for (const Expr* construction : layer.others)
    if (const Expr* other = of(construction); size && !(other && is_same(*size, *other))) return nullptr;
  return size;
}

}  // namespace

Size split_size(const ModuleNode& layer, int64_t dim) {
  const bool by_input = find_annotation(layer.field->annotations, AnnotationKind::tp_rowwise);
  const size_t argument = layer.kind == ModuleNode::Kind::linear ? (by_input ? 0 : 1) : static_cast<size_t>(dim);
  const Expr* size = find_size_argument(layer, argument);
  return size ? trace_size(*layer.parent, *size) : Size();
}

Size output_size(const ModuleNode& layer) {
  const bool is_layer = layer.kind == ModuleNode::Kind::linear || layer.kind == ModuleNode::Kind::embedding;
  const Expr* size = is_layer ? find_size_argument(layer, 1) : nullptr;
  return size ? trace_size(*layer.parent, *size) : Size();
}

std::set<std::string> find_counts(const ModuleNode& root) {
  std::set<std::string> counts;
  for_each_node(root, [&](const ModuleNode& node) {
    if (!node.type) return;
    for (const Field& field : node.type->fields) {
      if (!find_annotation(field.annotations, AnnotationKind::tp_local)) continue;
      Expr own;
      own.kind = Expr::Kind::field;
      own.name = field.name;
      const Size size = trace_size(node, own);
      counts.insert(size.local_fields.begin(), size.local_fields.end());
    }
  });
  return counts;
}

std::set<std::string> find_counts(const ModuleNode& layer, const Partition& partition,
                                  const std::set<std::string>& counts) {
  std::vector<Size> sizes = partition.parts;
  if (partition.dim && sizes.empty()) sizes = {split_size(layer, *partition.dim)};
  std::set<std::string> factors;
  for (const Size& size : sizes)
    for (const Count::Term& term : size.count.terms)
      std::ranges::copy_if(term.fields, std::inserter(factors, factors.end()),
                           [&](const std::string& field) { return counts.contains(field); });
  return factors;
}

std::set<std::string> find_vocabularies(const ModuleNode& root) {
  std::set<std::string> vocabularies;
  for_each_node(root, [&](const ModuleNode& node) {
    const Annotation* split = node.field ? split_annotation(node.field->annotations) : nullptr;
    if (split && split->kind == AnnotationKind::tp_vocab)
      vocabularies.insert(product_text(split_size(node, *find_partition(node, "weight").dim).count));
  });
  vocabularies.erase("");  // not a product: the runtime divides it evenly, or rejects the mesh
  return vocabularies;
}

bool is_vocabulary(const ModuleNode& layer, const Partition& partition, const std::set<std::string>& vocabularies) {
  return partition.dim && partition.parts.empty() &&
         vocabularies.contains(product_text(split_size(layer, *partition.dim).count));
}

ShardType to_type(const Partition& partition) {
  if (!partition.dim) return kInvariant;
  std::vector<std::string> parts;
  for (const Size& part : partition.parts) parts.push_back(part.count.product() ? product_text(part.count) : "?");
  return sharded(*partition.dim, std::move(parts));
}

}  // namespace modgen
