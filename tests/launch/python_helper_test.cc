// Python helpers import nothing from the working directory, which may be untrusted, and run in the first of the usual
// Pythons that has their package.
#include "runtime/files/open_file.h"
#include "runtime/launch/helper.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

/// Answers each line with the files of modules; a module that is not found is null.
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
    print(json.dumps({"json": json.__file__, "helpful": helpful and helpful.__file__, "child": child.stdout.strip()}), flush=True)
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
    for (const char* variable : {"PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"}) unsetenv(variable);
    setenv("PATH", path_.c_str(), /*overwrite=*/1);
    fs::current_path(before_);
  }

  nlohmann::json answer() const { return PythonHelper(PYTHON, "json", kProgram).ask(nlohmann::json::object()); }

  /// Creates an environment whose Python has the package "helpful" if `is_helpful`, and logs its name when started.
  std::string environment(const std::string& name, bool is_helpful) const {
    const std::string packages = is_helpful ? (folder_.path() / "packages").string() : "";
    const fs::path python =
        folder_.write(name + "/bin/python3", "#!/bin/sh\necho " + name + " >>" + started() +
                                                 "\nPYTHONPATH=" + packages + " exec " PYTHON " \"$@\"\n");
    fs::permissions(python, fs::perms::owner_all);
    return (folder_.path() / name).string();
  }
  std::string started() const { return (folder_.path() / "started").string(); }
  std::string read_started() const { return is_there(started()) ? read_file(started()) : std::string(); }
  static nlohmann::json answer_of_any(const char* program = kProgram) {
    return PythonHelper(kAnyPython, "helpful", program).ask(nlohmann::json::object());
  }

  const std::string path_ = std::getenv("PATH");
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

TEST_F(PythonHelpers, ChildProcessesDoNotEither) {
  const std::string version = "import sys; sys.exit(sys.version_info < (3, 11))";
  if (std::system(("cd / && " PYTHON " -c '" + version + "'").c_str()) != 0)
    GTEST_SKIP() << "Python before 3.11 does not know PYTHONSAFEPATH";
  const nlohmann::json found = answer();
  EXPECT_EQ(found["child"], found["json"]);
  EXPECT_FALSE(fs::exists("executed"));
}

TEST_F(PythonHelpers, RunInTheFirstPythonThatHasThePackage) {
  const std::string bare = environment("bare", false), helpful = environment("helpful", true);
  const std::string found = (folder_.path() / "packages/helpful.py").string();
  setenv("VIRTUAL_ENV", helpful.c_str(), 1);
  setenv("CONDA_PREFIX", bare.c_str(), 1);
  EXPECT_EQ(answer_of_any()["helpful"], found);
  EXPECT_EQ(read_started(), "helpful\n");
  setenv("VIRTUAL_ENV", bare.c_str(), 1);
  setenv("CONDA_PREFIX", helpful.c_str(), 1);
  EXPECT_EQ(answer_of_any()["helpful"], found);
  EXPECT_EQ(read_started(), "helpful\nbare\nhelpful\n");
  // A Python that is named explicitly is the only candidate.
  EXPECT_TRUE(
      PythonHelper(bare + "/bin/python3", "helpful", kProgram).ask(nlohmann::json::object())["helpful"].is_null());
}

TEST_F(PythonHelpers, WithoutThePackageNameTheTriedPythonsAndTheInstallCommand) {
  const std::string bare = environment("bare", false), other = environment("other", false);
  setenv("VIRTUAL_ENV", bare.c_str(), 1);
  setenv("CONDA_PREFIX", other.c_str(), 1);
  constexpr const char* program = R"python(
for line in sys.stdin:
    print(json.dumps({"error": lacks("helpful")}), flush=True)
)python";
  try {
    answer_of_any(program);
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string first = bare + "/bin/python3", second = other + "/bin/python3";
    EXPECT_THAT(error.what(), testing::StartsWith("Python has no package helpful (tried " + first + ", " + second));
    EXPECT_THAT(error.what(), testing::EndsWith("): " + first + " -m pip install helpful"));
  }
}

TEST_F(PythonHelpers, AreFoundInActiveEnvironmentsInLibtorchsAndOnPath) {
  const std::string first = environment("first", true), second = environment("second", true);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) unsetenv(variable);
  const auto last = python_programs();
  const std::string libtorch_python = fs::path(TORCH "/../../../../bin/python3").lexically_normal();
  if (fs::exists(libtorch_python)) {
    ASSERT_FALSE(last.empty());
    EXPECT_EQ(last.front(), libtorch_python);
  }
  // Relative entries resolve to the working directory.
  fs::create_directories("bin");
  fs::copy_file(first + "/bin/python3", "bin/python3");
  fs::copy_file(first + "/bin/python3", "python3");
  setenv("VIRTUAL_ENV", ".", 1);
  setenv("PATH", (":.:bin:" + second + "/bin:" + first + "/bin").c_str(), 1);
  auto programs = python_programs();
  ASSERT_FALSE(programs.empty());
  EXPECT_EQ(programs.back(), second + "/bin/python3");
  std::erase_if(programs, [&](const std::string& program) { return program == libtorch_python; });
  EXPECT_EQ(programs.size(), 1);
}

}  // namespace
}  // namespace modular
