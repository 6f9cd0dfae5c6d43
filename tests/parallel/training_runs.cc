#include "tests/parallel/training_runs.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <c10/util/ConstexprCrc.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/mesh/collectives.h"
#include "runtime/model/tasks.h"
#include "runtime/optim/optimizer.h"

namespace modular::testing {
namespace {

template <class T>
constexpr bool takes_numbers = std::is_arithmetic_v<T>;
template <class T>
constexpr bool takes_numbers<std::optional<T>> = std::is_arithmetic_v<T>;

FieldVisitor make_setter(const Fields& fields) {
  return FieldVisitor([&fields](std::string_view name, const ConfigValue& field) {
    if (const auto* inner = std::get_if<NestedConfig*>(&field)) return (*inner)->fields(make_setter(fields));
    const auto found = fields.find(name);
    if (found == fields.end()) return;
    std::visit(
        [](auto* value, const auto& given) {
          using Value = std::remove_pointer_t<decltype(value)>;
          using Given = std::remove_cvref_t<decltype(given)>;
          constexpr bool both_numbers = takes_numbers<Value> && takes_numbers<Given>;
          if constexpr (both_numbers || (std::is_same_v<Value, std::string> && std::is_same_v<Given, std::string>))
            *value = given;
        },
        field, found->second);
  });
}

constexpr int64_t kRows = 24, kVocab = 62;
constexpr int64_t kImageToken = 61, kPatches = 9;  // LLaVA's, of images of 12 x 12
constexpr size_t kSums = 16;
constexpr double kCosineScale = 14.3;  // scale of cosine logits: a small logit has the rounding error of a large one

/// Rows of a batch, and the labels of their samples.
Batch rows(const Batch& batch, int64_t first, int64_t count) {
  Batch part = batch;
  part.tensors([&](at::Tensor& tensor) {
    if (tensor.defined()) tensor = tensor.narrow(0, first * tensor.size(0) / kRows, count * tensor.size(0) / kRows);
  });
  return part;
}

/// Fingerprints of the full model: for each of kSums sets of parameters, the sum of their elements times pseudo-random
/// factors derived from the parameter's name. Sums that are equal up to rounding imply equal parameters.
std::vector<double> sums_of_parameters(ParallelModel& model) {
  at::Tensor sums = at::zeros({static_cast<int64_t>(kSums)}, at::kDouble);
  std::vector<ShardedParameter> all = model.parameters();
  all.insert(all.end(), model.buffers().begin(), model.buffers().end());
  for (const ShardedParameter& parameter : all) {
    const uint64_t hash = c10::util::crc64(parameter.name).checksum();
    const at::Tensor weights =
        at::randn(parameter.global_shape, at::detail::createCPUGenerator(hash), at::TensorOptions().dtype(at::kDouble));
    for (const ParameterSlice& slice : parameter.slices)
      if (slice.owner)
        sums[static_cast<int64_t>(hash % kSums)] +=
            (slice.in_local(parameter.local).cpu() * slice.in_global(weights)).sum();
  }
  all_reduce(model.mesh().control(), sums, "the sums of the parameters").wait();
  return {sums.data_ptr<double>(), sums.data_ptr<double>() + sums.numel()};
}

}  // namespace

const Fields kSmallT5 = {{"d_model", int64_t{36}},
                         {"d_kv", int64_t{8}},
                         {"d_ff", int64_t{50}},
                         {"num_layers", int64_t{3}},
                         {"num_heads", int64_t{4}},
                         {"num_decoder_layers", int64_t{2}},
                         {"relative_attention_num_buckets", int64_t{8}},
                         {"relative_attention_max_distance", int64_t{20}},
                         {"initializer_factor", 0.5},
                         // ReLU has a kink, where rounding decides the gradient.
                         {"feed_forward_proj", "gelu"}};

const Entry& get_entry(const std::string& architecture) {
  const auto found = std::ranges::find(entries(), architecture, &Entry::architecture);
  TORCH_CHECK(found != entries().end(), "this test program has no ", architecture);
  return *found;
}

std::unique_ptr<AnyConfig> tiny_config(const Entry& entry, const Fields& changed) {
  Fields fields = {{"vocab_size", int64_t{62}},
                   {"hidden_size", int64_t{36}},
                   {"intermediate_size", int64_t{50}},
                   {"num_hidden_layers", int64_t{4}},
                   {"num_attention_heads", int64_t{4}},
                   {"num_key_value_heads", int64_t{2}},
                   {"head_dim", int64_t{8}},
                   {"sliding_window", int64_t{5}},
                   {"initializer_range", 0.1},
                   {"max_position_embeddings", int64_t{64}}};
  for (const auto& [name, value] : changed) fields[name] = value;
  auto config = entry.make_config();
  config->fields(make_setter(fields));
  config->finish();
  return config;
}

Batch global_batch(const Entry& entry, size_t step, int64_t vocabulary, int64_t sequence) {
  at::Generator generator = at::detail::createCPUGenerator(1000 + step);
  Batch batch;
  batch.samples = at::arange(kRows, at::kLong) + static_cast<int64_t>(step) * kRows;
  const Task& task = *find_task(entry.task);
  if (task.reads != Task::Reads::tokens) {
    batch.pixel_values = at::randn({kRows, 3, 12, 12}, generator);
  }
  if (batch.pixel_values.defined() && task.labels == Task::Labels::each_row) {
    batch.labels = at::randint(0, 5, {kRows}, generator, at::kLong);
    batch.labels[kRows - 1] = kIgnoredTarget;
    if (task.reads == Task::Reads::images) return batch;
    batch.input_ids = at::randint(0, kVocab, {kRows, sequence}, generator, at::kLong);
    return batch;
  }
  batch.input_ids = at::randint(0, kVocab, {kRows, sequence}, generator, at::kLong).remainder(vocabulary);
  if (batch.pixel_values.defined()) {  // an image's placeholders, which begin at different positions in each row
    batch.input_ids.clamp_max_(kImageToken - 1);
    for (int64_t row = 0; row < kRows; ++row)
      batch.input_ids[row].narrow(0, row % (sequence - kPatches), kPatches).fill_(kImageToken);
  }
  // The padding token's embedding is 0, where each of Gemma 2's norms multiplies a gradient by 1 / sqrt(eps). For a row
  // that begins with padding the gradient overflows, also in transformers.
  if (entry.family == "gemma2") batch.input_ids.clamp_(/*min=*/1);
  const at::Tensor is_target = at::rand({kRows, sequence}, generator).lt(0.7);
  batch.attention_mask = at::ones({kRows, sequence}, at::kLong);
  batch.attention_mask.select(0, kRows - 1).slice(0, sequence - 3).zero_();
  batch.labels = batch.input_ids.where(is_target.logical_and(batch.attention_mask.to(at::kBool)),
                                       at::full({}, kIgnoredTarget, at::kLong));
  if (task.labels == Task::Labels::each_row) {
    const int64_t samples = kRows / std::max<int64_t>(task.texts, 1);
    batch.labels = at::randint(0, 3, {samples}, generator, at::kLong);
    batch.labels[samples - 1] = kIgnoredTarget;
  } else if (task.label_count == "num_labels") {
    batch.labels = batch.labels.remainder(2).where(batch.labels.ne(kIgnoredTarget), batch.labels);
  }
  return batch;
}

Report train(Mesh& mesh, const Entry& entry, const Variant& variant) {
  at::set_num_threads(1);
  const auto config = tiny_config(entry, variant.fields);
  ParallelModel model(entry, *config, mesh, variant.options, /*seed=*/11);
  // With an eps as small as Adam's default, gradients that are 0 up to rounding would move parameters like other
  // gradients.
  Optimizer optimizer(model.parameters(), {.name = variant.optimizer, .eps = 1e-5}, mesh);

  const int64_t ranks = mesh.size(kRowAxes), rank = mesh.coordinate(kRowAxes);
  const int64_t count = kRows / ranks / variant.micro_batches;
  const auto own_rows = [&](const Batch& full) {
    std::vector<Batch> micro_batches;
    for (int64_t i = 0; i < variant.micro_batches; ++i)
      micro_batches.push_back(
          rows(full, (variant.compares_rows ? i * ranks + rank : rank * variant.micro_batches + i) * count, count));
    return micro_batches;
  };
  const auto size = variant.fields.find("vocab_size");
  const auto batch = [&](size_t step) {
    Batch full = global_batch(entry, step, size == variant.fields.end() ? kVocab : std::get<int64_t>(size->second),
                              variant.sequence);
    if (variant.left_padding) full.attention_mask = full.attention_mask.flip({1});
    // Documents of 5 and 7 tokens, which begin at different positions in each row.
    if (variant.documents)
      full.documents =
          (at::arange(variant.sequence) + at::arange(kRows).unsqueeze(1)).remainder(12).ge(5).to(at::kLong);
    if (variant.packed) {
      at::Generator generator = at::detail::createCPUGenerator(2000 + step);
      const at::Tensor lengths = at::arange(kRows).remainder(5).mul(8).add(4).unsqueeze(1);
      full.documents = at::rand({kRows, variant.sequence}, generator).mul(lengths).lt(1).to(at::kLong).cumsum(1);
      const at::Tensor place = at::arange(variant.sequence);
      const at::Tensor begins = full.documents.diff(1, 1, at::full({kRows, 1}, -1)).ne(0);
      full.position_ids = place - std::get<0>(begins.mul(place).cummax(1));
    }
    return full;
  };
  Report report;
  for (size_t step = 0; step < variant.steps; ++step) {
    const LaunchedStep launched = model.launch_step(own_rows(batch(step)), static_cast<int64_t>(step));
    const GradientNorm gradient = find_gradient_norm(model.parameters(), mesh, launched.loss());
    optimizer.step(/*lr=*/1e-3, clipping_to(/*max_norm=*/1.0, gradient));
    model.parameters_changed();
    const StepResult result = model.finish_step(launched);
    report.push_back(result.loss + result.router_loss + result.expert_load);
    report.push_back(gradient.norm.item<double>());
    model.move_router_biases();
  }
  report.push_back(model.evaluate(own_rows(batch(variant.steps))).loss);
  // Magnitude of the logits of one sample, which every rank computes.
  const int64_t texts = std::max<int64_t>(find_task(entry.task)->texts, 1);
  report.push_back(model.logits(rows(batch(variant.steps), 0, texts)).square().mean().sqrt().item<double>());
  for (const double sum : sums_of_parameters(model)) report.push_back(sum);
  return report;
}

void expect_same_training(const std::string& architecture, const MeshShape& shape, const std::vector<Variant>& variants,
                          double tolerance) {
  const Entry& entry = get_entry(architecture);
  const auto reports = run_ranks(static_cast<int>(shape.ranks()), [&](const Environment& environment) {
    Mesh mesh(environment, shape, {.device = at::kCPU});
    Report all;
    for (const Variant& variant : variants) {
      const Report report = train(mesh, entry, variant);
      all.insert(all.end(), report.begin(), report.end());
    }
    return all;
  });

  Mesh alone({}, {}, {.device = at::kCPU});
  size_t begin = 0;  // of the variant's numbers in the reports
  for (const Variant& variant : variants) {
    SCOPED_TRACE(architecture + ", " + shape.describe() + ", " + variant.name);
    Variant reference = {.name = "reference",
                         .fields = variant.fields,
                         .options = {.bf16 = variant.options.bf16,
                                     .trained = variant.options.trained,
                                     .router = variant.options.router,
                                     .sampled_softmax = variant.options.sampled_softmax},
                         .optimizer = variant.optimizer,
                         .documents = variant.documents,
                         .packed = variant.packed,
                         .left_padding = variant.left_padding,
                         .sequence = variant.sequence,
                         .steps = variant.steps,
                         .compares_rows = variant.compares_rows};
    // Rows are compared with those of the same micro-batch on other ranks.
    if (variant.compares_rows) reference.micro_batches = variant.micro_batches;
    // Every micro-batch rounds its gradients, so the single process needs the same micro-batches.
    if (variant.options.bf16) reference.micro_batches = variant.micro_batches * shape.ranks(kRowAxes);
    const Report expected = train(alone, entry, reference);
    std::vector<Report> found;
    for (const Report& report : reports) {
      ASSERT_GE(report.size(), begin + expected.size());
      const auto first = report.begin() + static_cast<std::ptrdiff_t>(begin);
      found.emplace_back(first, first + static_cast<std::ptrdiff_t>(expected.size()));
    }
    begin += expected.size();
    for (const Report& report : found) {
      for (size_t step = 0; step < variant.steps; ++step) {
        ASSERT_NEAR(report[2 * step], expected[2 * step], tolerance * expected[2 * step]) << "loss of step " << step;
        ASSERT_NEAR(report[2 * step + 1], expected[2 * step + 1], tolerance * expected[2 * step + 1])
            << "gradient norm of step " << step;
      }
      const size_t evaluation = 2 * variant.steps, logits = evaluation + 1;
      ASSERT_NEAR(report[evaluation], expected[evaluation], tolerance * expected[evaluation]) << "evaluation";
      const double logit_size = variant.compares_rows ? kCosineScale : expected[logits];
      ASSERT_NEAR(report[logits], expected[logits], tolerance * logit_size) << "logits";
      double scale = 0.0;
      for (size_t sum = 2 * variant.steps + 2; sum < expected.size(); ++sum)
        scale = std::max(scale, std::abs(expected[sum]));
      for (size_t sum = 2 * variant.steps + 2; sum < expected.size(); ++sum)
        ASSERT_NEAR(report[sum], expected[sum], 10 * tolerance * scale) << "parameters after training";
    }
  }
  for (const Report& report : reports) ASSERT_EQ(report.size(), begin) << "numbers of no variant";
}

}  // namespace modular::testing
