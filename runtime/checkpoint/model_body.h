// Which tensors of a file are of the body of a model, rather than of a head or a pooler that its class does not have.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "runtime/checkpoint/model_config.h"

namespace modular {

/// The layers and embeddings of a model. Unless config.json names another class than the model's, every module that
/// holds a parameter of the model counts too: a bias that a head does not have would change what it computes.
class ModelBody {
 public:
  explicit ModelBody(const ModelConfig& model);

  /// Whether the tensor of that name, the model's or a file's, is of a layer or an embedding.
  bool holds(std::string_view name) const;

  /// Whether the file's tensor is of the body. Files may give layers other names than the model does: call add() first
  /// for all that the file and the model have in common.
  bool holds_in_file(const std::string& name) const;

  /// Notes that a file has the model's parameter `name` as `file_name`, or would have it so.
  void add(const std::string& name, const std::string& file_name);

 private:
  const Plan& plan_;
  bool is_of_another_class_;
  std::set<std::string> paths_;    // of layers and embeddings in the file, up to and with the dot
  std::set<std::string> modules_;  // that hold parameters of the model, in the file; empty for the root
};

}  // namespace modular
