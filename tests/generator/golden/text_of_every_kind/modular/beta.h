// Comments in every place, raw strings, text beyond ASCII, and macros whose arguments are renamed: café.
#pragma once

#include "modular/alpha.h"

namespace modular::beta {
MODULAR_FAMILY(Beta);

class BetaTextImpl : public alpha::AlphaTextImpl {
 public:
  // β's own comment.
  std::string pattern() { return alpha::kAlphaPattern; }
};
TORCH_MODULE(BetaText);

}  // namespace modular::beta
