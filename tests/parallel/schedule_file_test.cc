// Pipeline schedule files, and errors for invalid ones.
#include "runtime/parallel/pipeline/pipeline_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "runtime/parallel/pipeline/known_schedules.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

class ScheduleFile : public ::testing::Test {
 protected:
  PipelineSchedule read(const std::string& text) const {
    std::ofstream(file_) << text;
    return read_schedule(file_);
  }
  /// The error message after the file's path.
  std::string error(const std::string& text) const {
    try {
      read(text);
    } catch (const std::runtime_error& error) {
      const std::string sentence = error.what();
      const size_t path = sentence.find(file_.string());
      return path == std::string::npos ? sentence : sentence.substr(path + file_.string().size());
    }
    return "none";
  }
  void TearDown() override { fs::remove(file_); }

  const fs::path file_ = fs::path(::testing::TempDir()) /
                         (std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".csv");
};

TEST_F(ScheduleFile, ReadsWhatItWrites) {
  for (const KnownSchedule& known : known_schedules()) {
    const PipelineSchedule schedule = known.make(2, known.usual_stages, 4), found = read(format_schedule(schedule));
    EXPECT_EQ(found.stage_ranks, schedule.stage_ranks) << known.name;
    EXPECT_EQ(found.ranks, schedule.ranks) << known.name;
  }
}

TEST_F(ScheduleFile, ReadsPyTorchsFormat) {
  // As csv.writer writes it, with CRLF line ends and padding.
  const PipelineSchedule schedule = read("0F0,,(0F1;0B0)OVERLAP_F_B,0B1\r\n,1F0,1I0, 1W0,1F1,1B1\r\n");
  EXPECT_EQ(format_schedule(schedule), "0F0,0F1,0B0,0B1\n1F0,1I0,1W0,1F1,1B1\n");
  EXPECT_EQ(schedule.stage_ranks, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(find_problem(schedule, 2), "");
}

TEST_F(ScheduleFile, NamesTheInvalidCell) {
  const std::string remedy =
      " is not a cell: write a stage, one of F, I, W and B, and a micro-batch, as in 0F1, or nothing where the rank "
      "waits";
  EXPECT_EQ(error("0F0,0B0\n1F0, 1X0\n"), ":2:6: \"1X0\"" + remedy);
  EXPECT_EQ(error("0F0,F0"), ":1:5: \"F0\"" + remedy);
  EXPECT_EQ(error("0F0,0B"), ":1:5: \"0B\"" + remedy);
  EXPECT_EQ(error("0SEND_F0"), ":1:1: \"0SEND_F0\"" + remedy);
  EXPECT_EQ(error("-1F0"), ":1:1: \"-1F0\"" + remedy);
  EXPECT_EQ(error("0F0,(0F1;x)OVERLAP_F_B"), ":1:10: \"x\"" + remedy);
  EXPECT_EQ(error("(0F1;0B0)BOTH"), ":1:1: \"(0F1;0B0)BOTH\"" + remedy);
  EXPECT_EQ(error("99999999F0"), ":1:1: stage 99999999 is too large: a pipeline has at most 65536 stages");
  EXPECT_EQ(error("0F0\n1F0,0B0\n"), ":2:5: stage 0 is on rank 0, whose row is line 1: a stage has one rank");
}

TEST_F(ScheduleFile, RejectsFilesWithoutActionsOrWithGaps) {
  EXPECT_EQ(error("\n,,\n"), " has no actions: write a row of cells like 0F0 for each rank");
  EXPECT_EQ(error("0F0\n2F0\n"), " has stage 2 but lacks stage 1: number the stages from 0 without gaps");
  EXPECT_THROW(read_schedule("no/such/file.csv"), std::runtime_error);
}

}  // namespace
}  // namespace modular
