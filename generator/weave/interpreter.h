// The implementation of interpret.h: one entry's methods, run on shard types.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "generator/weave/interpret.h"

namespace modgen {

/// Which pipeline stages run what is being interpreted.
enum class Region { every_stage, first_stage, split_stage, last_stage };

struct Frame;

/// A variable, or a part of one.
struct Place {
  /// To a member where it has a name, else to an element; to any of them where its index is not known.
  struct Step {
    std::string member;
    std::optional<int64_t> index = std::nullopt;
  };
  Frame* frame = nullptr;
  uint32_t variable = 0;
  std::vector<Step> steps;
  bool through_reference = false;  // a member that is a reference leads to it: what that is bound to is not known
};

struct Variable {
  const std::string* name = nullptr;
  Value value;
  uint64_t version = 0;            // another one whenever it may hold another value
  std::optional<Place> refers_to;  // of a reference: its value is what is there
  bool is_foreign = false;         // a reference to what is not a variable
  bool is_captured = false;        // a lambda, an iterator or the like refers to it: it stays the same on every rank
  bool is_captured_by_lambda = false;
  bool is_referred = false;  // a reference is known by what it held when that was bound: it keeps its value
  bool is_static = false;
  bool was_moved = false;
};

/// By their numbers in the function; 0 is the object of a method whose class is not a module.
using Environment = std::map<uint32_t, Variable>;

/// What the variables of a call hold, and those of others that its references may change.
using State = std::vector<std::pair<Frame*, Environment>>;

/// What is left with `break` or gone on with by `continue`.
struct Enclosing {
  bool is_loop = true;  // else a switch
  std::vector<State> left, continued;
};

/// One call of a method.
struct Frame {
  const Function* function = nullptr;
  const ModuleNode* self = nullptr;  // null in a free function, and where the object is not a module
  Frame* caller = nullptr;
  const Expr* called = nullptr;  // the call in it; null of the first
  std::vector<Value> given;      // what it was called with
  uint32_t context = 0;          // the chain of calls that leads here
  Environment variables;
  std::vector<Frame*> reached;                          // whose variables references here may change
  std::vector<std::vector<uint32_t>> scopes;            // what each declares
  std::vector<Enclosing> enclosing;                     // loops and switches around what runs
  std::optional<std::set<uint32_t>> outside_of_lambda;  // while a lambda's body runs: the variables around it
  std::vector<Value> results;
  std::vector<State> returned;  // where a frame is reached: what it holds at each return
  std::map<const Expr*, std::vector<Placement>> placements;
  std::vector<PassOn> pass_ons;
  bool ended = false;                     // no statement after this one runs
  Value traversed_value, crossing;        // what the walk over the split list begins with, what crosses between towers
  const Expr* traversing_call = nullptr;  // a call in the current statement in which the model is cut
  StageReads reading;                     // of the current statement, where the model is cut between towers
  std::vector<StageReads> reads;          // of those before
  Environment fed;                        // after the last statement that read what the first stage holds
};

/// The functions of a family by what Clang resolved calls to.
class FunctionIndex {
 public:
  explicit FunctionIndex(const FamilyModel& family);
  const Function* find(const Callee& callee) const;
  /// The one method of `owner` that a call by that name and number of arguments can mean; null where there is none or
  /// more than one.
  static const Function* only_method(const Class& owner, std::string_view name, size_t arguments);

 private:
  std::unordered_map<std::string_view, const Function*> by_signature_;
};

class Interpreter {
 public:
  Interpreter(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root, OpenSums& sums,
              Interpretation& interpretation, std::vector<Finding>& findings);

  void run_entry(const Function& forward);
  /// What running said of the operations.
  EntryPlan::Proof proof() const;
  /// Runs a method that no entry reaches, with arguments that are the same on every rank.
  void run_alone(const Function& method);

 private:
  // ---- interpret.cc: reports, placements, calls ----

  void report(SourceSpan where, std::string message, std::string advice, std::vector<Finding> notes = {});
  /// Notes for the proof that `expr` has its type by a rule, or because its operands are `alike` on every rank;
  /// `trusted` says what that rests on.
  void note(const Expr& expr, const std::string& operation, bool alike, const std::string& trusted);
  Value fail(SourceSpan where, std::string message, std::string advice);
  Value unproven(const Expr& expr, const Value& value, const std::string& what);
  void place(Call call, const Expr& expr, const Function* callee = nullptr);
  /// Calls `function` with `values`, which `operands` say, if that is how they are given. Operands that are references
  /// are bound to what they name.
  Value call(const Function& function, const ModuleNode* self, const std::vector<const Expr*>& operands,
             std::vector<Value> values, const Expr* at);
  /// Calls a method of a class that is not a module, or its constructor, on `object`.
  Value call_on_object(const Function& function, const Expr* object, const std::vector<const Expr*>& operands,
                       std::vector<Value> values, const Expr& at);
  Value run(Frame& frame, const Expr* at);
  void bind_parameters(Frame& frame, const std::vector<const Expr*>& operands, std::vector<Value> values);
  /// Where the method that `frame` ran is cut between towers. What it reads of one of them is told to the caller, in
  /// which `at` calls it.
  std::optional<Traversal> cut_between_stacks(Frame& frame, Frame* caller, const Expr* at);
  /// Takes over what a call of a function found; every call of it has to find one of its two forms.
  void keep(Frame& frame, MethodFindings& found, bool first_time, const Expr* at);

  // ---- interpret_statements.cc ----

  /// `walk` is over the list of that tower.
  void execute_body(const std::vector<Stmt>& statements, const std::optional<Traversal>& walk, size_t tower);
  /// `statement` holds a call in which the model is cut.
  void hand_on(const Stmt& statement);
  void execute_block(const std::vector<Stmt>& statements);
  /// Executes a statement inside another one.
  void execute_inner(const Stmt& statement);
  void end_scope();
  Variable& declare(const std::string& name, uint32_t number, Value value);
  void declare(const Stmt& statement);
  void declare_names(const Stmt& statement, const Value& value, const std::optional<Place>& place);
  /// Counts a statement; true where there were so many that the rest is not run.
  bool gives_up(SourceSpan where);
  void execute(const Stmt& statement);
  void execute_return(const Stmt& statement);
  /// A returned value; one of the struct of outputs may be given as a list of its members.
  Value evaluate_result(const Expr& expr);
  /// What is put into member `name` of the outputs has to be whole.
  Value as_output(const std::string& name, const Expr& expr, const Value& value);

  // ---- interpret_flow.cc: branches and loops ----

  State state() const;
  void restore(State state);
  Environment joined(const Environment& one, const Environment& other);
  State joined(const State& one, const State& other);
  /// What holds where all of `states` meet.
  State joined(std::vector<State> states);
  void execute_branch(const Stmt& statement);
  void execute_choice(const Stmt& statement);
  void evaluate_condition(const Expr& condition);
  /// An operand that is evaluated on some ways only.
  Value evaluate_perhaps(const Expr& expr);
  void execute_loop(const Stmt& statement);
  /// Leaves the innermost loop or switch, or continues with the next round of the innermost loop.
  void jump(const Stmt& statement);
  /// The loop variable of a range-for over `range`.
  Value get_element(const Expr& range);

  // ---- interpret_members.cc: what expressions name ----

  Variable* find_variable(const Expr& expr);
  Value evaluate_local(const Expr& expr);
  Value evaluate_field(const Expr& expr);
  Value evaluate_child(const Expr& expr, const ModuleNode& child);
  Value evaluate_member(const Expr& expr, const Value& object_value);
  /// A field of `owner`'s class that holds no tensor and no module.
  Value evaluate_setting(const Expr& expr, const ModuleNode& owner);
  /// Checks that the parameters of `node` are there when `expr` is run.
  void read_parameters(const Expr& expr, const ModuleNode& node);
  /// Checks that `node` is there in every stage that runs `expr`; between towers notes that it is read.
  void check_stage(const Expr& expr, const ModuleNode& node);
  std::string wrong_stage(const ModuleNode& node, Region owner, Region running) const;
  /// Whether a value of that C++ type is a module.
  bool names_module(const std::string& type) const;
  Value unknown_module(const Expr& expr);
  /// Whether `node` or a module within it is split over tp or cut into stages.
  bool is_split_inside(const ModuleNode& node) const;

  // ---- interpret_writes.cc: references, assignments, changes in place ----

  /// The variable, or the part of one, that `expr` names; nothing where it names something else.
  std::optional<Place> get_location(const Expr& expr);
  Variable& find_root(const Place& place) const { return place.frame->variables[place.variable]; }
  Value read(const Place& place, const Expr& expr);
  void write(const Place& place, Value value, SourceSpan where);
  Value evaluate_assignment(const Expr& expr);
  /// Gives the target of an assignment its value. `source` is what was written for it, null where nothing was.
  void assign(const Expr& target, const Expr* source, const Value& value);
  /// `std::tie(a, b) = …`
  void assign_each(const Expr& targets, const Value& value);
  /// `expr` changes the tensor `target`, which was `before`, in place; it is `after` then.
  void change_in_place(const Expr& expr, const Expr& target, const Value& before, const Value& after);
  /// What hinders a change in place of `value`, which `target` names; empty where nothing does.
  std::string hindrance(const Expr& target, const Value& value) const;
  /// What an object of C++ type `type` was made from may be read through it from now on; where `keeps`, as it is now.
  void refer_to(const Expr& expr, std::string_view type, bool keeps);
  /// Whether an object of that C++ type may refer to others: an iterator, a pointer, a struct with references.
  bool may_refer(std::string_view type) const;
  /// What a function that is not followed may change: operands that it is bound to by references.
  void forget_changed(const Expr& expr, const std::vector<const Expr*>& operands, const std::vector<Value>& values);
  /// Says whose memory the result of an operation is, and that what it was computed from may be read again backward.
  void give_storage(const std::string& name, const Expr& expr, const std::vector<Value>& values, Value& result);

  // ---- interpret_expressions.cc: what expressions do ----

  Value evaluate(const Expr& expr);
  Value evaluate_kind(const Expr& expr);
  std::pair<std::vector<const Expr*>, std::vector<Value>> evaluate_operands(const Expr& expr);
  Value apply(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
              std::vector<Value> values);
  /// Says why a rule rejects `op`.
  Value rejected(const Operation& op);
  /// An operation without a rule: the same on every rank where its operands are.
  Value apply_unknown(const std::string& name, const Expr& expr, const std::vector<const Expr*>& operands,
                      const std::vector<Value>& values);
  /// Sums open values over tp where they stand; not operand 0 of what changes that in place.
  void close_sums(const Expr& expr, const std::vector<const Expr*>& operands, std::vector<Value>& values);
  /// What a call whose result is summed over tp gives: the sum, or this rank's part where what reads it sums.
  void open_sum(Operation& op, Value& result);
  /// Which sums a partial result adds up.
  void add_up(const Operation& op, Value& result);
  Value evaluate_call(const Expr& expr);
  /// Calls of the standard library that only hand values on; nothing where it is none of them.
  std::optional<Value> evaluate_forwarding(const Expr& expr);
  Value evaluate_method(const Expr& expr);
  Value evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                        std::vector<Value> values);
  Value evaluate_operator(const Expr& expr);
  Value evaluate_list(const Expr& expr);
  Value evaluate_lambda(const Expr& expr);
  /// Runs what a lambda may run at any time; whether nothing hinders that.
  bool run_lambda(const Expr& expr);
  /// Runs a function of which a pointer is taken, with arguments of which nothing is known.
  Value evaluate_function(const Expr& expr);
  /// Why objects of the family's class of that C++ type cannot be followed; empty where they can.
  std::string hindrance_of_class(std::string_view type) const;
  /// Constructions, casts and everything that has no rule of its own.
  Value evaluate_other(const Expr& expr);

  const FamilyModel& family_;
  const FunctionIndex& functions_;
  const ModuleNode& root_;
  OpenSums& sums_;
  Interpretation& interpretation_;
  std::vector<Finding>& findings_;
  struct Noted {
    std::string operation, trusted;
    bool alike = true;
  };
  std::map<const Expr*, Noted> noted_;
  std::set<const Function*> interpreted_;  // only asked for membership
  Frame* frame_ = nullptr;
  std::vector<const ModuleNode*> units_;  // whose forwards are running
  const Expr* traversed_list_ = nullptr;  // the range of the range-for that is being entered
  bool reaches_everywhere_ = false;       // what is named is PP_ALL, also where it lies in a PP_SPLIT list
  std::array<Region, 2> regions_{};       // of the stages that run the towers; the first, where there are none
  uint64_t versions_ = 0;
  std::map<std::tuple<uint32_t, const Expr*, const Function*>, uint32_t> contexts_;  // looked up, never walked
  std::map<std::pair<uint32_t, const Expr*>, uint32_t> allocations_;                 // likewise
  std::set<uint32_t> read_again_;  // memory from which something with a gradient was computed
  int statements_ = 0;
  std::vector<std::pair<const Function*, const ModuleNode*>> active_;  // calls, outermost first
  bool has_pipeline_ = false;
  Towers stacks_;
  bool is_entry_ = false;
  std::array<bool, 2> traversed_{};
  bool cut_ = false;
};

inline constexpr const char* kNoOwnCopies = "leave both to C++, and do what they do in a method that is called";

/// The module that `expr` names, a field of `self`, of a module that it holds, or an element's; null where it is
/// something else.
const ModuleNode* named_by(const ModuleNode& self, const Expr& expr);
Value object_value();
Value module_value(const ModuleNode& node);
}  // namespace modgen
