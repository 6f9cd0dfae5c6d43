// How checkpoint files name and cut parameters where that differs from the model. A config struct lists it in a static
// function `stored_as()`; names are those that transformers writes.
#pragma once

#include <string_view>
#include <vector>

namespace modular {

/// A parameter that files hold under another name or in pieces. Of several for one parameter the first is what is
/// written; all are read.
struct StoredAs {
  std::string_view parameter;  // path in the module tree; "*" is one component, "**" at the end one or more
  /// The file's names, with the same "*". "#" is an index along the parameter's first dimension, which the file's
  /// tensors then lack; several names are equal parts of the next dimension. "name[0/2]" is the first half of the
  /// file's tensor, along its first dimension: files that are read may have it so.
  std::vector<std::string_view> names;
};

}  // namespace modular
