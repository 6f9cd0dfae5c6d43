// Tests of what a program does where /proc is not mounted, as in some containers.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace modular {

/// The beginning of a command that sees an empty /proc; nothing where mount namespaces are not allowed.
inline std::optional<std::string> without_proc() {
  const std::string prefix = "unshare --mount --map-root-user sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh ";
  if (std::system((prefix + "true 2>/dev/null").c_str()) == 0) return prefix;
  return std::nullopt;
}

/// Runs a disabled test of this program in such a place. True where it has passed.
inline bool passes_without_proc(const std::string& prefix, const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      "PROGRAM=" + program + " " + prefix + program + " --gtest_also_run_disabled_tests --gtest_filter=" + test;
  return std::system(command.c_str()) == 0;
}

}  // namespace modular
