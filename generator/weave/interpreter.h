// The machine behind interpret.h: one entry's methods, run on shard types.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "generator/weave/interpret.h"

namespace modgen {

/// Which pipeline stages run what is being interpreted.
enum class Region { every_stage, first_stage, split_stage, last_stage };

struct Variable {
  Value value;
  uint64_t version = 0;  // another one whenever it may hold another value
};

using Environment = std::map<std::string, Variable>;

/// One call of a method.
struct Frame {
  const Function* function = nullptr;
  const ModuleNode* self = nullptr;  // null in a free function
  Environment variables;
  std::vector<std::map<std::string, std::optional<Variable>>> scopes;  // what each scope's declarations hide
  std::vector<Value> results;
  std::map<const Expr*, std::vector<Placement>> placements;
  std::vector<PassOn> pass_ons;
  bool ended = false;                  // no statement behind this one runs
  Value walked_value;                  // what the walk over the split list begins with, or what crosses between towers
  const Expr* walking_call = nullptr;  // a call in the current statement in which the model is cut
  StageReads reading;                  // of the current statement, where the model is cut between towers
  std::vector<StageReads> reads;       // of those before
  Environment fed;                     // behind the last statement that read what the first stage holds
};

class Interpreter {
 public:
  Interpreter(const FamilyModel& family, const ModuleNode& root, OpenSums& sums, Interpretation& interpretation,
              std::vector<Finding>& findings);

  void run_entry(const Function& forward);
  /// What running said of the operations.
  EntryPlan::Proof proof() const;
  /// Runs a method that no entry reaches, with arguments that are the same on every rank.
  void run_alone(const Function& method);

 private:
  // ---- interpret.cc: reports, placements, calls ----

  void report(SourceSpan where, std::string message, std::string advice);
  /// Notes for the proof that `expr` has its type by a rule, or because its operands are `alike` on every rank;
  /// `trusted` says what that rests on.
  void note(const Expr& expr, const std::string& operation, bool alike, const std::string& trusted);
  Value fail(SourceSpan where, std::string message, std::string advice);
  Value unproven(const Expr& expr, const Value& value, const std::string& what);
  void place(Call call, const Expr& expr, const Function* callee = nullptr);
  Value call(const Function& function, const ModuleNode* self, std::vector<Value> arguments, const Expr* at);
  /// Where the method that `frame` ran is cut between towers. What it reads of one of them is told to the caller, in
  /// which `at` calls it.
  std::optional<Walk> cut_between_towers(Frame& frame, Frame* caller, const Expr* at);
  /// Takes over what a call of a function found; every call of it has to find one of its two forms.
  void keep(Frame& frame, MethodFindings& found, bool first_time, const Expr* at);

  // ---- interpret_statements.cc ----

  void execute_body(const std::vector<Stmt>& statements, const std::optional<Walk>& walk);
  /// `statement` holds a call in which the model is cut.
  void hand_on(const Stmt& statement);
  void execute_block(const std::vector<Stmt>& statements);
  void end_scope();
  void declare(const std::string& name, Value value);
  void declare_names(const std::vector<std::string>& names, const Value& value, SourceSpan where);
  /// Counts a statement; true where there were so many that the rest is not run.
  bool gives_up(SourceSpan where);
  void execute(const Stmt& statement);
  Environment joined(const Environment& one, const Environment& other);
  void execute_branch(const Stmt& statement);
  void evaluate_condition(const Expr& condition);
  /// To a fixed point: types can only fall from "undefined" over a type to a mismatch, so a few rounds are enough.
  void execute_loop(const Stmt& statement);
  /// The loop variable of a range-for over `range`.
  Value element_of(const Expr& range);
  /// A returned value; one of the struct of outputs may be given as a list of its members.
  Value evaluate_result(const Expr& expr);
  /// What is put into member `name` of the outputs has to be whole.
  Value as_output(const std::string& name, const Expr& expr, const Value& value);

  // ---- interpret_members.cc: what expressions name ----

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
  std::string wrong_stage(const ModuleNode& node, Region owner) const;
  /// Whether a value of that C++ type is a module.
  bool names_module(const std::string& type) const;
  Value unknown_module(const Expr& expr);
  /// Whether `node` or a module inside of it is split over tp or cut into stages.
  bool is_split_inside(const ModuleNode& node) const;

  // ---- interpret_expressions.cc: what expressions do ----

  Value evaluate(const Expr& expr);
  std::pair<std::vector<const Expr*>, std::vector<Value>> evaluate_operands(const Expr& expr);
  Value apply(const std::string& name, const Expr& expr, std::vector<const Expr*> operands, std::vector<Value> values);
  /// Sums open values over tp where they stand; not operand 0 of what changes that in place.
  void close_sums(const Expr& expr, const std::vector<const Expr*>& operands, std::vector<Value>& values);
  /// What a call whose result is summed over tp gives: the sum, or this rank's part where what reads it sums.
  void open_sum(Operation& op, Value& result);
  /// Which sums a partial result adds up.
  void add_up(const Operation& op, Value& result);
  Value evaluate_call(const Expr& expr);
  Value evaluate_method(const Expr& expr);
  Value evaluate_module(const Expr& expr, const ModuleNode& node, std::vector<const Expr*> operands,
                        std::vector<Value> values);
  Value evaluate_operator(const Expr& expr);
  Value evaluate_assignment(const Expr& expr);
  /// Gives the target of an assignment its value. `source` is what was written for it, null for a change in place.
  void assign(const Expr& target, const Expr* source, const Value& value);
  /// Constructions, lists, casts, captures and everything that has no rule of its own.
  Value evaluate_other(const Expr& expr);

  const FamilyModel& family_;
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
  const Expr* walked_list_ = nullptr;     // the range of the range-for that is being entered
  Region region_ = Region::every_stage;
  uint64_t versions_ = 0;
  int depth_ = 0;
  int statements_ = 0;
  std::vector<std::pair<const Function*, const ModuleNode*>> active_;  // calls, outermost first
  bool has_pipeline_ = false;
  bool has_towers_ = false;
  bool is_entry_ = false;
  bool walked_ = false;
};

Value object_value();
Value module_value(const ModuleNode& node);
/// `=`, `+=`, …
bool is_assignment(const Expr& expr);

}  // namespace modgen
