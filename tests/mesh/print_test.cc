// Untrusted text reaches a terminal without sequences that the terminal interprets.
#include "runtime/mesh/print.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

namespace modular {
namespace {

TEST(Printable, KeepsTextOfAnyLanguage) {
  for (const std::string text : {"", "a\tb\n", "größer 模型 🙂 \xD7\xA9", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(printable("\x1b[2J\x1b]0;title\x07"), "?[2J?]0;title?");
  EXPECT_EQ(printable("a\rb\x7f\b"), "a?b??");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xC2\x9B 2J"), "? 2J") << "CSI of ISO 6429, in UTF-8";
}

TEST(Printable, ReplacesBidirectionalOverrides) { EXPECT_EQ(printable("\u202Egnp.exe \u2066x\u2069"), "?gnp.exe ?x?"); }

TEST(Printable, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\x9b 2J"), "? 2J") << "CSI of a terminal of 8 bits";
  EXPECT_EQ(printable("\xC3"), "?") << "unfinished";
  EXPECT_EQ(printable("\xC3(\xE2\x82"), "?(??");
  EXPECT_EQ(printable("\xC0\x9B \xE0\x82\x9B"), "?? ???") << "overlong";
  EXPECT_EQ(printable("\xED\xA0\x80 \xF5\x80\x80\x80"), "??? ????") << "surrogates, and beyond the last character";
}

TEST(UnfinishedBytes, CountsBytesOfAnIncompleteCharacter) {
  for (const auto& [text, count] : {std::pair("", 0),
                                    {"a", 0},
                                    {"ä", 0},
                                    {"🙂", 0},
                                    {"a\xC3", 1},
                                    {"\xE2\x82", 2},
                                    {"\xF0\x9F\x99", 3},
                                    {"\xFF", 0},
                                    {"\x80\x80", 0},
                                    {"\xC3\xA4\x80", 0}})
    EXPECT_EQ(unfinished_bytes(text), static_cast<size_t>(count)) << text;
}

/// Redirects standard output to a pseudo-terminal.
class Terminal {
 public:
  Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)), before_(dup(STDOUT_FILENO)) {
    grantpt(master_), unlockpt(master_);
    const int terminal = open(ptsname(master_), O_RDWR | O_NOCTTY);
    dup2(terminal, STDOUT_FILENO);
    close(terminal);
  }
  ~Terminal() {
    dup2(before_, STDOUT_FILENO);
    for (const int descriptor : {before_, master_}) close(descriptor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  int master_, before_;
};

TEST(AsOutput, IsPrintableOnATerminalAndUnchangedElsewhere) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDOUT_FILENO);
  dup2(ends[1], STDOUT_FILENO);
  const std::string in_pipe = as_output("\x1b[2Jtext");
  dup2(before, STDOUT_FILENO);
  for (const int descriptor : {before, ends[0], ends[1]}) close(descriptor);
  EXPECT_EQ(in_pipe, "\x1b[2Jtext");

  std::string on_terminal;
  {
    const Terminal terminal;
    on_terminal = as_output("\x1b[2Jtext");
  }
  EXPECT_EQ(on_terminal, "?[2Jtext");
}

}  // namespace
}  // namespace modular
