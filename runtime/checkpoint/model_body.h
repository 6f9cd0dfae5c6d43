// Which tensors of a file belong to the model's body, as opposed to a head or a pooler that its class does not have.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// The layers and embeddings of a model. Unless config.json names another class than the model's, every module that
/// holds a parameter of the model counts too: a bias that a head does not have would change its output.
class ModelBody {
 public:
  explicit ModelBody(const ModelConfig& model);

  /// Whether the tensor of that name, in the model or in a file, belongs to a layer or an embedding.
  bool holds(std::string_view name) const;

  /// Whether the file's tensor belongs to the body. Files may name layers differently: call add() first for everything
  /// that the file and the model have in common.
  bool holds_in_file(const std::string& name) const;

  /// Records that the file name of the model's parameter `name` is, or would be, `file_name`.
  void add(const std::string& name, const std::string& file_name);

 private:
  const Plan& plan_;
  bool is_of_another_class_;
  std::set<std::string> paths_;    // of layers and embeddings in the file, including the trailing dot
  std::set<std::string> modules_;  // modules in the file that hold parameters of the model; empty for the root
};

}  // namespace modular
