// Rows of sources as ids, not yet padded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/prepare/records.h"
#include "runtime/prepare/row_plan.h"
#include "runtime/tokenizer/tokenizer.h"

namespace modular {

/// How long rows may be.
struct RowLength {
  std::optional<int64_t> asked;       // longer ones are truncated
  std::optional<int64_t> positions;   // longer ones are rejected, where none is asked
  std::optional<int64_t> usual = {};  // default truncation, where none is asked

  std::optional<int64_t> truncated() const { return asked ? asked : usual; }
};

/// Rows, one after the other.
struct Rows {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;                     // ids of each text of each row
  std::vector<uint8_t> types;                       // of each id; empty where the plan has none
  std::vector<int32_t> words;                       // of each id, which word it is of, or -1; of lists of words
  std::vector<uint8_t> learned;                     // of each id, whether it is the assistant's; of conversations
  std::vector<int64_t> prompts;                     // of each text, how many of its ids are a prompt's; of
                                                    // continuations, and where the plan leaves prompts out
  std::vector<int32_t> targets;                     // ids of the target texts
  std::vector<int64_t> target_lengths;              // of each row
  nlohmann::json labels = nlohmann::json::array();  // of each row: an integer, a number, a string, or a list of these

  size_t count() const { return lengths.size(); }
};

/// A piece's records with where they are of.
struct PieceRecords {
  const Source* source = nullptr;
  Piece piece;
  std::vector<Record> records;
};

/// Parses the whole text as Python's float() does: surrounding spaces and a plus sign are skipped, "inf" and "nan" are
/// numbers. Underscores between digits are not supported.
std::optional<double> real_number(const std::string& text);

/// Throws DataError, with the place of the row, where a value is no text or no label, or a row is too long.
Rows encode_rows(const std::vector<PieceRecords>& pieces, const RowPlan& plan, const RowLength& length,
                 Tokenizer& tokenizer);

/// How many continuations or conversations have nothing to learn, as what was to be learned was cut off.
int64_t rows_without_targets(const Rows& rows);

/// A file of rows, which is complete when it has its name.
void write_rows(const std::filesystem::path& path, const Rows& rows);
Rows read_rows(const std::filesystem::path& path);

}  // namespace modular
