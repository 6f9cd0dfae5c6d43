// Background tasks: answer, termination by a signal, and no inherited files.
#include "runtime/launch/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

BackgroundTask::Outcome await_outcome(BackgroundTask& task) {
  pollfd event = {task.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 60000), 1) << "hung";
  return task.outcome().value_or(BackgroundTask::Outcome{.status = -1, .answer = "not ended"});
}

class Task : public testing::Test {
 protected:
  std::filesystem::path log() const { return folder_.path() / "log"; }
  TemporaryFolder folder_;
};

TEST_F(Task, AnswersAndIsLogged) {
  const std::string known(100000, 'x');  // more than a pipe holds
  BackgroundTask task(log(), [&](std::string& answer) {
    printf("said\n");
    answer = known;
    return 3;
  });
  const auto [status, answer] = await_outcome(task);
  EXPECT_EQ(status, 3);
  EXPECT_TRUE(answer == known);
  std::string line;
  std::getline(std::ifstream(log()) >> std::ws, line);
  EXPECT_EQ(line, "said");
}

TEST_F(Task, AnswersWithTheMessageOfAnException) {
  BackgroundTask task(log(), [](std::string&) -> int { throw std::runtime_error("no such thing"); });
  const auto [status, answer] = await_outcome(task);
  EXPECT_EQ(status, 1);
  EXPECT_EQ(answer, "no such thing");
}

TEST_F(Task, EndsByASignalAndWithItsObject) {
  const auto wait = [](std::string&) -> int {
    while (true) pause();
  };
  BackgroundTask task(log(), wait);
  EXPECT_FALSE(task.outcome()) << "still running";
  task.signal(SIGTERM);
  EXPECT_EQ(await_outcome(task).status, 128 + SIGTERM);
  int end = -1;
  {
    const BackgroundTask another(log(), wait);
    end = fcntl(another.descriptor(), F_DUPFD_CLOEXEC, 0);
  }
  pollfd event = {end, POLLIN, 0};
  EXPECT_EQ(poll(&event, 1, 0), 1) << "still running after destruction";
  close(end);
}

TEST_F(Task, HoldsNoLockOfThisProcess) {
  const auto path = folder_.write("lock", "");
  const int opened = open(path.c_str(), O_RDWR | O_CLOEXEC);
  const int lock = fcntl(opened, F_DUPFD_CLOEXEC, 20);  // a descriptor that the task does not use itself
  close(opened);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  BackgroundTask task(log(), [](std::string&) -> int {
    printf("begun\n");
    fflush(stdout);
    while (true) pause();
  });
  while (!std::filesystem::exists(log()) || std::filesystem::file_size(log()) == 0) sched_yield();
  close(lock);
  const int other = open(path.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(flock(other, LOCK_EX | LOCK_NB), 0) << "the task holds it";
  close(other);
}

}  // namespace
}  // namespace modular
