#include "generator/print/print.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>

#include "generator/print/woven_operand.h"
#include "generator/source/slices.h"
#include "generator/weave/plan.h"

namespace modgen {
namespace {

constexpr std::string_view kOnShards = "_on_shards", kEntered = "_tp", kUnit = "forward_unit";

/// Traverses a flattened text and the woven text in parallel.
class Unweaver {
 public:
  Unweaver(const FamilyModel& family, const std::string& woven)
      : family_(family),
        flattened_(family.text),
        woven_(woven),
        gone_(flattened_.size()),
        added_(woven_.size()),
        origin_(woven_.size()) {
    for (const Class& owner : family.classes) {
      remove(owner.annotations);
      for (const Field& field : owner.fields) remove(field.annotations);
    }
    find_units();
  }

  /// The offset in the flattened text of the first difference; empty if there is none.
  std::optional<uint32_t> difference() {
    if (compare(0, flattened_.size(), 0, woven_.size())) return std::nullopt;
    return flattened_.begin(differs_at_);
  }

 private:
  void remove(const std::vector<Annotation>& annotations) {
    for (const Annotation& annotation : annotations)
      for (size_t at = flattened_.first_from(annotation.where.begin);
           at < flattened_.size() && flattened_.end(at) <= annotation.where.end; ++at)
        gone_[at] = true;
  }

  void add(size_t begin, size_t end) { std::fill(added_.begin() + long(begin), added_.begin() + long(end), true); }

  /// The first token of the woven declaration that contains the token at `at`.
  size_t get_declaration(size_t at) const {
    static const std::set<std::string_view> kAccess = {"public", "protected", "private"};
    for (; at > 0; --at) {
      const std::string_view before = woven_.word(at - 1);
      if (before == ")" || before == "]")
        at = woven_.opening(at - 1) + 1;
      else if (before == ";" || before == "{" || before == "}" || (before == ":" && kAccess.count(woven_.word(at - 2))))
        return at;
    }
    return at;
  }

  /// Finds `T forward(A a) { return fsdp::unit(*this, &C::forward_unit, a); }` before `T forward_unit(A a)`.
  void find_units() {
    for (size_t at = 2; at < woven_.size(); ++at) {
      if (!woven_.reads(at, {"fsdp", "::", "unit", "(", "*", "this", ",", "&"}) || woven_.word(at - 1) != "return")
        continue;
      const size_t open = at - 2, close = woven_.closing(open), begin = get_declaration(open);
      size_t name = woven_.size();
      bool same = woven_.word(open) == "{" && close < woven_.size();
      for (size_t here = begin, there = close + 1; here < open; ++here, ++there) {
        // Weaving names unnamed parameters.
        if (woven_.word(here).starts_with("argument") && woven_.word(here) != woven_.word(there)) ++here;
        const bool is_name = woven_.word(here) == "forward" && woven_.word(here + 1) == "(";
        if (is_name) name = there;
        same = same && woven_.word(there) == (is_name ? kUnit : woven_.word(here));
      }
      if (!same || name == woven_.size() || woven_.word(at + 8) != class_around(begin) ||
          !forwards_all(at + 8, begin, open, close))
        continue;
      add(begin, close + 1);
      units_.insert(name);
    }
  }

  /// The name of the class whose body contains the woven token at `at`; empty if there is none.
  std::string_view class_around(size_t at) const {
    while (at > 0 && woven_.word(at - 1) != "{") {
      const std::string_view before = woven_.word(at - 1);
      at = before == "}" || before == ")" || before == "]" ? woven_.opening(at - 1) : at - 1;
    }
    while (at > 0 && woven_.word(at) != "class" && woven_.word(at) != "struct") --at;
    return at > 0 ? woven_.word(at + 1) : std::string_view();
  }

  /// Whether `C::forward_unit, a, b); }` at `at` names each parameter of the head [begin, end), in order.
  bool forwards_all(size_t at, size_t begin, size_t end, size_t close) const {
    if (!woven_.is_name(at) || !woven_.reads(at + 1, {"::", kUnit})) return false;
    at += 3;
    const size_t open = woven_.find("(", begin, end), last = woven_.closing(open);
    std::vector<std::string_view> names;
    int angles = 0;
    for (size_t here = open + 1; here <= last && open + 1 < last; ++here) {
      if (woven_.opens(here)) here = woven_.closing(here);
      angles += woven_.word(here) == "<" ? 1 : woven_.word(here) == ">" ? -1 : woven_.word(here) == ">>" ? -2 : 0;
      if (angles > 0 || (woven_.word(here) != "," && here != last)) continue;
      size_t name = here - 1;
      for (size_t value = here; value > open; --value)  // `Tensor mask = {}`
        if (woven_.word(value) == "=")
          name = value - 1;
        else if (woven_.word(value) == "," && value != here)
          break;
      names.push_back(woven_.word(name));
    }
    for (const std::string_view name : names) {
      if (woven_.word(at) != ",") return false;
      const bool moves = woven_.reads(at + 1, {"std", "::", "move", "("});
      if (woven_.word(at + (moves ? 5 : 1)) != name) return false;
      at += moves ? 7 : 2;
    }
    return woven_.reads(at, {")", ";"}) && at + 2 == close;
  }

  bool compare(size_t flat, size_t flat_end, size_t woven, size_t woven_end) {
    while (true) {
      while (flat < flat_end && gone_[flat]) ++flat;
      while (woven < woven_end && added_[woven]) ++woven;
      if (woven < woven_end) origin_[woven] = flat;
      if (flat == flat_end && woven == woven_end) return true;
      if (flat < flat_end) differs_at_ = flat;
      if (!step(flat, woven)) return false;
    }
  }

  /// Advances over one woven construct, or over one token that both texts have.
  bool step(size_t& flat, size_t& woven) {
    if (statement(flat, woven) || call(flat, woven) || declaration(flat, woven)) return true;
    const std::string_view before = flattened_.word(flat), after = woven_.word(woven);
    const bool is_variable =
        after.ends_with(kEntered) && after == std::string(before) + std::string(kEntered) && entered_.count(before);
    const bool is_unit = units_.count(woven) && before == "forward";
    const bool is_sharded_overload = after == std::string(before) + std::string(kOnShards);
    if (before.empty() || (before != after && !is_variable && !is_unit && !is_sharded_overload)) return false;
    ++flat, ++woven;
    return true;
  }

  // ---- Statements that weaving adds ----

  bool statement(size_t flat, size_t& woven) {
    const std::string_view previous = woven == 0 ? "" : woven_.word(woven - 1);
    if (previous != ";" && previous != "{" && previous != "}" && previous != ")" && !added_before(woven)) return false;
    const auto adds_until = [&](size_t end) {
      if (end > woven_.size()) return false;
      add(woven, end);
      return true;
    };
    const std::string_view name = woven_.word(woven + 1);
    if (woven_.word(woven) == "auto" && name.ends_with(kEntered) && !flattened_.reads(flat, {"auto", name})) {
      const std::string_view entered = name.substr(0, name.size() - kEntered.size());
      const std::string_view enters = woven_.word(woven + 5) == "shared" ? "shared" : "enter";
      const size_t end = woven + 8 + dimension(woven + 8);
      if (!woven_.reads(woven + 2, {"=", "tp", "::", enters, "(", entered}) || !woven_.reads(end, {")", ";"}))
        return false;
      entered_.insert(entered);
      return adds_until(end + 2);
    }
    if (reassigns(woven, "whole") && !flattened_.reads(flat, {woven_.word(woven), "=", "tp", "::", "whole"}))
      return adds_until(woven + 9);
    if (woven_.reads(woven, {"if", "(", "!", "pp", "::"}) && !flattened_.reads(flat, {"if", "(", "!", "pp", "::"})) {
      const bool asks_second_stack = woven_.reads(woven + 5, {"second_stack", "("}) && woven_.is_name(woven + 7);
      const size_t close = woven + (asks_second_stack ? 8 : 7), value = close + 3;
      if ((!asks_second_stack && !woven_.reads(woven + 5, {"is_last", "("})) ||
          !woven_.reads(close, {")", ")", "return"}))
        return false;
      const bool passes_on = woven_.reads(value, {"pp", "::", "pass_on", "("});
      const size_t carried = value + (passes_on ? 4 : 0);
      if (!woven_.is_name(carried) || (asks_second_stack && woven_.word(carried) != woven_.word(woven + 7)))
        return false;
      if (passes_on) return woven_.reads(carried + 1, {")", ";"}) && adds_until(carried + 3);
      return woven_.word(carried + 1) == ";" && adds_until(carried + 2);
    }
    if (flattened_.word(flat) == "}" && woven_.reads(woven, {"if", "("}) && woven_.is_name(woven + 2) &&
        woven_.reads(woven + 3, {".", kTieFlag, ")", "tie_parameter", "("}) &&
        woven_.word(woven_.closing(woven + 7) + 1) == ";")
      return adds_until(woven_.closing(woven + 7) + 2);
    return feed(flat, woven);
  }

  /// Whether the woven text has `x = tp::call(x);` at that token.
  bool reassigns(size_t woven, std::string_view call) const {
    const std::string_view name = woven_.word(woven);
    return woven_.is_name(woven) && woven_.reads(woven + 1, {"=", "tp", "::", call, "(", name, ")", ";"});
  }

  /// The number of tokens of `, 1` at that token: the dimension that a call names.
  size_t dimension(size_t woven) const {
    const std::string_view number = woven_.word(woven + 1);
    const bool is_digit = number.size() == 1 && std::isdigit(static_cast<unsigned char>(number[0]));
    return woven_.word(woven) == "," && is_digit ? 2 : 0;
  }

  bool added_before(size_t woven) const { return woven > 0 && added_[woven - 1]; }

  /// Whether the woven text has `pp::is_first()` or `pp::first_stack()` at that token.
  bool asks_first(size_t woven) const {
    return woven_.reads(woven, {"pp", "::", "is_first", "(", ")"}) ||
           woven_.reads(woven, {"pp", "::", "first_stack", "(", ")"});
  }

  /// `Tensor x; if (pp::is_first()) { … } else { x = pp::received(); }`
  bool feed(size_t flat, size_t woven) {
    const bool declares = woven_.word(woven) == "Tensor" && woven_.is_name(woven + 1) &&
                          woven_.word(woven + 2) == ";" &&
                          !flattened_.reads(flat, {"Tensor", woven_.word(woven + 1), ";"});
    const size_t condition = woven + (declares ? 3 : 0);
    if (!woven_.reads(condition, {"if", "("}) || !asks_first(condition + 2) ||
        !woven_.reads(condition + 7, {")", "{"}) ||
        flattened_.reads(flat,
                         {woven_.word(woven), woven_.word(woven + 1), woven_.word(woven + 2), woven_.word(woven + 3)}))
      return false;
    const size_t close = woven_.closing(condition + 8);
    const std::string_view name = woven_.word(close + 3);
    const bool is_part = close >= 9 && reassigns(close - 9, "part") && woven_.word(close - 9) == name;
    if (!woven_.is_name(close + 3) || (declares && name != woven_.word(woven + 1)) ||
        !woven_.reads(close, {"}", "else", "{", name, "=", "pp", "::", "received", "(", ")", ";", "}"}))
      return false;
    if (declares) fed_.insert(name);
    add(woven, condition + 9);
    add(is_part ? close - 9 : close, close + 12);
    return true;
  }

  // ---- Calls that weaving writes around expressions or instead of them ----

  bool call(size_t& flat, size_t& woven) {
    const std::string_view space = woven_.word(woven), name = woven_.word(woven + 2);
    if (fed_.count(space) && woven_.word(woven + 1) == "=" && fed_declaration(flat, woven)) return true;
    if (space == "->" && woven_.word(woven + 1) == "forward_on_shards" && flattened_.word(flat) == "(") {
      woven += 2;  // layer(x) calls its forward
      return true;
    }
    if ((space != "tp" && space != "pp") || woven_.word(woven + 1) != "::" ||
        flattened_.reads(flat, {space, "::", name}))
      return false;
    const size_t open = woven + 3, close = woven_.closing(open);
    if (woven_.word(open) != "(" || close == woven_.size()) return false;
    if (asks_first(woven)) return received(flat, woven);
    static const std::set<std::string_view>
        kWraps = {"enter", "gather", "local", "exit", "shared", "reduce", "part", "whole", "whole_size"},
        kLayerCalls = {"exit", "reduce", "partial", "embedding", "layer_norm", "dropout"},
        kSameName = {
            "attention", "attention_with_biases", "cross_entropy", "cross_entropy_outputs", "sampled_cross_entropy",
            "rms_norm",  "alibi_slopes"};
    const size_t comma = woven_.find(",", open + 1, close);
    if (space == "tp" && kSameName.count(name)) {
      size_t at = flat;
      while (flattened_.is_name(at) && flattened_.word(at + 1) == "::") at += 2;
      if (flattened_.word(at) != name) return false;
      flat = at;
      woven += 2;
      return true;
    }
    const bool has_dimension = comma != close && comma + dimension(comma) == close;
    if (space == "tp" && kLayerCalls.count(name) && comma != close && !has_dimension) {
      constexpr size_t kCut = 6;  // , tp::Cut::positions
      if (name == "dropout" && woven_.reads(close - kCut, {",", "tp", "::", "Cut", "::", "positions"}))
        add(close - kCut, close);
      return layer(flat, woven, comma);
    }
    const size_t end = has_dimension ? comma : close;
    if ((space == "pp" && name != "local") || !kWraps.count(name) || (comma != close && !has_dimension)) return false;
    add(woven, open + 1);
    add(end, close + 1);
    if (space == "pp" && flattened_.word(flat) == "*") ++flat;
    return is_operand(woven_, {open + 1, end, close}, flattened_, flat);
  }

  /// `call(layer, x)` for `layer(x)`, `layer->forward(x)`, `(*layer)(x)` or `layer.get()->forward(x)`.
  bool layer(size_t& flat, size_t& woven, size_t comma) const {
    size_t at = flat;
    int open = 0;  // parentheses around the layer
    for (; flattened_.word(at) == "(" || flattened_.word(at) == "*"; ++at) open += flattened_.word(at) == "(";
    const auto close = [&] {
      for (; flattened_.word(at) == ")"; ++at) --open;
    };
    size_t here = woven + 4, end = comma;
    for (; woven_.word(here) == "(" && woven_.closing(here) == end - 1; --end) ++here;
    for (; here < end; ++here, ++at)
      if (flattened_.word(at) != woven_.word(here)) return false;
    close();
    while (flattened_.reads(at, {".", "get", "(", ")"}) || flattened_.reads(at, {".", "ptr", "(", ")"})) at += 4;
    close();
    if (open != 0) return false;
    if (flattened_.reads(at, {"->", "forward"}) || flattened_.reads(at, {".", "forward"})) at += 2;
    if (flattened_.word(at) != "(") return false;
    flat = at + 1;
    woven = comma + 1;
    return true;
  }

  /// `pp::is_first() ? value : pp::received()`
  bool received(size_t flat, size_t woven) {
    size_t colon = woven + 6;
    if (woven_.word(woven + 5) != "?") return false;
    while (colon < woven_.size() && !woven_.reads(colon, {":", "pp", "::", "received", "(", ")"})) ++colon;
    const std::string_view before = flat == 0 ? "" : flattened_.word(flat - 1), after = woven_.word(colon + 6);
    if (colon >= woven_.size() || (before != "=" && before != "(" && before != "{") ||
        (after != ";" && after != ")" && after != "}" && after != ","))
      return false;
    add(woven, woven + 6);
    add(colon, colon + 6);
    return true;
  }

  /// `x = value;` for `Tensor x = value;`, `auto x(value);` or `Tensor x{value};`.
  bool fed_declaration(size_t& flat, size_t& woven) {
    const std::string_view name = woven_.word(woven);
    size_t at = flat;
    while (flattened_.is_name(at) && flattened_.word(at) != name) at += flattened_.word(at + 1) == "::" ? 2 : 1;
    if (at == flat || flattened_.word(at) != name) return false;
    const size_t close = flattened_.closing(at + 1);
    if (flattened_.opens(at + 1) && close < flattened_.size())
      gone_[close] = true;
    else if (flattened_.word(at + 1) != "=")
      return false;
    fed_.erase(fed_.find(name));
    flat = at + 2;
    woven += 2;
    return true;
  }

  // ---- Declarations that weaving adds and removes ----

  bool declaration(size_t& flat, size_t& woven) {
    if (flattened_.word(flat) == "flattened" && flattened_.word(flat + 1) == "::" && woven_.word(woven) != "flattened")
      return flat += 2, true;
    const std::string_view previous = woven == 0 ? "" : woven_.word(woven - 1);
    if (flattened_.word(flat) == ":" && woven_.word(woven) == "{") {  // struct LlamaConfig : Config
      const size_t open = flattened_.find("{", flat, flattened_.size());
      if (!config_before(flat) || flattened_.word(open - 1) != "Config") return false;
      flat = open;
      return true;
    }
    if (previous != ";" && previous != "{" && previous != "}" && previous != ":" && !added_before(woven)) return false;
    return fields(flat, woven) || sharded_overload(flat, woven);
  }

  const Class* config_before(size_t flat) const {
    const Class* found = nullptr;
    for (const Class& owner : family_.classes)
      if (owner.where.begin < flattened_.begin(flat) && (!found || found->where.begin < owner.where.begin))
        found = &owner;
    return found && found->is_config ? found : nullptr;
  }

  /// `template <class Visitor> void fields(Visitor&& visit) { visit("size", size); }`, with all fields.
  bool fields(size_t flat, size_t woven) {
    if (!woven_.reads(woven, {"template", "<", "class", "Visitor", ">", "void", "fields", "(", "Visitor", "&&"}) ||
        flattened_.reads(flat, {"template", "<", "class", "Visitor", ">", "void", "fields"}))
      return false;
    const Class* config = config_before(flat);
    const std::string_view visit = woven_.word(woven + 10);
    size_t at = woven + 13;
    if (!config || !woven_.reads(woven + 11, {")", "{"})) return false;
    for (const Field& field : config->fields) {
      if (!woven_.reads(at, {visit, "(", "\"" + field.name + "\"", ",", field.name})) return false;
      at += 5;
      for (const auto& limit : {field.least, field.most}) {
        if (!limit) continue;
        if (!woven_.reads(at, {",", std::to_string(*limit)})) return false;
        at += 2;
      }
      if (!woven_.reads(at, {")", ";"})) return false;
      at += 2;
    }
    if (woven_.word(at) != "}") return false;
    add(woven, at + 1);
    return true;
  }

  /// A second overload of a method, after it, with the suffix `_on_shards`.
  bool sharded_overload(size_t flat, size_t woven) {
    if (sharded_overloads_.count(woven)) return false;  // already being compared
    size_t name = woven;
    while (name < woven_.size() && !woven_.word(name).ends_with(kOnShards) && !woven_.opens(name) &&
           woven_.word(name) != ";")
      ++name;
    if (!woven_.word(name).ends_with(kOnShards) || woven_.word(name + 1) != "(" ||
        flattened_.word(flat) == woven_.word(name))
      return false;
    const size_t open = woven_.find("{", name, woven_.size()), end = woven_.closing(open) + 1;
    const size_t first_open = woven_.opening(woven - 1), first = get_declaration(first_open);
    if (end > woven_.size() || first_open == woven_.size() || added_[first]) return false;
    sharded_overloads_.insert(woven);
    if (!compare(origin_[first], flat, woven, end)) return false;
    differs_at_ = flat;
    add(woven, end);
    return true;
  }

  const FamilyModel& family_;
  Tokens flattened_, woven_;
  std::vector<bool> gone_;              // tokens of the flattened text that weaving removed
  std::vector<bool> added_;             // tokens of the woven text that weaving added
  std::vector<size_t> origin_;          // position in the flattened text when the woven token was reached
  std::set<size_t> units_;              // name tokens of the methods that FSDP wrappers call
  std::set<size_t> sharded_overloads_;  // first tokens of second overloads
  std::set<std::string_view> entered_;  // variables with an entered copy for split layers
  std::set<std::string_view> fed_;      // variables that are declared before the first stage computes them
  size_t differs_at_ = 0;
};

}  // namespace

void check_woven(const FamilyModel& family, const std::string& woven, std::vector<Finding>& findings) {
  const std::optional<uint32_t> differs = Unweaver(family, woven).difference();
  if (!differs) return;
  findings.push_back({true,
                      {family.file, *differs, *differs},
                      "weaving changes more here than the inserted calls",
                      "this is a bug in modgen: please report it with this spec",
                      {}});
}

bool same_tokens(const std::string& a, const std::string& b) {
  const auto next = [](const Tokens& code, size_t& at) {
    std::string word(code.word(at++));
    // "one" "two" is one string.
    while (word.ends_with('"') && code.word(at).starts_with('"'))
      word = word.substr(0, word.size() - 1) + std::string(code.word(at++).substr(1));
    return word;
  };
  const Tokens first(a), second(b);
  size_t here = 0, there = 0;
  while (here < first.size() || there < second.size())
    if (next(first, here) != next(second, there)) return false;
  return true;
}

}  // namespace modgen
