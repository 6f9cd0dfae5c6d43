// CSV files follow RFC 4180, wherever they are cut into pieces; errors for invalid files name the line.
#include <gmock/gmock.h>

#include "runtime/data/files.h"
#include "runtime/prepare/sources.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using ::testing::ElementsAre;
using Table = std::vector<std::vector<std::string>>;

class Csv : public testing::Test {
 protected:
  /// The values of `columns`, read in pieces of at least `bytes` bytes.
  Table read(const std::string& text, const std::vector<std::string>& columns, int64_t piece_bytes = 1) const {
    const auto path = folder_.write("a.csv", text);
    RecordReader reader(columns, {.piece_bytes = piece_bytes});
    const std::vector<Source> sources = find_sources({path.string()}, reader);
    Table table;
    for (const auto& shard : split_into_shards(sources, piece_bytes))
      for (const Piece& piece : shard) {
        std::vector<Record> records;
        reader.read(sources[0], piece, records);
        for (const Record& record : records) {
          auto& row = table.emplace_back();
          for (const auto& value : record.values) row.push_back(value.get<std::string>());
        }
      }
    return table;
  }

  std::string error(const std::string& text) const {
    const std::string message = get_message<DataError>([&] { read(text, {"a"}); });
    const std::string folder = folder_.path().string() + "/";
    return message.starts_with(folder) ? message.substr(folder.size()) : message;
  }

  TemporaryFolder folder_;
};

TEST_F(Csv, QuotedFieldsMayContainCommasQuotesAndLineEnds) {
  EXPECT_THAT(read("a,b\n1,\"x, y\"\n2,\"she said \"\"no\"\"\"\n\"3\n3\",\"\r\n\"\n", {"b", "a"}),
              ElementsAre(ElementsAre("x, y", "1"), ElementsAre("she said \"no\"", "2"), ElementsAre("\r\n", "3\n3")));
}

TEST_F(Csv, AcceptsWindowsLineEndsAByteOrderMarkAndBlankLines) {
  EXPECT_THAT(read("\xEF\xBB\xBF\"a\",b\r\n1,2\r\n\r\n3,\r\n,4", {"a", "b"}),
              ElementsAre(ElementsAre("1", "2"), ElementsAre("3", ""), ElementsAre("", "4")));
}

TEST_F(Csv, IsTheSameWhereverItIsCut) {
  std::string text = "a,b\n";
  for (int row = 0; row < 50; ++row)
    text += std::to_string(row) +
            (row % 3 == 0 ? ",\"line\n" + std::string(row % 7, ',') + "\"\"\nline\"\n" : ",plain\r\n");
  const Table uncut = read(text, {"a", "b"}, 1 << 20);
  EXPECT_EQ(uncut.size(), 50u);
  for (int64_t bytes = 1; bytes < 60; ++bytes) EXPECT_EQ(read(text, {"a", "b"}, bytes), uncut) << bytes;
}

TEST_F(Csv, InvalidFilesAreErrorsThatNameTheLine) {
  EXPECT_EQ(error("a,b\n1,2\n\"x\ny\",2\n3\n"), "a.csv:5 has 1 fields, and the first line names 2 columns");
  EXPECT_EQ(error("a,b\n1,2\nx\"y,2\n"),
            "a.csv:3 has a quote within a field that does not begin with one: put the field in quotes, and double its "
            "own quotes");
  EXPECT_EQ(error("a,b\n1,2\n\"x\"y,2\n"), "a.csv:3 continues after a quoted field: put a comma there");
  EXPECT_EQ(error("a,b\n1,\"2\n3,4\n"), "a.csv:2 begins a quoted field that does not end");
  EXPECT_EQ(error("a,a\n"), "a.csv:1 names two columns \"a\"");
  EXPECT_EQ(error(""), "a.csv is empty: its first line names columns");
  EXPECT_EQ(error("b,c\n1,2\n"), "a.csv has no column \"a\": it has b, c");
}

}  // namespace
}  // namespace modular
