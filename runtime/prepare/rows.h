// Rows of sources as ids, before padding.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "runtime/prepare/row_plan.h"
#include "runtime/prepare/sources.h"
#include "runtime/tokenizer/tokenizer.h"

namespace modular {

/// Limits on the length of rows.
struct RowLength {
  std::optional<int64_t> asked;       // longer rows are truncated
  std::optional<int64_t> positions;   // longer rows are rejected, if `asked` is not set
  std::optional<int64_t> usual = {};  // default truncation, if `asked` is not set

  std::optional<int64_t> truncated() const { return asked ? asked : usual; }
};

/// Rows, one after the other.
struct Rows {
  std::vector<int32_t> ids;
  std::vector<int64_t> lengths;                     // number of ids of each text of each row
  std::vector<uint8_t> types;                       // one per id; empty if the plan has none
  std::vector<int32_t> words;                       // index of each id's word, or -1; for lists of words
  std::vector<uint8_t> learned;                     // whether each id is the assistant's; for conversations
  std::vector<int64_t> prompts;                     // number of prompt ids of each text; for
                                                    // continuations, and if the plan leaves prompts out
  std::vector<int32_t> targets;                     // ids of the target texts
  std::vector<int64_t> target_lengths;              // one per row
  nlohmann::json labels = nlohmann::json::array();  // one per row: an integer, a number, a string, or a list of these

  size_t count() const { return lengths.size(); }
};

/// A piece's records with their location.
struct PieceRecords {
  const Source* source = nullptr;
  Piece piece;
  std::vector<Record> records;
};

/// Parses the complete text as Python's float() does: surrounding spaces and a plus sign are skipped, "inf" and "nan"
/// are numbers. Underscores between digits are not supported.
std::optional<double> real_number(const std::string& text);

/// Throws DataError, with the row's location, if a value is not a text or not a label, or if a row is too long.
Rows encode_rows(const std::vector<PieceRecords>& pieces, const RowPlan& plan, const RowLength& length,
                 Tokenizer& tokenizer);

/// Number of continuations or conversations without targets, because truncation removed them.
int64_t rows_without_targets(const Rows& rows);

/// Writes a file of rows, which gets its name when it is complete.
void write_rows(const std::filesystem::path& path, const Rows& rows);
Rows read_rows(const std::filesystem::path& path);

}  // namespace modular
