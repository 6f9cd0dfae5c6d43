#include "runtime/launch/python_helper.h"

#include <cstdlib>
#include <sstream>

namespace modular {
namespace {

/// The entries of PYTHONPATH that are absolute: Python takes others, an empty one too, from the working directory.
std::string absolute_entries(const std::string& path) {
  std::istringstream entries(path);
  std::string kept;
  for (std::string entry; std::getline(entries, entry, ':');)
    if (entry.starts_with('/')) kept += (kept.empty() ? "" : ":") + entry;
  return kept;
}

}  // namespace

PythonCommand::PythonCommand(const std::string& python, const char* program)
    // Python before 3.11 does not know PYTHONSAFEPATH, and puts the working directory first. `sys` is built in.
    : words{python, "-c", std::string("import sys\nif sys.path[:1] == ['']: del sys.path[0]\n") + program},
      variables{"PYTHONSAFEPATH=1"} {
  if (const char* const path = std::getenv("PYTHONPATH")) variables.push_back("PYTHONPATH=" + absolute_entries(path));
}

}  // namespace modular
