#include "runtime/checkpoint/sentence_transformers.h"

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/atomic_folder.h"
#include "runtime/checkpoint/config_json.h"
#include "runtime/model/tasks.h"

namespace modular {

void write_sentence_transformers(const ModelConfig& model, const std::filesystem::path& folder) {
  using nlohmann::json;
  const Task* const task = find_task(model.entry->task);
  if (!task || task->texts == 1) return;
  const json fields = fields_as_json(*model.config);
  const json width = fields.contains("hidden_size") ? fields["hidden_size"] : fields.value("d_model", json());
  const auto module = [](int number, const char* path, const char* type) {
    return json{{"idx", number},
                {"name", std::to_string(number)},
                {"path", path},
                {"type", std::string("sentence_transformers.models.") + type}};
  };
  std::filesystem::create_directories(folder / "1_Pooling");
  write_file(folder / "1_Pooling" / "config.json", json{{"word_embedding_dimension", width},
                                                        {"pooling_mode_cls_token", false},
                                                        {"pooling_mode_mean_tokens", true},
                                                        {"pooling_mode_max_tokens", false},
                                                        {"pooling_mode_mean_sqrt_len_tokens", false}}
                                                           .dump(2) +
                                                       "\n");
  write_file(folder / "modules.json",
             json::array({module(0, "", "Transformer"), module(1, "1_Pooling", "Pooling")}).dump(2) + "\n");
}

}  // namespace modular
