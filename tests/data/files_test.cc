// Which files a run reads, and which it refuses.
#include "runtime/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/token_file.h"
#include "runtime/data/token_stream.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const std::vector<DataFile>& files) {
  std::vector<std::string> result;
  for (const auto& file : files) result.push_back(file.path.filename().string());
  return result;
}

TEST(DataFiles, FolderIsSearchedForSuffixesInTheOrderOfPaths) {
  TemporaryFolder folder;
  folder.write("b/two.h", "22");
  folder.write("a/one.h", "1");
  folder.write("a/skipped.txt", "x");
  folder.write("empty.h", "");
  const auto files = find_data_files({.paths = {folder.path()}, .suffixes = {".h"}});
  EXPECT_THAT(names(files.training), ElementsAre("one.h", "two.h"));
  EXPECT_EQ(files.training[1].tokens(), 2);
  EXPECT_TRUE(files.held_out.empty());
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
  const auto files = find_data_files({.paths = {folder.path()}, .held_out_every = 2, .held_out = {"*/e.h"}});
  EXPECT_THAT(names(files.training), ElementsAre("a.h", "c.h"));
  EXPECT_THAT(names(files.held_out), ElementsAre("b.h", "d.h", "e.h"));
}

TEST(DataFiles, WhatCannotBeUsedIsRefusedByName) {
  TemporaryFolder folder;
  const auto refusal = [](const DataOptions& options) {
    return message_of<DataError>([&] { find_data_files(options); });
  };
  EXPECT_EQ(refusal({.paths = {folder.path() / "gone.txt"}}),
            (folder.path() / "gone.txt").string() + ": No such file or directory");
  EXPECT_THAT(refusal({.paths = {folder.path() / "*.gone"}}), HasSubstr("nothing matches"));
  EXPECT_THAT(refusal({.paths = {folder.path()}}), HasSubstr("no file is left"));
  EXPECT_THAT(refusal({.paths = {}}), HasSubstr("data.paths is empty"));
  EXPECT_THAT(refusal({.format = "arrow", .paths = {folder.path()}}),
              HasSubstr("it must be one of bytes, tokens, nanogpt, llm.c, megatron, examples, parquet and images"));
  folder.write("one.h", "1");
  EXPECT_THAT(refusal({.paths = {folder.path()}, .held_out = {"*/other.h"}}), HasSubstr("no file is held out"));
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

TEST(TokenFile, CutOffFileIsRefusedBeforeItIsRead) {
  TemporaryFolder folder;
  const auto path = folder.path() / "tokens.bin";
  write_token_file(path, std::vector<int64_t>(1000, 300));
  std::filesystem::resize_file(path, 24 + 2 * 999);
  EXPECT_THAT(message_of<DataError>([&] { read_token_header(path); }),
              HasSubstr("its header says 1000 tokens but 999 are there: the file is cut off"));
  std::filesystem::resize_file(path, 10);
  EXPECT_THAT(message_of<DataError>([&] { read_token_header(path); }), HasSubstr("not a token file"));
}

TEST(Manifest, IsNamedWithAFileOfItThatIsNotThere) {
  TemporaryFolder folder;
  const auto manifest = folder.write("data.manifest", "5 gone\n");
  EXPECT_THAT(message_of<DataError>([&] { find_data_files({.paths = {manifest}}); }),
              HasSubstr("gone: No such file or directory (a file of " + manifest.string() + ")"));
}

TEST(Manifest, RefusesFilesThatAreNoLongerWhatTheyWere) {
  TemporaryFolder folder;
  const auto one = folder.write("one.txt", "first text");
  folder.write("two.txt", "second text");
  const DataOptions options{.paths = {folder.path()}, .suffixes = {".txt"}};
  const auto manifest = folder.write("data.manifest", format_manifest(find_data_files(options)));

  check_manifest(manifest, find_data_files(options));
  EXPECT_EQ(names(find_data_files({.paths = {manifest}}).training), names(find_data_files(options).training));

  std::filesystem::resize_file(one, 4);
  EXPECT_THAT(message_of<DataError>([&] { check_manifest(manifest, find_data_files(options)); }),
              HasSubstr("has 4 bytes but"));
  EXPECT_THAT(message_of<DataError>([&] { find_data_files({.paths = {manifest}}); }),
              HasSubstr("was cut off or changed"));

  std::filesystem::remove(one);
  EXPECT_THAT(message_of<DataError>([&] { check_manifest(manifest, find_data_files(options)); }), HasSubstr("is gone"));
  folder.write("one.txt", "first text");
  folder.write("three.txt", "third text");
  EXPECT_THAT(message_of<DataError>([&] { check_manifest(manifest, find_data_files(options)); }),
              HasSubstr("began without this file"));
}

TEST(TokenStream, ReadsAcrossFilesAndNoticesAChange) {
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
  EXPECT_THAT(message_of<DataError>([&] { stream.read(2, tokens); }),
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
