#include "runtime/train/run_sample.h"

#include <exception>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/config/run_tokenizer.h"
#include "runtime/mesh/collectives.h"
#include "runtime/mesh/print.h"
#include "runtime/train/sampling.h"
#include "runtime/train/text_ids.h"

namespace modular {

std::optional<std::string> sample_of_run(ParallelModel& model, const RunConfig& config) {
  Mesh& mesh = model.mesh();
  if (config.sample.prompt.empty()) return {};
  std::optional<TextIds> texts;  // of rank 0, which has the run's tokenizer
  std::vector<int64_t> prompt, ends;
  if (mesh.rank() == 0) try {
      const std::filesystem::path tokenizer = tokenizer_of_run(config);
      if (!tokenizer.empty() || config.data.format == "bytes") {
        texts.emplace(tokenizer, config.sample.python);
        prompt = texts->prompt(config.sample.prompt, config.sample.chat);
        ends = texts->ends();
      }
    } catch (const std::exception& error) {  // the model is trained and saved all the same
      print_to(stdout, "no text is sampled: {}\n", error.what());
    }
  const std::string told = broadcast_text(mesh.control(), nlohmann::json({prompt, ends}).dump(), "the prompt");
  std::tie(prompt, ends) = nlohmann::json::parse(told).get<std::pair<std::vector<int64_t>, std::vector<int64_t>>>();
  if (prompt.empty()) return {};
  if (mesh.rank() == 0) print_to(stdout, "the model continues {:?}:\n", config.sample.prompt);
  const auto tokens =
      sample(model, {prompt}, config.sample, config.train.seq_len, static_cast<uint64_t>(config.train.seed), ends)
          .front();
  if (mesh.rank() != 0) return {};
  ContinuedText text(*texts, prompt);
  std::string written = config.sample.prompt + (config.sample.chat ? "\n" : "");
  for (const int64_t token : tokens) written += text.add(token);
  return written + text.rest();
}

}  // namespace modular
