// State-dict mapping: how checkpoint files name and split parameters if that differs from the model. A config struct
// lists the mapping in a static function `stored_as()`; the names are those that transformers writes.
#pragma once

#include <string_view>
#include <vector>

namespace modular {

/// A parameter that files hold under another name or in pieces. If a parameter has several mappings, the first is used
/// for writing and all are used for reading.
struct StoredAs {
  std::string_view parameter;  // path in the module tree; "*" is one component, "**" at the end one or more
  /// The names in the file, with the same "*". "#" is an index along the parameter's first dimension, which the file's
  /// tensors then lack; several names are equal parts of the next dimension. "name[0/2]" is the first half of the
  /// file's tensor along its first dimension, for reading only.
  std::vector<std::string_view> names;
};

}  // namespace modular
