// Lines of a file with and without a final newline.
#include "runtime/files/open_file.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> split_lines(LineReader& reader) {
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

TEST(LineReader, ReturnsEachLineAndReportsATruncatedLastLine) {
  const TemporaryFolder folder;
  LineReader complete(folder.write("complete", "a\n\nb\n")), cut_off(folder.write("cut", "a\nb")),
      empty(folder.write("e", ""));
  EXPECT_THAT(split_lines(complete), ElementsAre("a", "", "b"));
  EXPECT_FALSE(complete.is_cut_off());
  EXPECT_THAT(split_lines(cut_off), ElementsAre("a", "b"));
  EXPECT_TRUE(cut_off.is_cut_off());
  EXPECT_THAT(split_lines(empty), ElementsAre());
}

TEST(LineReader, ReadsLinesLongerThanTheReadBuffer) {
  const TemporaryFolder folder;
  const std::string first(200'000, 'x'), second(70'000, 'y');
  LineReader reader(folder.write("long", first + "\n" + second + "\nend\n"));
  EXPECT_THAT(split_lines(reader), ElementsAre(first, second, "end"));
}

TEST(LineReader, RejectsAnEndlessLine) {
  const TemporaryFolder folder;
  const auto file = folder.write("run/metrics.jsonl", "{}\n");
  std::filesystem::resize_file(file, uintmax_t{1} << 36);
  LineReader reader(file);
  std::string line;
  EXPECT_TRUE(reader.next(line));
  EXPECT_THAT(get_message<std::runtime_error>([&] { reader.next(line); }),
              HasSubstr("metrics.jsonl has a line of more than 67108864 bytes"));
}

}  // namespace
}  // namespace modular
