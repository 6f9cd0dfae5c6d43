// Helpers in Python import nothing from the working directory, which others may have written.
#include "runtime/launch/python_helper.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// Answers a line with where modules are from; a module that it does not find is null.
constexpr const char* kProgram = R"python(
"""A helper."""
import json
import subprocess
import sys

for line in sys.stdin:
    try:
        import helpful
    except ImportError:
        helpful = None
    child = subprocess.run([sys.executable, "-c", "import json; print(json.__file__)"], capture_output=True, text=True, check=True)
    print(json.dumps({"json": json.__file__, "helpful": helpful and helpful.__file__, "of_child": child.stdout.strip()}), flush=True)
)python";

class PythonHelpers : public testing::Test {
 protected:
  PythonHelpers() {
    for (const char* module : {"json", "subprocess", "encodings", "sitecustomize"})
      folder_.write(std::string("work/") + module + ".py", "open('executed', 'w')\n");
    folder_.write("packages/helpful.py", "");
    fs::current_path(folder_.path() / "work");
  }
  ~PythonHelpers() override {
    unsetenv("PYTHONPATH");
    fs::current_path(before_);
  }

  nlohmann::json answer() const { return PythonHelper(PYTHON, kProgram).ask(nlohmann::json::object()); }

  const fs::path before_ = fs::current_path();
  const TemporaryFolder folder_;
};

TEST_F(PythonHelpers, DoNotImportFromTheWorkingDirectory) {
  const std::string packages = (folder_.path() / "packages").string();
  const nlohmann::json found = answer();
  EXPECT_TRUE(found["helpful"].is_null());
  for (const std::string& path : {":" + packages, packages + ":", ".:" + packages}) {
    setenv("PYTHONPATH", path.c_str(), /*overwrite=*/1);
    const nlohmann::json with_packages = answer();
    EXPECT_EQ(with_packages["helpful"], packages + "/helpful.py") << path;
    EXPECT_EQ(with_packages["json"], found["json"]) << path;
  }
  EXPECT_FALSE(fs::exists("executed"));
}

TEST_F(PythonHelpers, StartOthersThatDoNotEither) {
  const std::string version = "import sys; sys.exit(sys.version_info < (3, 11))";
  if (std::system(("cd / && " PYTHON " -c '" + version + "'").c_str()) != 0)
    GTEST_SKIP() << "Python before 3.11 does not know PYTHONSAFEPATH";
  const nlohmann::json found = answer();
  EXPECT_EQ(found["of_child"], found["json"]);
  EXPECT_FALSE(fs::exists("executed"));
}

}  // namespace
}  // namespace modular
