// Tests of reading and writing files, and of line endings.
#include "generator/source/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>

#include "checks/digest.h"
#include "checks/regenerate.h"
#include "generator/source/families.h"

namespace modgen {
namespace {

namespace fs = std::filesystem;

std::string get_message(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

class Files : public testing::Test {
 protected:
  size_t count() const {
    return static_cast<size_t>(
        std::distance(fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator()));
  }
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
};

TEST_F(Files, AreReadCompletelyWithAnyContent) {
  const std::string bytes = std::string("a\0b\r\n", 5) + std::string(1 << 20, 'x');
  write_file(folder / "made/on/the/way/file", bytes);
  EXPECT_EQ(read_file(folder / "made/on/the/way/file"), bytes);
  EXPECT_EQ(read_file_if_any(folder / "none"), std::nullopt);
  write_file(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
}

TEST_F(Files, ReportsPathsThatAreNotFiles) {
  EXPECT_EQ(get_message([&] { read_file(folder); }), folder.string() + ": is a folder, not a file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(get_message([&] { read_file_if_any(folder / "pipe"); }),
            (folder / "pipe").string() + ": is not a regular file");
  EXPECT_EQ(get_message([&] { read_file(folder / "none"); }),
            (folder / "none").string() + ": cannot be opened: No such file or directory");
}

TEST_F(Files, AreWrittenTogetherAllOrNone) {
  write_file(folder / "one", "before");
  fs::create_directories(folder / "three");
  const std::string message = get_message(
      [&] { write_files({{folder / "one", "after"}, {folder / "two", "after"}, {folder / "three", "after"}}); });
  EXPECT_EQ(message, (folder / "three").string() + ": is a folder, not a file");
  EXPECT_EQ(read_file(folder / "one"), "before");
  EXPECT_EQ(count(), 2u) << "no temporary files are left";
}

TEST_F(Files, AreRestoredIfALaterWriteFails) {
  write_file(folder / "one", "before");
  ASSERT_EQ(mkfifo((folder / "two").c_str(), 0600), 0);  // detected after "one" has been replaced
  const std::string message = get_message([&] { write_files({{folder / "one", "after"}, {folder / "two", "after"}}); });
  EXPECT_EQ(message, (folder / "two").string() + ": is not a regular file");
  EXPECT_EQ(read_file(folder / "one"), "before");
  EXPECT_EQ(count(), 2u);
}

TEST(LineEndings, AreNormalized) {
  EXPECT_EQ(with_unix_lines("a\r\nb\nc\rd\r\n"), "a\nb\nc\nd\n");
  EXPECT_EQ(with_unix_lines("\r\r\n"), "\n\n");
  EXPECT_EQ(digest_of_text("a\r\nb\n"), digest("a\nb\n"));
  EXPECT_NE(digest_of_text("a\nb"), digest_of_text("a\nb\n"));
}

/// Applies an edit of the normalized text to the original text.
std::string edited(const std::string& text, ByteEdit edit) {
  const std::string lines = with_unix_lines(text);
  std::string expected = lines;
  expected.replace(edit.begin, edit.end - edit.begin, edit.text);
  const ByteEdit own = with_endings_like(text, edit);
  std::string result = text;
  result.replace(own.begin, own.end - own.begin, own.text);
  EXPECT_EQ(with_unix_lines(result), expected);
  return result;
}

TEST(LineEndings, OfAnEditMatchTheSurroundingLines) {
  const std::string text = "one\r\ntwo\nthree\r\n";
  EXPECT_EQ(edited(text, {0, 0, "zero\n"}), "zero\r\none\r\ntwo\nthree\r\n");
  EXPECT_EQ(edited(text, {4, 8, "2\n2\n"}), "one\r\n2\n2\nthree\r\n");
  EXPECT_EQ(edited(text, {0, 4, ""}), "two\nthree\r\n");
  EXPECT_EQ(edited(text, {14, 14, "four\n"}), text + "four\r\n");
  EXPECT_EQ(edited("one", {3, 3, "\ntwo"}), "one\ntwo");
}

TEST(Families, AreHeadersAndNothingElse) {
  const TemporaryFolder root;
  for (const char* name : {"modular.h", "alpha.h", "beta.h", "notes.md", ".hidden.h"})
    write_file(root.path() / "modular" / name, "");
  fs::create_directories(root.path() / "modular/folder.h");
  EXPECT_EQ(families_in(root.path()), (std::vector<std::string>{"alpha", "beta"}));
  EXPECT_EQ(find_spec(root.path(), root.path(), "folder"), std::nullopt);
  EXPECT_EQ(find_spec(root.path() / "none", root.path(), "beta"), root.path() / "modular/beta.h");
  EXPECT_EQ(
      get_message([&] { families_in(root.path() / "modular"); }),
      (root.path() / "modular/modular").string() + ": no such folder: set --root to the folder that contains modular/");
}

}  // namespace
}  // namespace modgen
