// The implementation of interpret.h: the abstract interpreter for the methods of one entry.
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
#include "generator/weave/sequence.h"

namespace modgen {

/// The pipeline stages that run the code being interpreted.
enum class Region { every_stage, first_stage, split_stage, last_stage };

struct Frame;

/// A variable, or a part of one.
struct AccessPath {
  /// Step to a named member, or to an element if there is no name; to any element if the index is not known.
  struct Step {
    std::string member;
    std::optional<int64_t> index = std::nullopt;
  };
  Frame* frame = nullptr;
  uint32_t variable = 0;
  std::vector<Step> steps;
  bool through_reference = false;  // the path passes through a reference member, whose target is not known
};

struct Variable {
  const std::string* name = nullptr;
  Value value;
  uint64_t version = 0;                 // changes whenever the value may change
  std::optional<AccessPath> refers_to;  // target of a reference, which holds its value
  bool is_foreign = false;              // a reference to something other than a variable
  bool is_captured = false;             // a lambda, an iterator or the like refers to it: it has to stay invariant
  bool is_captured_by_lambda = false;
  bool is_referred = false;  // a reference recorded its value when it was bound: the variable must not change
  bool is_static = false;
  bool was_moved = false;
  bool is_local_count = false;  // `auto` gives it the type of what a TP_LOCAL count becomes, which does not change
};

/// Variables by their number in the function; 0 is the object of a method whose class is not a module.
using Environment = std::map<uint32_t, Variable>;

/// The variables of a frame and of the frames that its references may change.
using State = std::vector<std::pair<Frame*, Environment>>;

/// A loop or switch that encloses the current statement, with the states at its `break` and `continue` statements.
struct Enclosing {
  bool is_loop = true;  // else a switch
  std::vector<State> left, continued;
};

/// One call of a method.
struct Frame {
  const Function* function = nullptr;
  const ModuleNode* self = nullptr;  // null in a free function, and where the object is not a module
  Frame* caller = nullptr;
  const Expr* called = nullptr;  // the call expression in `caller`; null for the outermost frame
  std::vector<Value> given;      // argument values
  uint32_t context = 0;          // identifies the call chain that leads here
  Environment variables;
  std::vector<Frame*> reached;                          // frames whose variables references in this frame may change
  std::vector<std::vector<uint32_t>> scopes;            // variables that each scope declares
  std::vector<Enclosing> enclosing;                     // loops and switches around the current statement
  std::optional<std::set<uint32_t>> outside_of_lambda;  // while a lambda's body runs: the variables around it
  std::vector<Value> results;
  std::vector<State> returned;  // the state at each return, if other frames are reached
  std::map<const Expr*, std::vector<Placement>> placements;
  // In the reading of shares: the calls of tensor parallelism, and whether the method's overload for values that are
  // split over tp runs.
  const std::vector<Placement>* woven = nullptr;
  bool on_shards = false;
  std::vector<PassOn> pass_ons;
  bool ended = false;                     // the code after the current statement is unreachable
  Value traversed_value, crossing;        // value at the start of the layer loop, value that crosses between stacks
  const Expr* traversing_call = nullptr;  // a call in the current statement in which the model is cut
  StageReads reading;                     // reads of the current statement, if the model is cut between stacks
  std::vector<StageReads> reads;          // reads of the statements before it
  Environment fed;                        // variables after the last statement that read the first stage's modules
};

/// Index of a family's functions by the signature that Clang resolves calls to.
class FunctionIndex {
 public:
  explicit FunctionIndex(const FamilyModel& family);
  const Function* find(const Callee& callee) const;
  /// The only method of `owner` that a call with that name and number of arguments can mean; null if there is none or
  /// more than one.
  static const Function* only_method(const Class& owner, std::string_view name, size_t arguments);

 private:
  std::unordered_map<std::string_view, const Function*> by_signature_;
};

class Interpreter {
 public:
  Interpreter(const FamilyModel& family, const FunctionIndex& functions, const ModuleNode& root, OpenSums& sums,
              Interpretation& interpretation, std::vector<Finding>& findings, Axis axis = Axis::tp);

  void run_entry(const Function& forward);
  /// The proof: how the shard type of each interpreted operation was derived.
  EntryPlan::Proof proof() const;
  /// Runs a method that no entry reaches, with arguments that are the same on every rank.
  void run_alone(const Function& method);
  /// Runs an entry in a reading other than tp, which inserts nothing.
  Value read_entry(const Function& forward, const Value& batch);
  /// Whether an operation has met a value that is split in this reading.
  bool has_met_split() const { return has_met_split_; }
  /// Runs an entry in the reading of shares of positions (sequence.h).
  void read_shares(const Function& forward, const Value& batch, SequenceReading& sequence);

 private:
  friend class ShareOperation;  // interpret_share_operations.cc

  // ---- interpret.cc: reports, placements, calls ----

  void report(SourceSpan where, std::string message, std::string advice, std::vector<Finding> notes = {});
  /// Records for the proof that the type of `expr` follows from a rule, or from operands that are `alike` on every
  /// rank. `trusted` is the unchecked assumption that it depends on, or empty.
  void note(const Expr& expr, const std::string& operation, bool alike, const std::string& trusted);
  Value fail(SourceSpan where, std::string message, std::string advice);
  Value unproven(const Expr& expr, const Value& value, const std::string& what);
  /// Records that `call` has to be inserted around `expr`.
  void insert_call(Call call, const Expr& expr, const Function* callee = nullptr);
  /// Calls `function` with `values`. `operands` are the argument expressions, or empty; reference parameters are bound
  /// to the variables that they name.
  Value call(const Function& function, const ModuleNode* self, const std::vector<const Expr*>& operands,
             std::vector<Value> values, const Expr* at);
  /// Calls a method of a class that is not a module, or its constructor, on `object`.
  Value call_on_object(const Function& function, const Expr* object, const std::vector<const Expr*>& operands,
                       std::vector<Value> values, const Expr& at);
  Value run(Frame& frame, const Expr* at);
  Value join_results(const Frame& frame);
  void bind_parameters(Frame& frame, const std::vector<const Expr*>& operands, std::vector<Value> values);
  /// Sets a member in the constructor that the expression `at` calls.
  void initialize(const Initializer& initializer, const Expr* at);
  /// The cut between stacks in the method that `frame` ran. Records the method's stack reads in `caller`, whose
  /// expression `at` calls it.
  std::optional<Traversal> cut_between_stacks(Frame& frame, Frame* caller, const Expr* at);
  /// Merges the findings of one call of a function; every call has to match one of the function's two overloads.
  void merge_findings(Frame& frame, MethodFindings& found, bool first_time, const Expr* at);

  // ---- interpret_unknowns.cc: values that nothing is known about ----

  /// The value of a parameter whose argument is omitted.
  Value default_argument(const Parameter& parameter);
  /// Evaluates a default argument or the initializer of a constant, which the proof does not count as an operation.
  Value evaluate_elsewhere(const Expr& expr);
  /// Runs a function whose address is taken, with any arguments that are the same on every rank.
  Value evaluate_function(const Expr& expr);
  Value evaluate_global(const Expr& expr);
  /// Reports that `unknown` is used at `where`, where its type has to be known; `use` says how.
  Value reject_unknown(const Value& unknown, SourceSpan where, const std::string& use);
  /// The result of an operation of whose operands one is not known: it is not known either, and an error if another
  /// one differs between ranks. Empty if all are known.
  std::optional<Value> meet_unknown(const Expr& expr, const std::vector<const Expr*>& operands,
                                    const std::vector<Value>& values);
  /// Reports that a function that is not known may change what its operands refer to.
  Value fail_to_write_through(const Expr& expr);
  /// Calls a library function that is not known, or constructs an object of a class that is not known.
  Value apply_unlisted(const std::string& name, const Expr& expr, const std::vector<const Expr*>& operands,
                       const std::vector<Value>& values);

  // ---- interpret_statements.cc ----

  /// Executes a method body. `traversal` is its loop over the split list of stack `stack`, if it has one.
  void execute_body(const std::vector<Stmt>& statements, const std::optional<Traversal>& traversal, size_t stack);
  /// Records that `statement`, which contains a call in which the model is cut, passes on its result.
  void record_pass_on(const Stmt& statement);
  void execute_block(const std::vector<Stmt>& statements);
  /// Executes a nested statement.
  void execute_inner(const Stmt& statement);
  void end_scope();
  /// The name of a size that nothing is known about.
  Count new_size();
  /// Names the sizes of a tensor that are not known.
  void name_sizes(Value& value);
  Variable& declare(const std::string& name, uint32_t number, Value value);
  void declare(const Stmt& statement);
  /// Whether the number `expr`, a share, has the type of a TP_LOCAL count's local value in the generated file.
  bool is_local_count(const Expr& expr);
  void declare_names(const Stmt& statement, const Value& value, const std::optional<AccessPath>& path);
  /// Counts a statement. Returns true if the limit is reached, so the rest is not run.
  bool exceeds_limit(SourceSpan where);
  void execute(const Stmt& statement);
  void execute_return(const Stmt& statement);
  /// Evaluates a returned value; Outputs may be given as a list of its members.
  Value evaluate_result(const Expr& expr);
  /// Checks a value that is assigned to member `name` of Outputs: it has to be full. Inserts a gather for logits.
  Value as_output(const std::string& name, const Expr& expr, const Value& value);
  /// The same in a reading other than tp: losses and counts are sums over rows, and logits have the batch's rows.
  void check_output(const std::string& name, SourceSpan where, const Value& value);
  /// An object of that C++ type of which no member is set.
  Value empty_object(std::string_view type) const;

  // ---- interpret_flow.cc: branches and loops ----

  State state() const;
  void restore(State state);
  Environment joined(const Environment& one, const Environment& other);
  State joined(const State& one, const State& other);
  /// The state where all of `states` meet.
  State joined(std::vector<State> states);
  void execute_branch(const Stmt& statement);
  void execute_switch(const Stmt& statement);
  void evaluate_condition(const Expr& condition);
  /// Evaluates an operand that is evaluated on some paths only.
  Value evaluate_conditionally(const Expr& expr);
  void execute_loop(const Stmt& statement);
  /// Leaves the innermost loop or switch, or continues with the next iteration of the innermost loop.
  void jump(const Stmt& statement);
  /// The loop variable of a range-for over `range`.
  Value get_element(const Expr& range);

  // ---- interpret_members.cc: names ----

  /// The parameter or buffer `name` of the layer `node`; without a name, the one that `node` is.
  Value registered_tensor(const ModuleNode& node, std::string_view name, bool is_parameter,
                          std::optional<int64_t> rank) const;
  Variable* find_variable(const Expr& expr);
  Value evaluate_local(const Expr& expr);
  Value evaluate_field(const Expr& expr);
  Value evaluate_child(const Expr& expr, const ModuleNode& child);
  /// Reports that `owner` keeps a tensor or module in `field` that may be split under another name; empty if not.
  std::optional<Value> find_shared(const Expr& expr, const ModuleNode& owner, const Field& field);
  Value evaluate_member(const Expr& expr, const Value& object_value);
  /// Evaluates a field of `owner`'s class that holds neither a tensor nor a module.
  Value evaluate_plain_field(const Expr& expr, const ModuleNode& owner);
  /// Checks that the parameters of `node` are unsharded when `expr` runs.
  void read_parameters(const Expr& expr, const ModuleNode& node);
  /// Checks that every stage that runs `expr` holds `node`; with two stacks, records the read.
  void check_stage(const Expr& expr, const ModuleNode& node);
  /// Checks that a dropout layer outside of the PP_SPLIT list runs in one stage, which counts its calls.
  void check_dropout_stage(const Expr& expr, const ModuleNode& dropout);
  std::string wrong_stage(const ModuleNode& node, Region owner, Region running) const;
  /// Whether a value of that C++ type is a module.
  bool names_module(const std::string& type) const;
  Value unknown_module(const Expr& expr);
  /// Whether `node` or a descendant is split over tp or cut into stages.
  bool is_split_inside(const ModuleNode& node) const;

  // ---- interpret_writes.cc: references, assignments, in-place changes ----

  /// The variable, or part of one, that `expr` names; empty if it names something else.
  std::optional<AccessPath> get_access_path(const Expr& expr);
  Variable& find_root(const AccessPath& path) const { return path.frame->variables[path.variable]; }
  Value read(const AccessPath& path, const Expr& expr);
  void write(const AccessPath& path, Value value, SourceSpan where);
  Value evaluate_assignment(const Expr& expr);
  /// Assigns `value` to `target`. `source` is the expression of the value, or null if there is none.
  void assign(const Expr& target, const Expr* source, const Value& value);
  /// `x[0] = y` and `x.copy_(y)`, which copy into the tensor `target`.
  Value copy_into(const Expr& expr, const Expr& target, const Value& before, const Value& value);
  /// `std::tie(a, b) = …`
  void assign_each(const Expr& targets, const Value& value);
  /// Handles an in-place change of the tensor `target` by `expr`, from `before` to `after`.
  void change_in_place(const Expr& expr, const Expr& target, const Value& before, const Value& after);
  /// Why `value`, which `target` names, cannot be changed in place; empty if it can.
  std::string why_not_in_place(const Expr& target, const Value& value) const;
  /// Marks the variables that an object of C++ type `type`, constructed from `expr`, may refer to from now on. With
  /// `keeps`, the object recorded their current values, so they must not change.
  void refer_to(const Expr& expr, std::string_view type, bool keeps);
  /// Whether an object of that C++ type may refer to others: an iterator, a pointer, a struct with references.
  bool may_refer(std::string_view type) const;
  /// Forgets the values of operands that an opaque function may change through references. They are the same on every
  /// rank afterwards, or else `unknown`.
  void forget_changed(const Expr& expr, const std::vector<const Expr*>& operands, const std::vector<Value>& values,
                      const Value* unknown = nullptr);
  /// Sets the storage of an operation's result, and records that its operands may be read again in backward.
  void give_storage(const std::string& name, const Expr& expr, const std::vector<Value>& values, Value& result);

  // ---- interpret_operations.cc ----

  Value apply(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
              std::vector<Value> values);
  /// The same for values of which each is known.
  Value apply_known(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                    std::vector<Value> values);
  /// The same in a reading other than tp, where some of the `values` are not the same for all rows or positions.
  Value read_operation(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                       std::vector<Value> values);
  /// Reports random numbers for a value that is the same for all rows.
  Value fail_to_draw(const Expr& expr, const std::string& name);
  /// Reports that an entry for `task` does not compare rows.
  Value fail_to_compare(const Expr& expr, const std::string& task);
  /// Reports why a rule rejects `op`.
  Value report_rejection(const Operation& op);
  /// Applies an operation without a rule: if it is known, its result is the same on every rank if its operands are.
  Value apply_unknown(const std::string& name, const Expr& expr, const std::vector<const Expr*>& operands,
                      const std::vector<Value>& values);
  /// Inserts the sum over tp around operands with an open sum, except operand 0 of in-place operations.
  void close_sums(const Expr& expr, const std::vector<const Expr*>& operands, std::vector<Value>& values);
  /// Leaves the sum of a call's result open, so that `result` is partial, if the reader can do the sum.
  void open_sum(Operation& op, Value& result);
  /// Records the open sums that a partial result adds up.
  void add_up(const Operation& op, Value& result);

  // ---- interpret_shares.cc: values of which each tp rank has a part of the positions ----

  /// Applies an operation that may read shares (interpret_share_operations.cc). What has no rule for them reads them
  /// whole, or is an error.
  Value apply_to_shares(const std::string& name, Rule rule, const Expr& expr, std::vector<const Expr*> operands,
                        std::vector<Value> values);
  /// The calls of tensor parallelism around `expr`, whose value without them is `value`.
  Value take_calls(const Expr& expr, Value value);
  Value enter_split(const Expr& expr, Value value);
  Value leave_split(const Expr& expr, Value value, const ModuleNode* layer);
  /// Writes a call of sequence parallelism, or reports that the text would need two.
  bool write(const Expr& expr, SequencePlace::Kind kind, const SequenceCall& call);
  /// The number `value`, which `expr` gives, as a value of that C++ type. A fraction counts all positions: products
  /// with it are rounded.
  Value convert_number(const Expr& expr, Value value, std::string_view type);
  void use_parameters(SourceSpan where, const std::set<std::string>& parameters, bool is_partial);
  void use_layer(const Expr& expr, const ModuleNode& layer, bool is_partial);
  /// Calls a function of the same module with shares; with whole values, if it could not take shares.
  Value call_with_shares(const Function& function, const ModuleNode* self, const std::vector<const Expr*>& operands,
                         const std::vector<Value>& values, const Expr* at);
  /// Sets what `frame` runs: the function's calls, or those of its overload for split values.
  void find_woven(Frame& frame, const Expr* at) const;
  /// The value of `expr`, a conditional, of which one alternative may be a share and the other whole.
  Value join_alternatives(const Expr& expr, Value one, Value other);
  /// The value that the loop over layers carries becomes a share, and whole again.
  void enter_layers(const Frame& frame, const Traversal& traversal);
  void leave_layers(const Traversal& traversal);

  // ---- interpret_calls.cc: calls, layers and lambdas ----

  Value evaluate_call(const Expr& expr);
  /// Evaluates standard-library calls that only forward values, such as std::move; empty for any other call.
  std::optional<Value> evaluate_forwarding(const Expr& expr);
  Value evaluate_method(const Expr& expr);
  Value evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                        std::vector<Value> values);
  Value evaluate_lambda(const Expr& expr);
  /// Runs a lambda's body with unknown captures. Returns false if it reported an error. Sets `unknown` if nothing is
  /// known about its result.
  bool run_lambda(const Expr& expr, std::optional<Value>& unknown);

  // ---- interpret_expressions.cc ----

  Value evaluate(const Expr& expr);
  Value evaluate_kind(const Expr& expr);
  std::pair<std::vector<const Expr*>, std::vector<Value>> evaluate_operands(const Expr& expr);
  Value evaluate_operator(const Expr& expr);
  Value evaluate_list(const Expr& expr);
  /// Why objects of that C++ type, a class of the family, cannot be followed; empty if they can.
  std::string why_unsupported(std::string_view type) const;
  /// Evaluates constructions, casts and all other expressions.
  Value evaluate_other(const Expr& expr);

  const FamilyModel& family_;
  const FunctionIndex& functions_;
  const ModuleNode& root_;
  OpenSums& sums_;
  Interpretation& interpretation_;
  std::vector<Finding>& findings_;
  const Axis axis_;
  SequenceReading* sequence_ = nullptr;  // in the reading of shares
  bool has_met_split_ = false;
  struct Noted {
    std::string operation, trusted;
    bool alike = true;
  };
  std::map<const Expr*, Noted> noted_;
  bool counts_in_proof_ = true;
  std::set<std::string> local_counts_;        // config fields of the model's TP_LOCAL counts
  std::set<std::string> vocabularies_;        // sizes that may be split unevenly
  std::set<std::string> serving_, separate_;  // as in Operation
  std::set<const Function*> interpreted_;     // only tested for membership
  std::set<const Parameter*> defaults_;       // parameters whose defaults are being evaluated
  Frame* frame_ = nullptr;
  std::vector<const ModuleNode*> units_;          // units whose forward is running
  const Expr* traversed_list_ = nullptr;          // range of the range-for that is being entered
  bool reaches_everywhere_ = false;               // the current name is PP_ALL, even inside a PP_SPLIT list
  std::map<const ModuleNode*, Region> dropping_;  // where a dropout layer runs first; never iterated
  std::array<Region, 2> regions_{};               // current region of each stack; only the first is used without stacks
  uint64_t versions_ = 0;
  uint32_t named_sizes_ = 0;
  std::map<std::tuple<uint32_t, const Expr*, const Function*>, uint32_t> contexts_;  // never iterated
  std::map<std::pair<uint32_t, const Expr*>, uint32_t> allocations_;                 // never iterated
  std::map<const Field*, std::optional<SourceSpan>> shared_;                         // as found by find_shared
  std::set<uint32_t> saved_for_backward_;  // allocations that backward may read
  int statements_ = 0;
  std::vector<std::pair<const Function*, const ModuleNode*>> active_;  // calls, outermost first
  bool has_pipeline_ = false;
  Stacks stacks_;
  bool is_entry_ = false;
  std::array<bool, 2> traversed_{};
  bool cut_ = false;
};

/// Whether the call runs an FSDP unit's forward, which the runtime wraps.
bool runs_unit(const Frame& frame, const ModuleNode& root);

inline constexpr const char* kReferenceToCount =
    "a reference to a tp-local count, whose local value is computed at each use";
inline constexpr const char* kCopyCount = "copy the count, or name it where it is needed";
inline constexpr const char* kUseDefaultCopies = "use the defaults, and do the work in a method that the model calls";

/// The module that `expr` names: a field of `self` or of a descendant, or a list element; null for anything else.
const ModuleNode* find_named_module(const ModuleNode& self, const Expr& expr);
Value object_value();
/// The task of the entry `owner`; null if the contract does not know it, or `owner` is not an entry.
const KnownTask* find_task(const FamilyModel& family, const Class& owner);
/// The batch that an entry reads. In a reading other than tp, its tensors are split as the reading says.
Value batch_value(Axis axis, const KnownTask& task);
/// The value of a parameter for which any argument that is the same on every rank may be passed.
Value any_argument(const Parameter& parameter);
Value module_value(const ModuleNode& node);

inline Callee::Home get_home(const Expr& expr) { return expr.callee ? expr.callee->home : Callee::Home::unknown; }

inline std::vector<const Expr*> drop_first(const std::vector<const Expr*>& operands) {
  return {operands.begin() + 1, operands.end()};
}

}  // namespace modgen
