// The files that a run reads, and those that it rejects.
#include "runtime/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "runtime/data/data_formats.h"
#include "runtime/data/token_dataset.h"
#include "runtime/data/token_formats.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<DataFile>& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(file.path.filename().string());
  return result;
}

TEST(DataFormats, AreFoundByNameAndOpenTheirFiles) {
  for (const DataFormat* format : data_formats()) {
    SCOPED_TRACE(format->name);
    EXPECT_EQ(find_data_format(format->name), format);
    EXPECT_EQ(unknown_data_format(format->name), "");
    EXPECT_TRUE(format->open && format->describe);
    EXPECT_EQ(format->make_blank == nullptr, format->has_rows) << "only rows have shapes of their own";
    EXPECT_THAT(format->describe(nullptr), testing::StartsWith("0"));
  }
  EXPECT_EQ(find_data_format("arrow"), nullptr);
  EXPECT_FALSE(has_property("arrow", &DataFormat::has_rows));
}

TEST(DataFiles, AFolderIsSearchedForSuffixesInPathOrder) {
  TemporaryFolder folder;
  folder.write("b/two.h", "22");
  folder.write("a/one.h", "1");
  folder.write("a/skipped.txt", "x");
  folder.write("empty.h", "");
  const auto files = find_data_files({.paths = {folder.path()}, .suffixes = {".h"}});
  EXPECT_THAT(names(files.training), ElementsAre("one.h", "two.h"));
  EXPECT_EQ(files.training[1].tokens(), 2);
  EXPECT_TRUE(files.validation.empty());
}

TEST(DataFiles, GlobsAndRepeatedPathsCountOnce) {
  TemporaryFolder folder;
  folder.write("one.h", "1");
  folder.write("two.h", "2");
  const auto files = find_data_files({.paths = {folder.path() / "*.h", folder.path() / "one.h", folder.path()}});
  EXPECT_THAT(names(files.training), ElementsAre("one.h", "two.h"));
}

TEST(DataFiles, EveryNthFileAndPatternsAreHeldOut) {
  TemporaryFolder folder;
  for (const char* name : {"a.h", "b.h", "c.h", "d.h", "e.h"}) folder.write(name, "text");
  const auto files = find_data_files({.paths = {folder.path()}, .validation_every = 2, .validation = {"*/e.h"}});
  EXPECT_THAT(names(files.training), ElementsAre("a.h", "c.h"));
  EXPECT_THAT(names(files.validation), ElementsAre("b.h", "d.h", "e.h"));
}

TEST(DataFiles, UnusableFilesAreErrorsThatNameThem) {
  TemporaryFolder folder;
  const auto error = [](const DataOptions& options) {
    return get_message<DataError>([&] { find_data_files(options); });
  };
  EXPECT_EQ(error({.paths = {folder.path() / "gone.txt"}}),
            (folder.path() / "gone.txt").string() + ": No such file or directory");
  EXPECT_THAT(error({.paths = {folder.path() / "*.gone"}}), HasSubstr("nothing matches"));
  EXPECT_THAT(error({.paths = {folder.path()}}), HasSubstr("no file in " + folder.path().string()));
  EXPECT_THAT(error({.paths = {}}), HasSubstr("data.paths is empty"));
  EXPECT_THAT(error({.format = "arrow", .paths = {folder.path()}}),
              HasSubstr("it must be one of bytes, tokens, nanogpt, llm.c, megatron, examples, parquet and images"));
  folder.write("one.h", "1");
  EXPECT_THAT(error({.paths = {folder.path()}, .validation = {"*/other.h"}}), HasSubstr("no file is held out"));
  EXPECT_THAT(error({.paths = {folder.path()}, .validation = {"*"}}), HasSubstr("as all are held out"));
  const auto empty = folder.write("nothing.txt", "");
  EXPECT_THAT(error({.paths = {empty}}), HasSubstr(empty.string() + " is empty: "));
}

TEST(DataFiles, EvaluationNeedsNoTrainingFiles) {
  TemporaryFolder folder;
  const auto test = folder.write("test.txt", "text");
  const auto files = find_data_files({.paths = {test}, .validation = {"*"}}, {.training = false});
  EXPECT_TRUE(files.training.empty());
  EXPECT_THAT(names(files.validation), ElementsAre("test.txt"));
  const auto none = [&] { find_data_files({.paths = {test}, .validation_every = 4}, {.training = false}); };
  EXPECT_THAT(get_message<DataError>(none), HasSubstr("to evaluate on all files, set data.validation=[\"*\"]"));
}

TEST(DataFiles, ValidationDataMayBeElsewhere) {
  TemporaryFolder folder;
  for (const char* const name : {"train/a", "train/b", "train/val/c", "other/d", "other/e", "f"})
    folder.write(name, "x");
  const auto find = [&](const std::vector<std::string>& validation) {
    return find_data_files({.paths = {folder.path() / "train"}, .validation = validation});
  };
  const auto file = find({folder.path() / "f"});
  EXPECT_THAT(names(file.training), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names(file.validation), ElementsAre("f"));
  EXPECT_THAT(names(find({folder.path() / "other", "*/a"}).validation), ElementsAre("d", "e", "a"));
  EXPECT_THAT(names(find({folder.path() / "oth*/e"}).validation), ElementsAre("e"));
  const auto within = find({folder.path() / "train/val"});
  EXPECT_THAT(names(within.training), ElementsAre("a", "b"));
  EXPECT_THAT(names(within.validation), ElementsAre("c"));
  const auto error = [&](const std::string& entry) { return get_message<DataError>([&] { find({entry}); }); };
  EXPECT_THAT(error(folder.path() / "gone"), HasSubstr("gone: No such file or directory"));
  EXPECT_THAT(error(folder.path() / "gone*"), HasSubstr("data.validation: nothing matches"));
}

/// Names that are also patterns, or that need escapes in a line.
constexpr std::array kNames = {"\u00fc [1].txt", "what?.txt", "a*b.txt", "two\nlines.txt", "\\n.txt", "end\r"};

TEST(DataFiles, AnExactNameWinsOverThePatternThatItIs) {
  for (const char* const name : kNames) {
    TemporaryFolder folder;
    const auto file = folder.write(name, "text");
    folder.write("what!.txt", "another"), folder.write("axb.txt", "another"), folder.write("\u00fc 1.txt", "another");
    EXPECT_THAT(names(find_data_files({.paths = {file}}).training), ElementsAre(name));
    EXPECT_THAT(names(find_data_files({.paths = {folder.path()}, .validation = {file}}).validation), Contains(name));
  }
}

TEST(Manifest, KeepsNamesWithLineBreaks) {
  TemporaryFolder folder;
  for (const char* const name : kNames) folder.write(std::string("data/") + name, "text");
  const DataOptions options{.paths = {folder.path() / "data"}};
  const auto files = find_data_files(options);
  EXPECT_EQ(files.training.size(), kNames.size());
  const auto manifest = folder.write("data.manifest", format_manifest(files));
  check_manifest(manifest, files);
  EXPECT_EQ(names(find_data_files({.paths = {manifest}}).training), names(files.training));
}

TEST(DataFiles, PreparedSubfoldersAreNamed) {
  TemporaryFolder folder;
  for (const char* const name : {"a", "deep/b"}) {
    folder.write(std::string(name) + "/prepare.json", "{}");
    folder.write(std::string(name) + "/part-00000.safetensors", "x");
    folder.write(std::string(name) + "/prepared.manifest", "1 part-00000.safetensors\n");
  }
  folder.write("c.partial/prepare.json", "{}");
  folder.write("c.partial/part-00000.tokens", "x");
  folder.write("c.partial/work/00001.safetensors", "x");
  const auto error = [&](const std::filesystem::path& path, const char* format) {
    return get_message<DataError>([&] { find_data_files({.format = format, .paths = {path}}); });
  };
  const std::string interrupted = (folder.path() / "c.partial").string() + ": its preparation was interrupted";
  for (const char* const format : {"bytes", "tokens", "examples"}) {
    EXPECT_THAT(error(folder.path(), format), HasSubstr(interrupted));
    EXPECT_THAT(error(folder.path() / "c.partial", format), HasSubstr(interrupted));
  }
  EXPECT_THAT(error(folder.path() / "*", "examples"), HasSubstr(interrupted));
  std::filesystem::remove_all(folder.path() / "c.partial");
  EXPECT_THAT(error(folder.path(), "examples"),
              HasSubstr("holds folders of it: name these in data.paths, " + (folder.path() / "a").string() + ", " +
                        (folder.path() / "deep/b").string()));
  EXPECT_THAT(names(find_data_files({.format = "examples", .paths = {folder.path() / "a"}}).training),
              ElementsAre("part-00000.safetensors"));
}

TEST(CheckTokens, NamesTheFileWithAnIdOutsideTheVocabulary) {
  TemporaryFolder folder;
  constexpr int64_t kTokens = 3'000'000;
  const auto write = [&](const char* name, int64_t highest, int64_t index) {
    std::vector<int64_t> tokens(kTokens, 5);
    tokens[static_cast<size_t>(index)] = highest;
    write_token_file(folder.path() / name, tokens);
  };
  for (const int64_t highest : {200, 40'000, 70'000})
    for (const int64_t index : {int64_t{0}, kTokens / 2, kTokens - 1}) {
      write("a.tokens", highest - 1, index);
      write("b.tokens", highest, index);
      const auto files = find_data_files({.format = "tokens", .paths = {folder.path()}}).training;
      check_tokens(files, highest + 1);
      EXPECT_EQ(get_message<DataError>([&] { check_tokens(files, highest); }),
                (folder.path() / "b.tokens").string() + ": holds token " + std::to_string(highest) +
                    " but model.config.vocab_size is " + std::to_string(highest) +
                    ": use a model with a larger vocabulary, or other data");
      if (index > 0) check_tokens(files, highest, /*most_bytes=*/1);
    }
  folder.write("c.bin", std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8));
  const DataFile negative{.path = folder.path() / "c.bin", .bytes = 8, .token_bytes = 8};
  EXPECT_THAT(get_message<DataError>([&] { check_tokens({negative}, 100); }), HasSubstr("holds token -1 but"));
}

TEST(TokenFile, HoldsIdsOfEveryWidth) {
  TemporaryFolder folder;
  for (const int64_t highest : {255, 65535, 65536}) {
    const auto path = folder.path() / "tokens.bin";
    const std::vector<int64_t> tokens = {0, 7, highest};
    write_token_file(path, tokens);
    const auto files = find_data_files({.format = "tokens", .paths = {path}});
    std::vector<int64_t> read(3);
    TokenStream(files.training).read(0, read);
    EXPECT_EQ(read, tokens);
  }
}

TEST(TokenFile, RejectsACutOffFileBeforeItIsRead) {
  TemporaryFolder folder;
  const auto path = folder.path() / "tokens.bin";
  write_token_file(path, std::vector<int64_t>(1000, 300));
  std::filesystem::resize_file(path, 24 + 2 * 999);
  EXPECT_THAT(get_message<DataError>([&] { read_token_header(path); }),
              HasSubstr("the header declares 1000 tokens, but the file holds 999: it is truncated"));
  std::filesystem::resize_file(path, 10);
  EXPECT_THAT(get_message<DataError>([&] { read_token_header(path); }), HasSubstr("not a token file"));
}

TEST(Manifest, AMissingFileIsAnErrorThatNamesItAndTheManifest) {
  TemporaryFolder folder;
  const auto manifest = folder.write("data.manifest", "5 gone\n");
  EXPECT_THAT(get_message<DataError>([&] { find_data_files({.paths = {manifest}}); }),
              HasSubstr("gone: No such file or directory (a file of " + manifest.string() + ")"));
}

TEST(Manifest, RejectsFilesThatHaveChanged) {
  TemporaryFolder folder;
  const auto one = folder.write("one.txt", "first text");
  folder.write("two.txt", "second text");
  const DataOptions options{.paths = {folder.path()}, .suffixes = {".txt"}};
  const auto manifest = folder.write("data.manifest", format_manifest(find_data_files(options)));

  check_manifest(manifest, find_data_files(options));
  EXPECT_EQ(names(find_data_files({.paths = {manifest}}).training), names(find_data_files(options).training));

  std::filesystem::resize_file(one, 4);
  EXPECT_THAT(get_message<DataError>([&] { check_manifest(manifest, find_data_files(options)); }),
              HasSubstr("has 4 bytes but"));
  EXPECT_THAT(get_message<DataError>([&] { find_data_files({.paths = {manifest}}); }),
              HasSubstr("was cut off or changed"));

  std::filesystem::remove(one);
  EXPECT_THAT(get_message<DataError>([&] { check_manifest(manifest, find_data_files(options)); }),
              HasSubstr("is gone"));
  folder.write("one.txt", "first text");
  folder.write("three.txt", "third text");
  EXPECT_THAT(get_message<DataError>([&] { check_manifest(manifest, find_data_files(options)); }),
              HasSubstr("started without this file"));
}

TEST(TokenStream, ReadsAcrossFilesAndDetectsChanges) {
  TemporaryFolder folder;
  folder.write("a", "abc");
  const auto second = folder.write("b", "de");
  folder.write("c", "fgh");
  const TokenStream stream(find_data_files({.paths = {folder.path()}}).training);
  EXPECT_EQ(stream.size(), 8);
  std::vector<int64_t> tokens(6);
  stream.read(2, tokens);
  EXPECT_THAT(tokens, ElementsAre('c', 'd', 'e', 'f', 'g', 'h'));

  std::filesystem::resize_file(second, 1);
  EXPECT_THAT(get_message<DataError>([&] { stream.read(2, tokens); }),
              HasSubstr("had 2 bytes when the run began and has 1 now"));
}

TEST(TokenStream, KeepsFilesOpen) {
  TemporaryFolder folder;
  const auto file = folder.write("a", "abc");
  const TokenStream stream(find_data_files({.paths = {file}}).training);
  std::vector<int64_t> tokens(2);
  stream.read(0, tokens);
  std::filesystem::remove(file);
  stream.read(1, tokens);
  EXPECT_THAT(tokens, ElementsAre('b', 'c'));
}

}  // namespace
}  // namespace modular
