// The modgen executable. If the records show that every requested family is current, it exits within milliseconds,
// without Clang. Otherwise it runs modgen-generate, in the same folder.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checks/records.h"
#include "generator/build_config.h"
#include "generator/source/families.h"

namespace fs = std::filesystem;

namespace {

struct Request {
  std::string root = ".", output_dir, shipped;
  bool all = false;
  std::vector<std::string> families;
};

/// The request of a plain run; empty if the arguments ask for more than current files. --check and --force ignore
/// records.
std::optional<Request> plain_request(const std::vector<std::string>& arguments) {
  Request request;
  for (size_t index = 0; index < arguments.size(); ++index) {
    std::string_view argument = arguments[index];
    if (argument.substr(0, 1) != "-") {
      request.families.emplace_back(argument);
      continue;
    }
    argument.remove_prefix(argument.substr(0, 2) == "--" ? 2 : 1);
    const size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    if (name == "all" && equals == std::string_view::npos) {
      request.all = true;
      continue;
    }
    std::string* value = name == "root"         ? &request.root
                         : name == "output-dir" ? &request.output_dir
                         : name == "shipped"    ? &request.shipped
                                                : nullptr;
    if (!value) return std::nullopt;
    if (equals != std::string_view::npos)
      *value = argument.substr(equals + 1);
    else if (++index < arguments.size())
      *value = arguments[index];
    else
      return std::nullopt;
  }
  if (request.all != request.families.empty()) return std::nullopt;
  return request;
}

bool nothing_to_do(const Request& request) {
  modgen::TreeFiles files(
      {fs::canonical(request.root),
       fs::canonical(request.shipped.empty() ? modgen::shipped_tree(request.root) : fs::path(request.shipped))});
  const fs::path folder = request.output_dir.empty() ? files.tree().root / "generated" : fs::path(request.output_dir);
  const auto families = request.all ? modgen::families_in(files.tree().root) : request.families;
  for (const std::string& family : families)
    if (!modgen::is_current(files, family, folder)) return false;
  return !families.empty();
}

}  // namespace

int main(int, char** argv) {
  const fs::path generate = fs::read_symlink("/proc/self/exe").parent_path() / "modgen-generate";
  std::vector<std::string> arguments;
  for (char** argument = argv + 1; *argument; ++argument) arguments.emplace_back(*argument);
  try {
    if (const auto request = plain_request(arguments); request && nothing_to_do(*request)) return 0;
  } catch (const std::exception&) {
    // modgen-generate runs into the same problem and reports it.
  }
  execv(generate.c_str(), argv);
  std::cerr << "modgen: cannot start " << generate.string() << ", which should be installed next to it\n";
  return 2;
}
