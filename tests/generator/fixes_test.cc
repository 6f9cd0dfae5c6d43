// modgen --apply-fixes, on the trees of rejected/: if mended.txt exists next to expected.txt, it has modgen's output,
// which shows the changes; all other trees stay unchanged. MODULAR_UPDATE_GOLDENS=1 rewrites mended.txt.
#include <algorithm>
#include <map>

#include "generator/source/fixes.h"
#include "tests/generator/command_line.h"

namespace modgen {
namespace {

const fs::path kRejectedSpecs = fs::path(MODULAR_SOURCE_DIR) / "tests/generator/rejected";

std::vector<std::string> rejected_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kRejectedSpecs)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, std::string> get_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = read_file(entry.path());
  return files;
}

class ApplyFixes : public CommandLine, public testing::WithParamInterface<std::string> {};

TEST_P(ApplyFixes, FixesKnownErrorsAndNothingElse) {
  use("rejected/" + GetParam());
  const auto before = get_files(root / "modular");
  const Outcome outcome = modgen(in_root + "--all --apply-fixes", " 2>/dev/null");
  const fs::path expected = kRejectedSpecs / GetParam() / "mended.txt";
  if (std::getenv("MODULAR_UPDATE_GOLDENS") && !outcome.output.empty()) write_file(expected, outcome.output);
  EXPECT_EQ(outcome.output, read_file_if_any(expected).value_or(""));
  EXPECT_EQ(get_files(root / "modular") == before, outcome.output.empty());
  EXPECT_EQ(outcome.exit_code, fs::exists(generated) ? 0 : 2) << "files are generated only without errors";
}

INSTANTIATE_TEST_SUITE_P(Rejected, ApplyFixes, testing::ValuesIn(rejected_names()),
                         [](const auto& info) { return info.param; });

class Fixes : public CommandLine {
 protected:
  void write(const std::string& family, const std::string& text) {
    write_file(root / "modular" / (family + ".h"), text);
  }
  std::string spec(const std::string& family) { return read_file(root / "modular" / (family + ".h")); }
};

TEST_F(Fixes, SeveralErrorsInSeveralSpecsAreReportedAndFixedAtOnce) {
  write("alpha",
        "namespace modular::alpha {\nMODULAR_FAMILY(Alpha);\nstruct Settings : Config {\n  int64_t size = 1\n};\n"
        "}  // namespace modular::alpha\n");
  write("beta",
        "#pragma once\n#include \"modular/modular.h\"\nnamespace modular::beta {\nMODULAR_FAMILY(Beta);\n"
        "#define BETA_SIZE 4\nstruct Other : Config {};\n}  // namespace modular::beta");
  write("gamma",
        "#pragma once\n#include \"modular/modular.h\"\nnamespace modular::gamma {\nMODULAR_FAMILY(Gamma);\n"
        "class GammaCutImpl : public Module {\n public:\n  GammaCutImpl() {}\n  nn::Linear cut;\n};\n"
        "TORCH_MODULE(GammaCut);\n}  // namespace modular::gamma\n");
  const Outcome reported = modgen(in_root + "--all");
  EXPECT_EQ(reported.exit_code, 2);
  for (const char* part :
       {"modular/alpha.h:4:", "modular/beta.h:5:9: error: ", "modular/beta.h:6:8: error: ", "modular/gamma.h:8:"})
    EXPECT_TRUE(says(reported, part)) << part << "\n" << reported.output;
  EXPECT_TRUE(says(reported, "modgen --apply-fixes can mend 3 of these errors")) << reported.output;

  const std::string gamma = spec("gamma");
  const Outcome mended = modgen(in_root + "--all --apply-fixes");
  EXPECT_EQ(mended.exit_code, 2);
  EXPECT_EQ(spec("alpha"),
            "#pragma once\nnamespace modular::alpha {\nMODULAR_FAMILY(Alpha);\nstruct AlphaSettings : Config {\n"
            "  int64_t size = 1;\n};\n}  // namespace modular::alpha\n")
      << "errors hidden by another are fixed in the next round";
  EXPECT_EQ(spec("beta"),
            "#pragma once\n#include \"modular/modular.h\"\nnamespace modular::beta {\nMODULAR_FAMILY(Beta);\n"
            "#define BETA_SIZE 4\nstruct BetaOther : Config {};\n}  // namespace modular::beta\n#undef BETA_SIZE\n");
  EXPECT_EQ(spec("gamma"), gamma);
  EXPECT_TRUE(says(mended, "modular/gamma.h:8:")) << mended.output;
  EXPECT_FALSE(fs::exists(generated));

  fs::remove(root / "modular/gamma.h");
  EXPECT_EQ(modgen(in_root + "--all").exit_code, 0);
}

Diagnostic with_fix(const std::string& path, uint32_t line, std::vector<FixIt> fix) {
  Diagnostic diagnostic{Diagnostic::Severity::error, {path, line, 1, ""}, "wrong", "", {}};
  diagnostic.fix = std::move(fix);
  return diagnostic;
}

TEST_F(Fixes, ThatOverlapAreErrorsWithBothLocations) {
  write("alpha", "abcdef");
  const std::string path = root / "modular/alpha.h";
  try {
    apply_fixes({with_fix("alpha.h", 1, {{path, 1, 4, "x"}}), with_fix("alpha.h", 2, {{path, 3, 5, "y"}})});
    FAIL() << "fixes of the same bytes were applied";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the fixes of alpha.h:1:1 (wrong) and of alpha.h:2:1 (wrong) overlap: fix one by hand");
  }
}

TEST_F(Fixes, ThatAreEqualOrInsertAtOneOffsetAreMerged) {
  write("alpha", "abc");
  const std::string path = root / "modular/alpha.h";
  const auto files = apply_fixes({with_fix("a", 1, {{path, 0, 0, "2"}, {path, 2, 3, ""}}),
                                  with_fix("a", 2, {{path, 0, 0, "1"}}), with_fix("a", 3, {{path, 0, 0, "2"}})});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].after, "12ab");
}

TEST_F(Fixes, OutsideOfTheRootAreIgnored) {
  write("alpha", "abc");
  EXPECT_TRUE(mendable({with_fix("a", 1, {{"/elsewhere/modular/alpha.h", 0, 1, ""}})}, root).empty());
  EXPECT_EQ(mendable({with_fix("a", 1, {{fs::canonical(root) / "modular/alpha.h", 0, 1, ""}})}, root).size(), 1u);
}

TEST_F(Fixes, RejectFlagsThatWriteNothing) {
  for (const char* flag : {"--check", "--diff", "--explain", "--emit plan"})
    EXPECT_TRUE(says(modgen(in_root + "--apply-fixes --all " + flag),
                     "--apply-fixes writes specs and cannot be combined with"));
}

TEST_F(Fixes, AreWrittenThroughSymbolicLinksAndKeepTheMode) {
  write("alpha",
        "#pragma once\n#include \"modular/modular.h\"\nnamespace modular::alpha {\nMODULAR_FAMILY(Alpha);\n"
        "#define ALPHA_SIZE 4\nstruct AlphaConfig : Config {};\n}  // namespace modular::alpha\n");
  const fs::path spec = root / "modular/alpha.h", target = folder.path() / "kept/alpha.h";
  fs::create_directories(target.parent_path());
  fs::rename(spec, target);
  fs::create_symlink(target, spec);
  fs::permissions(target, fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
  const Outcome outcome = modgen(in_root + "--apply-fixes alpha");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::is_symlink(spec));
  EXPECT_TRUE(read_file(target).ends_with("#undef ALPHA_SIZE\n"));
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read);
}

}  // namespace
}  // namespace modgen
