// A preparation that is killed continues with the same command, and writes the same bytes as one that nobody disturbed,
// with any number of jobs; one with other options or changed sources is rejected.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/prepare/prepared.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Interrupted : public PrepareCommand {
 protected:
  Interrupted() {
    std::string rows;
    for (int row = 0; row < 4000; ++row)
      rows += "{\"text\":\"the quick brown fox " + std::to_string(row * row) + "\",\"label\":\"" +
              std::string(row % 3 == 0 ? "yes" : "no") + "\"}\n";
    source_ = folder_.write("rows.jsonl", rows).string();
  }

  Words options(const std::string& entry, const std::string& kind = "wordpiece") const {
    Words words = {source_, "--tokenizer", tokenizer(kind), "--entry", entry};
    return entry == "LlamaForCausalLM" ? words : with(words, {"--label", "label"});
  }

  /// Starts it, and kills it once `shards` files of the unfinished folder are there.
  void kill_after(size_t shards, const Words& arguments) const {
    kill_once(arguments, [&] { return done() >= shards; });
  }

  void kill_once(const Words& arguments, const std::function<bool()>& holds) const {
    const auto started = testing::start_program(with({MODRUN}, arguments), folder_.path());
    testing::await(started, holds);
    ::kill(started.pid, SIGKILL);
    testing::end_of_program(started);
  }

  size_t done() const {
    size_t count = 0;
    std::error_code error;
    for (fs::recursive_directory_iterator entry(out("cut") + ".partial", error), end; !error && entry != end;
         entry.increment(error)) {
      const auto suffix = entry->path().extension();
      count += suffix == ".tokens" || suffix == ".safetensors" ? 1 : 0;
    }
    return count;
  }

  std::string source_;
};

TEST_F(Interrupted, GoesOnToTheSameBytes) {
  for (const std::string entry : {"LlamaForCausalLM", "BertForSequenceClassification"}) {
    const auto whole = prepare(with(options(entry), {"--jobs", "1"}), "whole");
    ASSERT_EQ(whole.status, 0) << whole.output;
    for (const size_t shards : {1, 5, 20}) {
      kill_after(shards, preparing(options(entry), "cut"));
      EXPECT_FALSE(fs::exists(out("cut")));
      EXPECT_GE(done(), shards);
    }
    // And in the middle of what follows when all rows are encoded.
    kill_once(preparing(options(entry), "cut"),
              [&] { return fs::exists(out("cut") + ".partial/part-00003.safetensors"); });
    const auto rest = prepare(with(options(entry), {"--jobs", "3"}), "cut");
    ASSERT_EQ(rest.status, 0) << rest.output;
    EXPECT_FALSE(fs::exists(out("cut") + ".partial"));
    EXPECT_TRUE(get_files(out("cut")) == get_files(out("whole")));
    fs::remove_all(out("cut")), fs::remove_all(out("whole"));
  }
}

TEST_F(Interrupted, GoesOnWithoutDoingAgainWhatIsDone) {
  const Words all = options("LlamaForCausalLM");
  kill_after(10, preparing(all, "cut"));
  const auto file = fs::path(out("cut") + ".partial") / "part-00003.tokens";
  const auto written = fs::last_write_time(file);
  ASSERT_EQ(prepare(all, "cut").status, 0);
  EXPECT_EQ(fs::last_write_time(fs::path(out("cut")) / "part-00003.tokens"), written);
}

TEST_F(Interrupted, IsRejectedWithOtherOptionsOrSources) {
  const Words all = options("BertForSequenceClassification");
  kill_after(5, preparing(all, "cut"));
  const auto files = get_files(out("cut") + ".partial");
  const auto rejected = [&](const Words& words, const std::string& why) {
    const auto run = modrun(words);
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, HasSubstr(why));
    EXPECT_EQ(get_files(out("cut") + ".partial"), files) << "nothing of it is touched";
  };
  rejected(preparing(with(all, {"--seq-len", "16"}), "cut"), "was prepared with seq_len = null, and now that is 16");
  rejected(preparing(options("BertForSequenceClassification", "unigram"), "cut"),
           "was prepared with another tokenizer");
  std::ofstream(source_, std::ios::app) << "{\"text\":\"more\",\"label\":\"no\"}\n";
  rejected(preparing(all, "cut"), "rows.jsonl is another file or has changed since");
}

TEST_F(Interrupted, IsRejectedWithAnotherVersionOfThePackage) {
  const Words all = options("LlamaForCausalLM");
  const auto whole = prepare(all, "whole");
  ASSERT_EQ(whole.status, 0) << whole.output;
  kill_after(5, preparing(all, "cut"));
  const auto done_files = [&] {
    auto files = get_files(out("cut") + ".partial");
    files.erase("work/run.lock");  // of the program that looks
    return files;
  };
  const auto files = done_files();
  // The same package, which says of itself that it is another version.
  folder_.write("other/sitecustomize.py", "import tokenizers\ntokenizers.__version__ = '0.0.7'\n");
  const fs::path python = folder_.write("python", "#!/bin/sh\nPYTHONPATH='" + (folder_.path() / "other").string() +
                                                      "' exec '" PARITY_PYTHON "' \"$@\"\n");
  fs::permissions(python, fs::perms::owner_all);
  const Words with_other = with(all, {"--python", python.string()});
  const auto rejected = prepare(with_other, "cut");
  EXPECT_EQ(rejected.status, 2) << rejected.output;
  EXPECT_THAT(rejected.output, HasSubstr("was begun with tokenizers "));
  EXPECT_THAT(rejected.output,
              HasSubstr(python.string() + " has tokenizers 0.0.7, whose ids may be others: continue with "
                                          "--python of the former, or remove the folder"));
  EXPECT_TRUE(done_files() == files) << "nothing of it is touched";
  ASSERT_EQ(prepare(all, "cut").status, 0);
  EXPECT_TRUE(get_files(out("cut")) == get_files(out("whole")));
  const auto begun_with_it = prepare(with_other, "other-version");
  EXPECT_EQ(begun_with_it.status, 0) << begun_with_it.output;
}

TEST_F(Interrupted, OneProgramAtATimePreparesAFolder) {
  const Words all = preparing(options("LlamaForCausalLM"), "cut");
  const auto first = testing::start_program(with({MODRUN}, all), folder_.path());
  testing::await(first, [&] { return done() >= 1; });
  ::kill(first.pid, SIGSTOP);
  const auto second = modrun(all);
  ::kill(first.pid, SIGCONT);
  EXPECT_EQ(second.status, 2) << second.output;
  EXPECT_THAT(second.output, HasSubstr("is in use by process"));
  EXPECT_EQ(testing::end_of_program(first).status, 0);
}

TEST_F(Interrupted, WhatIsCompleteIsLeftAsItIs) {
  const Words all = options("LlamaForCausalLM");
  ASSERT_EQ(prepare(all).status, 0);
  const auto files = get_files(out());
  const auto again = prepare(all);
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.output, HasSubstr("is complete"));
  const auto other = prepare(options("BertForSequenceClassification"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.output, HasSubstr("was prepared with"));
  EXPECT_EQ(get_files(out()), files);
}

}  // namespace
}  // namespace modular
