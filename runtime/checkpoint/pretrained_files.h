// The tensors in the files of a Hugging Face folder, and how they map to a model's parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/model_config.h"
#include "runtime/checkpoint/stored_tensors.h"
#include "runtime/model/registry.h"

namespace modular {

// Mapping of a model's parameters to the tensors in transformers' files (names and splits).

/// parameter[offset, offset + shape), which a file holds as one tensor.
struct StateDictPiece {
  std::string name;                 // tensor name in the file
  std::vector<int64_t> offset;      // offset in the parameter
  std::vector<int64_t> shape;       // shape of the slice
  std::vector<int64_t> file_shape;  // shape of the file's tensor: `shape`, without the leading 1 of an indexed piece
  // Which of `parts` equal parts of the file's tensor this piece is, along its first dimension.
  int64_t part = 0, parts = 1;
};

/// The pieces of the parameter `name` of shape `shape` in `entry`'s files: disjoint, and together the full parameter.
/// One piece of the parameter's own name by default.
std::vector<StateDictPiece> state_dict_pieces(const Entry& entry, const std::string& name,
                                              const std::vector<int64_t>& shape);

/// The same for each layout that files of some release have; the current layout first.
std::vector<std::vector<StateDictPiece>> readable_pieces(const Entry& entry, const std::string& name,
                                                         const std::vector<int64_t>& shape);

// Which tensors of a file belong to the model's body, as opposed to a head or a pooler that its class does not have.

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

// Layers in files that the model does not have.

/// Layers that files hold after the model's last layer: DeepSeek-V3's multi-token prediction modules.
class FurtherLayers {
 public:
  explicit FurtherLayers(const ModelConfig& model);

  /// Whether the tensor of that name belongs to them.
  bool hold(std::string_view name) const;

 private:
  std::string path_;
  uint64_t first_ = 0, count_ = 0;
};

// The tensors in the files of a Hugging Face folder.

/// The tensors under their current names in transformers, including those of Sentence Transformers' dense layers if the
/// model has an EmbeddingHead; StoredSlice::key is the name in the file. Like transformers, prefers the single file if
/// there is also an index of shards. Throws std::runtime_error if there is neither, and says how to convert other
/// formats; `model` names the class.
StoredTensors open_pretrained_files(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace modular
