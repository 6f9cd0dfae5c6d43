#include "generator/source/language.h"

#include <llvm/TargetParser/Triple.h>

#include <string>
#include <vector>

namespace modgen {

const clang::LangOptions& language_of_specs() {
  static const clang::LangOptions options = [] {
    clang::LangOptions result;
    std::vector<std::string> includes;
    clang::LangOptions::setLangDefaults(result, clang::Language::CXX, llvm::Triple(), includes,
                                        clang::LangStandard::lang_cxx20);
    return result;
  }();
  return options;
}

}  // namespace modgen
