#include "generator/weave/rules/rules.h"

#include <algorithm>
#include <array>

namespace modgen {

bool allocates(std::string_view operation) {
  static constexpr std::array names = {"op +",         "op -",
                                       "op *",         "op /",
                                       "op ==",        "op !=",
                                       "op <",         "op >",
                                       "op <=",        "op >=",
                                       "add",          ".add",
                                       "sub",          ".sub",
                                       "mul",          ".mul",
                                       "div",          ".div",
                                       "neg",          ".neg",
                                       "matmul",       ".matmul",
                                       "bmm",          ".bmm",
                                       "addmm",        "linear",
                                       "cat",          "stack",
                                       "zeros",        "ones",
                                       "full",         "empty",
                                       "arange",       "rand",
                                       "randn",        "zeros_like",
                                       "ones_like",    "full_like",
                                       "empty_like",   "rand_like",
                                       "randn_like",   ".clone",
                                       "where",        ".where",
                                       ".masked_fill", ".sum",
                                       "sum",          ".mean",
                                       "mean",         ".cumsum",
                                       "cumsum",       ".pow",
                                       "pow",          ".index_select",
                                       ".gather",      "gather",
                                       "one_hot",      "embedding",
                                       "linear layer", "embedding layer",
                                       "tp_colwise",   "tp_vocab linear",
                                       ".eq",          ".ne",
                                       ".lt",          ".gt",
                                       ".le",          ".ge"};
  return std::ranges::find(names, operation) != names.end();
}

bool is_view_or_query(std::string_view operation) {
  static constexpr std::array names = {".view",
                                       ".reshape",
                                       ".expand",
                                       ".transpose",
                                       ".t",
                                       ".permute",
                                       ".flatten",
                                       ".unflatten",
                                       ".unsqueeze",
                                       ".squeeze",
                                       ".select",
                                       ".slice",
                                       ".narrow",
                                       ".chunk",
                                       ".split",
                                       ".split_with_sizes",
                                       ".unbind",
                                       ".view_as",
                                       ".expand_as",
                                       ".detach",
                                       ".contiguous",
                                       ".size",
                                       ".sizes",
                                       ".dim",
                                       ".numel",
                                       ".defined",
                                       ".device",
                                       ".dtype",
                                       ".scalar_type",
                                       ".options",
                                       ".is_floating_point",
                                       ".requires_grad",
                                       "op []"};
  return std::ranges::find(names, operation) != names.end();
}

}  // namespace modgen
