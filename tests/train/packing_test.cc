// Several documents in a row: the loss equals that of the separate documents.
#include "runtime/data/token_dataset.h"

#include <gtest/gtest.h>

#include "generated/llama.h"
#include "runtime/data/model_inputs.h"
#include "runtime/train/preflight.h"
#include "tests/data/temporary_folder.h"
#include "tests/parallel/training_runs.h"

namespace modular {
namespace {

constexpr int64_t kSeqLen = 24, kEnd = 61;

const testing::Fields kOfGpt2 = {
    {"n_embd", int64_t{32}}, {"n_layer", int64_t{2}}, {"n_head", int64_t{4}}, {"n_positions", int64_t{64}}};

/// Documents of these lengths; each one but the last of a file ends with kEnd.
std::string get_text(const std::vector<int64_t>& lengths, bool ends) {
  std::string text;
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i + 1 < length; ++i)
      text += static_cast<char>(2 + (text.size() * text.size() + 3 * text.size()) % 58);
    text += static_cast<char>(ends ? kEnd : 7);
  }
  return text;
}

/// The parts of a row, cut after each kEnd and where files begin (`begins`).
std::vector<std::vector<int64_t>> get_documents(const std::vector<int64_t>& row, const std::vector<int64_t>& begins) {
  std::vector<std::vector<int64_t>> documents(1);
  for (size_t i = 0; i < row.size(); ++i) {
    const bool of_file = std::ranges::find(begins, static_cast<int64_t>(i)) != begins.end();
    if (!documents.back().empty() && (of_file || documents.back().back() == kEnd)) documents.emplace_back();
    documents.back().push_back(row[i]);
  }
  return documents;
}

StepResult evaluate(ParallelModel& model, const Batch& batch) { return model.evaluate(std::span(&batch, 1)); }

/// A Llama whose rotary frequencies depend on a document's length.
std::unique_ptr<AnyConfig> dynamic_llama() {
  auto config = testing::tiny_config(testing::get_entry("LlamaForCausalLM"), {{"max_position_embeddings", int64_t{6}}});
  auto& rope = dynamic_cast<ConfigOf<llama::LlamaConfig>&>(*config).value.rope_parameters;
  rope.rope_type = "dynamic", rope.factor = 4.0, rope.rope_theta = 100.0;
  return config;
}

class PackedRows : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedRows, HaveTheLossOfTheirSeparateDocuments) {
  const TemporaryFolder folder;
  const std::string first = get_text({5, 1, 7, 20, 2, 9}, true), second = get_text({17}, false),
                    third = get_text({35}, true);
  for (const auto& [name, text] : {std::pair("a", first), std::pair("b", second), std::pair("c", third)})
    folder.write(name, text);
  const std::string all = first + second + third;
  const bool is_dynamic = GetParam() == "dynamic";
  const Entry& entry = testing::get_entry(is_dynamic ? "LlamaForCausalLM" : GetParam());
  const auto config =
      is_dynamic ? dynamic_llama() : testing::tiny_config(entry, entry.family == "gpt2" ? kOfGpt2 : testing::Fields());
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelModel model(entry, *config, alone, {}, /*seed=*/11);

  const TokenDataset samples(TokenStream(find_data_files({.paths = {folder.path()}}).training), kSeqLen, 62, {}, 0,
                             Packing{.end_of_text = kEnd});
  ASSERT_EQ(samples.count(), 4);
  int64_t documents = 0;
  for (int64_t sample = 0; sample < samples.count(); ++sample) {
    const std::vector<SamplePosition> places = {{sample, 0}};
    Batch packed = samples.read(places, 1);
    const std::vector<int64_t> row(all.begin() + sample * kSeqLen, all.begin() + (sample + 1) * kSeqLen);
    std::vector<int64_t> begins;
    for (const auto file : {first.size(), first.size() + second.size()})
      begins.push_back(static_cast<int64_t>(file) - sample * kSeqLen);
    double expected = 0.0;
    int64_t targets = 0;
    for (const std::vector<int64_t>& document : get_documents(row, begins)) {
      ++documents;
      Batch one;
      one.input_ids = one.labels = at::tensor(document, at::kLong).unsqueeze(0);
      const auto result = evaluate(model, one);
      expected += result.loss * static_cast<double>(result.target_count);
      targets += result.target_count;
    }
    const auto result = evaluate(model, packed);
    EXPECT_EQ(result.target_count, targets);
    EXPECT_NEAR(result.loss * static_cast<double>(result.target_count), expected, 1e-5 * expected) << "row " << sample;

    if (get_documents(row, begins).size() == 1) continue;
    packed.documents = at::Tensor();
    EXPECT_GT(std::abs(evaluate(model, packed).loss * static_cast<double>(targets) - expected), 1e-3)
        << "row " << sample << ": the documents see each other";
  }
  EXPECT_EQ(documents, 11);
}

INSTANTIATE_TEST_SUITE_P(Families, PackedRows, ::testing::Values("LlamaForCausalLM", "GPT2LMHeadModel", "dynamic"),
                         [](const auto& info) { return info.param; });

TEST(PackedRows, HaveTheLossOfTheirSeparateDocumentsWithPositionsAfterPaddings) {
  const TemporaryFolder folder;
  const std::string text = get_text({5, 11, 8}, true);
  folder.write("a", text);
  const Entry& entry = testing::get_entry("RobertaForMaskedLM");
  ModelConfig network{.entry = &entry, .config = testing::tiny_config(entry)};
  ASSERT_EQ(first_position(network), 2);
  Mesh alone({}, {}, {.device = at::kCPU});
  ParallelModel model(entry, *network.config, alone, {}, /*seed=*/11);
  const TokenDataset samples(
      TokenStream(find_data_files({.paths = {folder.path()}}).training), kSeqLen, 62, Masking{0.5, 60}, 0,
      Packing{.end_of_text = kEnd, .first_position = first_position(network), .is_next_predicted = false});
  const std::vector<SamplePosition> places = {{0, 0}};
  Batch packed = samples.read(places, 1);
  double expected = 0.0;
  for (const auto& [begin, length] : {std::pair(0, 5), std::pair(5, 11), std::pair(16, 8)}) {
    Batch one;
    one.input_ids = packed.input_ids.narrow(1, begin, length);
    one.labels = packed.labels.narrow(1, begin, length);
    const auto result = evaluate(model, one);
    expected += result.loss * static_cast<double>(result.target_count);
  }
  const auto sum = [&] {
    const auto result = evaluate(model, packed);
    return result.loss * static_cast<double>(result.target_count);
  };
  EXPECT_GT(expected, 1.0);
  EXPECT_NEAR(sum(), expected, 1e-5 * expected);
  packed.position_ids = at::Tensor();
  EXPECT_GT(std::abs(sum() - expected), 1e-3);
}

TEST(Packing, LeavesLabelsOfMaskedTokensUnchanged) {
  const std::vector<int64_t> tokens = {1, kEnd, 2, 3, 4};
  std::vector<int64_t> documents(5), positions(5), labels = {1, -100, 2, -100, 4};
  pack(tokens, std::vector<int64_t>{4}, {.end_of_text = kEnd, .first_position = 2, .is_next_predicted = false},
       documents, positions, labels);
  EXPECT_EQ(documents, (std::vector<int64_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(positions, (std::vector<int64_t>{2, 3, 2, 3, 2}));
  EXPECT_EQ(labels, (std::vector<int64_t>{1, -100, 2, -100, 4}));
  pack(tokens, {}, {}, documents, positions, labels);
  EXPECT_EQ(documents, std::vector<int64_t>(5, 0)) << "no token ends one";
}

}  // namespace
}  // namespace modular
