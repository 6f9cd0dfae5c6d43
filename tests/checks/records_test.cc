#include "checks/records.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checks/digest.h"
#include "checks/regenerate.h"
#include "checks/unified_diff.h"
#include "generator/source/families.h"
#include "generator/source/files.h"

namespace modgen {
namespace {

namespace fs = std::filesystem;

/// A user's tree with one family that derives from a shipped one.
class RecordsTest : public testing::Test {
 protected:
  RecordsTest() {
    write_file(tree.root / "modular/tiny.h", "#include \"modular/llama.h\"\n");
    write_file(tree.shipped / "modular/llama.h", "// llama\n");
    write_file(tree.root / "generated/tiny.h", "// tiny\n");
    TreeFiles files(tree);
    record = make_record(files, "tiny", "// tiny\n", {"modular/tiny.h", (tree.shipped / "modular/llama.h").string()},
                         {"modular/modular/llama.h", (tree.root / "modular/llama.h").string()});
  }

  std::vector<std::string> reasons() const {
    TreeFiles files(tree);
    return reasons_to_regenerate(record, files, "tiny", tree.root / "generated", built_generator());
  }

  TemporaryFolder folder;
  Tree tree{folder.path() / "project", folder.path() / "shipped"};
  Record record;
};

using Reasons = std::vector<std::string>;

TEST_F(RecordsTest, NamesFilesTheSameOnEveryMachine) {
  EXPECT_EQ(record.spec.name, "modular/tiny.h");
  ASSERT_EQ(record.read.size(), 1u);
  EXPECT_EQ(record.read[0].name, "<shipped>/modular/llama.h");
  EXPECT_EQ(record.absent, (std::vector<std::string>{"modular/llama.h", "modular/modular/llama.h"}));
  EXPECT_EQ(to_text(record).find(folder.path().string()), std::string::npos);
}

TEST_F(RecordsTest, RejectsADependencyOutsideOfBothTrees) {
  TreeFiles files(tree);
  EXPECT_THROW(make_record(files, "tiny", "", {"/usr/include/stdio.h"}, {}), std::runtime_error);
}

TEST_F(RecordsTest, SurvivesItsText) { EXPECT_EQ(parse_record(to_text(record)), record); }

TEST_F(RecordsTest, DamagedTextIsRejected) {
  const std::string text = to_text(record);
  EXPECT_THROW(parse_record(""), std::runtime_error);
  EXPECT_THROW(parse_record(text + "nonsense\n"), std::runtime_error);
  EXPECT_THROW(parse_record(text.substr(0, text.find("spec "))), std::runtime_error);
  std::string with_carriage_returns;
  for (char c : text) with_carriage_returns += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_THROW(parse_record(with_carriage_returns), std::runtime_error);
}

TEST_F(RecordsTest, NothingToDoWhereNothingChanged) { EXPECT_EQ(reasons(), Reasons{}); }

TEST_F(RecordsTest, AnEditedOutput) {
  write_file(tree.root / "generated/tiny.h", "// tiny!\n");
  EXPECT_EQ(reasons(), Reasons{"it was edited"});
  write_file(tree.root / "generated/tiny.h", "// tiny\r\n");
  EXPECT_EQ(reasons(), Reasons{"it was edited: it has carriage returns"});
}

TEST_F(RecordsTest, AnEditedSpecOrBase) {
  write_file(tree.root / "modular/tiny.h", "// another\n");
  write_file(tree.shipped / "modular/llama.h", "// another\n");
  EXPECT_EQ(reasons(), (Reasons{"modular/tiny.h has changed", "<shipped>/modular/llama.h has changed"}));
}

TEST_F(RecordsTest, AMissingOutputOrBase) {
  fs::remove(tree.root / "generated/tiny.h");
  fs::remove(tree.shipped / "modular/llama.h");
  EXPECT_EQ(reasons(), (Reasons{"it does not exist", "<shipped>/modular/llama.h is gone"}));
}

TEST_F(RecordsTest, AFileThatShadowsAnInclude) {
  write_file(tree.root / "modular/llama.h", "// another llama\n");
  EXPECT_EQ(reasons(), Reasons{"modular/llama.h is new and shadows a file that was included"});
}

TEST_F(RecordsTest, AnotherGenerator) {
  record.generator = digest("another");
  record.llvm = "19.1.0";
  EXPECT_EQ(reasons(), (Reasons{"it was made by another state of the generator",
                                "it was made with LLVM 19.1.0, this is " + built_generator().llvm}));
}

TEST_F(RecordsTest, CurrentOnlyWithOutputAndRecordInPlace) {
  const auto is_current_now = [&] {
    TreeFiles files(tree);
    return is_current(files, "tiny", tree.root / "generated");
  };
  EXPECT_FALSE(is_current_now());
  write_file(tree.root / "generated/tiny.lock", to_text(record));
  EXPECT_TRUE(is_current_now());
  write_file(tree.root / "generated/tiny.h", "// edited\n");
  EXPECT_FALSE(is_current_now());
}

TEST_F(RecordsTest, SpecsAreAllHeadersButThePrelude) {
  write_file(tree.root / "modular/modular.h", "");
  write_file(tree.root / "modular/notes.md", "");
  write_file(tree.root / "modular/alpha.h", "");
  EXPECT_EQ(families_in(tree.root), (std::vector<std::string>{"alpha", "tiny"}));
  EXPECT_THROW(families_in(tree.root / "modular"), std::runtime_error);
}

TEST(DigestOfSources, DependsOnNamesAndBytesOfSourcesOnly) {
  const TemporaryFolder folder;
  write_file(folder.path() / "a.cc", "one");
  const std::string before = digest_of_sources(folder.path());
  write_file(folder.path() / "notes.txt", "two");
  EXPECT_EQ(digest_of_sources(folder.path()), before);
  write_file(folder.path() / "tool/main.cc", "two");
  EXPECT_EQ(digest_of_sources(folder.path()), before) << "no generated byte depends on the command line";
  write_file(folder.path() / "sub/b.h", "two");
  const std::string with_header = digest_of_sources(folder.path());
  EXPECT_NE(with_header, before);
  fs::rename(folder.path() / "sub/b.h", folder.path() / "sub/c.h");
  EXPECT_NE(digest_of_sources(folder.path()), with_header);
}

TEST(UnifiedDiff, ShowsWhatChangesWithItsSurroundings) {
  EXPECT_EQ(unified_diff("a", "1\n2\n3\n4\n5\n6\n", "b", "1\n2\n3\n4\nfive\n6\n"),
            "--- a\n+++ b\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n");
  EXPECT_EQ(unified_diff("a", "same\n", "b", "same\n"), "");
}

TEST(UnifiedDiff, ShowsCarriageReturnsAndMissingLineEnds) {
  const std::string diff = unified_diff("a", "1\r\n2", "b", "1\n2\n");
  EXPECT_NE(diff.find("-1^M\n"), std::string::npos) << diff;
  EXPECT_NE(diff.find("\\ No newline at end of file"), std::string::npos) << diff;
}

}  // namespace
}  // namespace modgen
