#include "runtime/mesh/libraries.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/support/without_proc.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

TEST(OwnProgram, IsTheRunningExecutable) { EXPECT_TRUE(fs::equivalent(own_program(), "/proc/self/exe")); }

TEST(OwnProgram, DISABLED_WithoutProc) { EXPECT_EQ(own_program(), fs::path(std::getenv("PROGRAM"))); }

TEST(OwnProgram, IsKnownWithoutProc) {
  const auto prefix = without_proc();
  if (!prefix) GTEST_SKIP() << "no mount namespaces here";
  EXPECT_TRUE(passes_without_proc(*prefix, "OwnProgram.DISABLED_WithoutProc"));
}

}  // namespace
}  // namespace modular
