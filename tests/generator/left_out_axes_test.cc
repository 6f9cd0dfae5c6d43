// Specs that read other positions than those of a rank: no error, because the plan leaves the axis out that would
// divide them. The proof names the line.
#include <algorithm>

#include "tests/generator/weave_support.h"

namespace modgen {
namespace {

struct LeftOut {
  const char* name;
  const char* from;  // occurs once in the spec
  const char* to;
  const char* reason;          // part of the proof
  const char* line;            // part of its line
  const char* tree = nullptr;  // the golden tree whose alpha.h it changes; Llama if null
};

void PrintTo(const LeftOut& one, std::ostream* out) { *out << one.name; }

class LeftOutAxis : public testing::TestWithParam<LeftOut> {};

TEST_P(LeftOutAxis, HasItsLineInTheProof) {
  const LeftOut& one = GetParam();
  const std::string family = one.tree ? "alpha" : "llama";
  const std::string golden = MODULAR_SOURCE_DIR "/tests/generator/golden/";
  const std::string spec =
      with(one.tree ? read_file(golden + one.tree + "/modular/alpha.h") : llama_spec(), one.from, one.to);
  const GenerateResult result = generate_spec(family, spec);
  ASSERT_TRUE(result.ok()) << all_text(result.diagnostics);
  const auto line = 1 + std::count(spec.begin(), spec.begin() + static_cast<std::ptrdiff_t>(spec.find(one.line)), '\n');
  const std::string& proof = result.outputs.front().proof;
  const std::string place = "modular/" + family + ".h:" + std::to_string(line) + ":";
  const size_t reason = proof.find(one.reason);
  ASSERT_NE(reason, std::string::npos) << proof;
  EXPECT_NE(proof.substr(0, reason).find(place, proof.rfind('\n', reason)), std::string::npos) << proof;
}

const LeftOut kLeftOut[] = {
    {"LabelsShiftedWithinARank", "return cross_entropy_outputs(project(hidden_states), batch, next_tokens);",
     "const Tensor logits = project(hidden_states).slice(1, 0, -1), targets = batch.labels.slice(1, 1);\n    Outputs "
     "outputs;\n    outputs.loss_sum = cross_entropy(logits, targets);\n    outputs.token_count = "
     "count_targets(targets);\n    return outputs;",
     ": no context parallelism: slice over dimension 1, which is split by the positions", ".slice(1, 0, -1)"},
    {"StateOfARanksPositions", "return norm(hidden_states);", "return norm(hidden_states.cumsum(1));",
     ": no context parallelism: cumsum over dimension 1, which is split by the positions", "hidden_states.cumsum(1)"},
    // Rows are numbered sequence after sequence, and a rank has some positions of each.
    {"RowsOfAllSequencesNumbered", "return visible + experts(visible) * (gain + 1.0);",
     "const Tensor rows = experts(visible).view({visible.size(0) * visible.size(1), -1});\n    return visible + "
     "(rows * padding.view({visible.size(0) * visible.size(1), 1})).view({visible.size(0), visible.size(1), -1});",
     ": no sequence parallelism: a value whose positions are not known, next to", "(rows * padding.view(",
     "parts_of_the_positions"},
    {"CountOfPositionsChanged", "const double length = static_cast<double>(seq);",
     "int64_t half = seq;\n    half /= 2;\n    const double length = static_cast<double>(half);",
     ": no sequence parallelism: a rank's number of positions would have to be converted here", "half /= 2;",
     "parameters_on_parts"},
    {"SizeOfAllPositionsInOneCall", "return norm(hidden_states);", "return norm(averaged(hidden_states));",
     ": no sequence parallelism: a number of positions is whole in one call of this method", "x * (1.0 / x.size(1))",
     "parameters_on_parts"},
    // Of a tensor that has two names, one would have the gradient of a rank's positions, and the other the full one.
    {"TiedParameterOfAllPositions", "x * last_gain", "x.cumsum(1) * last_gain",
     ": no sequence parallelism: the gradient of model.layers.*.last_gain, which is tied to model.layers.*.gain, is a",
     "x.cumsum(1) * last_gain", "parameters_on_parts"},
    {"ParameterInATuple", "x * last_gain", "x * last_gain + x * std::get<0>(gain.max(0)).view({1, 1, 1})",
     ": no sequence parallelism: the gradient of model.layers.*.gain is a sum over a rank's positions here or "
     "elsewhere",
     "std::get<0>(gain.max(0))", "parameters_on_parts"},
    {"ParameterInAContainer", "const Tensor last = x * last_gain;",
     "std::vector<Tensor> all;\n    all.push_back(gain);\n    const Tensor last = x * last_gain + x * all[0].view({1, "
     "1, "
     "-1});",
     ": no sequence parallelism: the gradient of model.layers.*.gain is a sum over a rank's positions here or "
     "elsewhere",
     "x * all[0].view(", "parameters_on_parts"},
    {"ParameterInAPieceOfAllPositions", "x * weights", "x * weights + (x.cumsum(1) * piece.sum())",
     ": no sequence parallelism: the gradient of model.layers.*.piece is a sum over a rank's positions here or "
     "elsewhere",
     "(x.cumsum(1) * piece.sum())", "parameters_on_parts"},
};

INSTANTIATE_TEST_SUITE_P(Positions, LeftOutAxis, testing::ValuesIn(kLeftOut),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace modgen
