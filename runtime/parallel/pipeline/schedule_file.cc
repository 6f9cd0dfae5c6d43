// Reads and formats schedule files.
#include "runtime/parallel/pipeline/pipeline_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

#include "runtime/files/open_file.h"

namespace modular {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLetters = "FIWB";  // in the order of PipelineAction::Kind
constexpr std::string_view kSpaces = " \t\r";

/// A piece of a line, and its 1-based column.
struct Piece {
  std::string_view text;
  size_t column;
};

Piece trimmed(Piece piece) {
  const size_t first = std::min(piece.text.find_first_not_of(kSpaces), piece.text.size());
  const size_t last = piece.text.find_last_not_of(kSpaces);
  return {piece.text.substr(first, last == std::string_view::npos ? 0 : last + 1 - first), piece.column + first};
}

std::vector<Piece> split(Piece piece, char at) {
  std::vector<Piece> pieces;
  for (size_t begin = 0; begin <= piece.text.size();) {
    const size_t end = std::min(piece.text.find(at, begin), piece.text.size());
    pieces.push_back(trimmed({piece.text.substr(begin, end - begin), piece.column + begin}));
    begin = end + 1;
  }
  return pieces;
}

class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(file) {}

  PipelineSchedule read() {
    LineReader lines = opened();
    for (std::string line; lines.next(line);) {
      ++line_;
      std::vector<PipelineAction> actions;
      for (const Piece& cell : split({line, 1}, ',')) read_cell(cell, actions);
      schedule_.ranks.push_back(std::move(actions));
    }
    while (!schedule_.ranks.empty() && schedule_.ranks.back().empty()) schedule_.ranks.pop_back();
    if (schedule_.ranks.empty())
      throw std::runtime_error(fmt::format(
          "parallel.schedule: {} has no actions: write a row of cells like 0F0 for each rank", file_.string()));
    for (size_t stage = 0; stage < schedule_.stage_ranks.size(); ++stage)
      if (schedule_.stage_ranks[stage] < 0)
        throw std::runtime_error(
            fmt::format("parallel.schedule: {} has stage {} but lacks stage {}: number the stages from 0 without gaps",
                        file_.string(), schedule_.stage_ranks.size() - 1, stage));
    return std::move(schedule_);
  }

 private:
  LineReader opened() const {
    try {
      return LineReader(file_, Links::followed);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("parallel.schedule: {}", error.what()));
    }
  }

  [[noreturn]] void reject(const Piece& piece, const std::string& sentence) const {
    throw std::runtime_error(fmt::format("{}:{}:{}: {}", file_.string(), line_, piece.column, sentence));
  }

  void read_cell(const Piece& cell, std::vector<PipelineAction>& actions) {
    if (cell.text.empty()) return;
    if (cell.text.front() != '(') return read_action(cell, actions);
    const size_t end = cell.text.find(')');
    if (end == std::string_view::npos || cell.text.substr(end + 1) != "OVERLAP_F_B") reject_cell(cell);
    for (const Piece& part : split({cell.text.substr(1, end - 1), cell.column + 1}, ';')) read_action(part, actions);
  }

  void read_action(const Piece& piece, std::vector<PipelineAction>& actions) {
    const char* const end = piece.text.data() + piece.text.size();
    int64_t stage = 0, micro_batch = 0;
    const auto [letter, no_stage] = std::from_chars(piece.text.data(), end, stage);
    if (no_stage != std::errc() || letter == end) reject_cell(piece);
    const size_t kind = kLetters.find(*letter);
    if (kind == std::string_view::npos) reject_cell(piece);
    const auto [rest, no_micro_batch] = std::from_chars(letter + 1, end, micro_batch);
    if (no_micro_batch != std::errc() || rest != end || stage < 0 || micro_batch < 0) reject_cell(piece);
    if (stage >= kMaxStages)
      reject(piece, fmt::format("stage {} is too large: a pipeline has at most {} stages", stage, kMaxStages));
    assign_rank(piece, stage);
    actions.push_back({static_cast<PipelineAction::Kind>(kind), stage, micro_batch});
  }

  void assign_rank(const Piece& piece, int64_t stage) {
    const auto rank = static_cast<int64_t>(schedule_.ranks.size());
    if (stage >= schedule_.stages()) schedule_.stage_ranks.resize(static_cast<size_t>(stage) + 1, -1);
    int64_t& assigned = schedule_.stage_ranks[static_cast<size_t>(stage)];
    if (assigned >= 0 && assigned != rank)
      reject(piece, fmt::format("stage {} is on rank {}, whose row is line {}: a stage has one rank", stage, assigned,
                                assigned + 1));
    assigned = rank;
  }

  [[noreturn]] void reject_cell(const Piece& piece) const {
    reject(piece,
           fmt::format("\"{}\" is not a cell: write a stage, one of F, I, W and B, and a micro-batch, as in 0F1, "
                       "or nothing where the rank waits",
                       piece.text));
  }

  const fs::path& file_;
  size_t line_ = 0;
  PipelineSchedule schedule_;
};

}  // namespace

PipelineSchedule read_schedule(const fs::path& file) { return Reader(file).read(); }

std::string format_schedule(const PipelineSchedule& schedule) {
  std::string text;
  for (const auto& actions : schedule.ranks) {
    for (const PipelineAction& action : actions) {
      if (&action != &actions.front()) text += ',';
      text += format_cell(action);
    }
    text += '\n';
  }
  return text;
}

}  // namespace modular
