// How checkpoint files name and cut parameters where that differs from the model. A config struct lists it in a static
// function `stored_as()`; names are those that transformers writes.
#pragma once

#include <string_view>
#include <vector>

namespace modular {

/// A parameter that files hold under another name or in pieces.
struct StoredAs {
  std::string_view parameter;  // path in the module tree; "*" is one component
  /// The file's names, with the same "*". "#" is an index along the parameter's first dimension, which the file's
  /// tensors then lack; several names are equal parts of the next dimension.
  std::vector<std::string_view> names;
};

}  // namespace modular
