// modgen --compile-commands: writes a compilation database with which Clang reads every spec.
#include <nlohmann/json.hpp>

#include "tests/generator/command_line.h"

namespace modgen {
namespace {

using Json = nlohmann::json;

class CompileCommands : public CommandLine {
 protected:
  Json database(const fs::path& path) { return Json::parse(read_file(path)); }
  Json entry(const Json& entries, const std::string& family) {
    const std::string file = fs::canonical(root / "modular" / (family + ".h"));
    for (const Json& one : entries)
      if (one["file"] == file) return one;
    ADD_FAILURE() << "no entry for " << file << " in " << entries.dump(1);
    return {};
  }
};

std::string get_command(const Json& entry) {
  std::string command;
  for (const std::string argument : entry["arguments"])
    command += (command.empty() ? std::string(CLANGXX) : " '" + argument + "'");
  return command;
}

TEST_F(CompileCommands, CompileSpecs) {
  use("golden/alias_and_inferred_classes");
  const Outcome outcome = modgen(in_root + "--compile-commands");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(says(outcome, "modular/compile_commands.json says how to read 2 specs")) << outcome.output;
  const Json entries = database(root / "modular/compile_commands.json");
  ASSERT_EQ(entries.size(), 2u);
  const Json beta = entry(entries, "beta");
  EXPECT_EQ(beta["directory"], fs::canonical(root).string());
  EXPECT_EQ(std::system(get_command(beta).c_str()), 0);
}

TEST_F(CompileCommands, DeclareTheHoldersThatSpecsOmit) {
  use("golden/replaces");
  EXPECT_EQ(modgen(in_root + "--compile-commands").exit_code, 0);
  const std::string holders = read_file(root / "modular/spec_holders.inc");
  EXPECT_TRUE(holders.find("class AlphaProjection : public EarlyHolder<AlphaProjectionImpl>") != std::string::npos)
      << holders;
  EXPECT_EQ(std::system(get_command(entry(database(root / "modular/compile_commands.json"), "beta")).c_str()), 0);
}

TEST_F(CompileCommands, MergeIntoAnExistingFile) {
  use("golden/alias_and_inferred_classes");
  const fs::path path = folder.path() / "build/compile_commands.json";
  const Json other = {{"directory", "/"}, {"file", "/other.cc"}, {"command", "c++ /other.cc"}};
  const Json old = {{"directory", "/"}, {"file", fs::canonical(root / "modular/beta.h").string()}, {"command", "old"}};
  write_file(path, Json({other, old}).dump());
  const std::string flag = "--compile-commands=" + path.string();
  EXPECT_EQ(modgen(in_root + flag).exit_code, 0);
  const Json entries = database(path);
  EXPECT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0], other);
  EXPECT_TRUE(entry(entries, "beta").contains("arguments"));
  const auto before = fs::last_write_time(path);
  EXPECT_EQ(modgen(in_root + flag).exit_code, 0);
  EXPECT_EQ(fs::last_write_time(path), before) << "an up-to-date file is left alone";
}

TEST_F(CompileCommands, LeaveAForeignFileAlone) {
  use("golden/alias_and_inferred_classes");
  const fs::path path = folder.path() / "compile_commands.json";
  for (const char* text : {"{}", "no JSON"}) {
    write_file(path, text);
    const Outcome outcome = modgen(in_root + "--compile-commands=" + path.string());
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(says(outcome, "compile_commands.json: this is not a compilation database: ")) << outcome.output;
    EXPECT_EQ(read_file(path), text);
  }
}

}  // namespace
}  // namespace modgen
