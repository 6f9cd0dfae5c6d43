// Generated files from which a woven call was removed: modcheck reports each removal at its line.
#include <gtest/gtest.h>

#include <iostream>

#include "generator/source/families.h"
#include "tests/checks/modcheck_project.h"
#include "tests/plan_mutants/woven_calls.h"

namespace modgen {
namespace {

class DroppedCalls : public testing::TestWithParam<std::string> {};

TEST_P(DroppedCalls, AreReportedAtTheirLine) {
  const TemporaryFolder folder;
  const fs::path source = MODULAR_SOURCE_DIR, root = folder.path();
  for (const char* name : {"modular", "runtime", "generator"}) fs::create_directory_symlink(source / name, root / name);
  const std::string file = "generated/" + GetParam() + ".h", record = "generated/" + GetParam() + ".lock";
  fs::create_directory(root / "generated");
  fs::copy_file(source / record, root / record);
  const std::string text = read_file(source / file), check = MODCHECK " --root " + root.string() + " " + GetParam();

  write_file(root / file, text);
  const Outcome itself = run(check);
  ASSERT_EQ(itself.exit_code, 0) << itself.output;
  const std::vector<WovenCall> calls = woven_calls(GetParam(), text);
  ASSERT_FALSE(calls.empty());
  for (const WovenCall& call : calls) {
    write_file(root / file, changed(text, call.leaving_out));
    const Outcome found = run(check);
    EXPECT_EQ(found.exit_code, 1) << call.name;
    EXPECT_NE(found.output.find(file + ":" + std::to_string(call.line) + ": "), std::string::npos) << call.name << "\n"
                                                                                                   << found.output;
  }
  std::cout << GetParam() << ": " << calls.size() << " calls dropped\n";
}

INSTANTIATE_TEST_SUITE_P(Catalogue, DroppedCalls, testing::ValuesIn(families_in(MODULAR_SOURCE_DIR)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace modgen
