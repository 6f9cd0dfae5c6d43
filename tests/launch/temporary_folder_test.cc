#include "runtime/launch/temporary_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace modular {
namespace {

TEST(TemporaryFolder, ErrorReportsThatTmpdirIsNotAFolder) {
  const char* const before = std::getenv("TMPDIR");
  setenv("TMPDIR", "/nonexistent", 1);
  std::string message;
  try {
    const TemporaryFolder folder("give --log-dir");
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  before ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR");
  EXPECT_EQ(message,
            "TMPDIR is \"/nonexistent\", which is not a folder, and temporary files go there: give --log-dir, or set "
            "TMPDIR to a folder");
}

}  // namespace
}  // namespace modular
