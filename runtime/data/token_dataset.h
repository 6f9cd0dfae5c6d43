// Texts: all tokens of a list of files, concatenated and cut into samples of equal length.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/data_formats.h"
#include "runtime/data/masking.h"

namespace modular {

class OpenFiles;

/// All tokens of a list of files, concatenated.
class TokenStream {
 public:
  explicit TokenStream(std::vector<DataFile> files);

  /// Number of tokens.
  int64_t size() const { return begin_.back(); }
  const std::vector<DataFile>& files() const { return files_; }

  /// The file that holds a token.
  const DataFile& get_file(int64_t token) const;

  /// Positions, relative to `begin`, between `begin` and `end` (exclusive) at which a file begins; ascending.
  std::vector<int64_t> file_begins(int64_t begin, int64_t end) const;

  /// Reads tokens [begin, begin + out.size()). Throws DataError if a file has changed since it was found, or cannot be
  /// read. Files stay open, up to a few hundred. Thread-safe.
  void read(int64_t begin, std::span<int64_t> out) const;

 private:
  std::vector<DataFile> files_;
  std::vector<int64_t> begin_;  // first token of each file, and last the total size
  std::shared_ptr<OpenFiles> open_;
};

/// Bytes that check_tokens() reads: less than a second's work if the files are in the page cache.
inline constexpr int64_t kCheckedTokenBytes = int64_t{1} << 30;

/// Throws DataError naming the file if an id is not below `vocab_size`. Files whose id type cannot exceed it are not
/// read. If the files have more than `most_bytes`, only blocks that are spread evenly over all files are read; an id
/// outside these blocks ends the run when it is read (TokenDataset).
void check_tokens(const std::vector<DataFile>& files, int64_t vocab_size, int64_t most_bytes = kCheckedTokenBytes);

/// Several documents in a row of tokens, each processed as if it were alone.
struct Packing {
  int64_t end_of_text = -1;       // token that ends a document; negative if only the end of a file does
  int64_t first_position = 0;     // position id of a document's first token
  bool is_next_predicted = true;  // labels are the next tokens, except across documents
};

/// Computes the documents of a row. The row's first token begins a document, whatever precedes it in the text.
/// - tokens [seq]; file_begins: indices in the row at which a file begins, ascending
/// - documents, positions [seq]: index of each token's document in the row, and its position id in the document
/// - labels [seq]: labels of tokens that nothing predicts become kIgnoredTarget
void pack(std::span<const int64_t> tokens, std::span<const int64_t> file_begins, const Packing& packing,
          std::span<int64_t> documents, std::span<int64_t> positions, std::span<int64_t> labels);

/// Running text, cut into samples of equal length.
class TokenDataset final : public Dataset {
 public:
  /// Cuts `stream` into samples of `seq_len` tokens and drops the rest at its end. Throws DataError if there is not one
  /// full sample. Reading throws DataError if a token is not below `vocab_size`. Labels are the tokens themselves, or
  /// those that `masking` chooses by `seed` and the position. With `packing` the documents of a sample do not attend to
  /// each other.
  TokenDataset(TokenStream stream, int64_t seq_len, int64_t vocab_size, const std::optional<Masking>& masking = {},
               uint64_t seed = 0, const std::optional<Packing>& packing = {});

  int64_t count() const override { return stream_.size() / seq_len_; }
  int64_t tokens() const override { return seq_len_; }
  Batch read(std::span<const SamplePosition> positions, int64_t rows) const override;
  void validate() const override;

 private:
  TokenStream stream_;
  int64_t seq_len_, vocab_size_;
  std::optional<Masking> masking_;
  uint64_t seed_;
  std::optional<Packing> packing_;
};

// Functions of the formats of texts (DataFormat).
std::unique_ptr<Dataset> open_text(const DatasetRequest& request);
Batch make_blank_text(const DatasetRequest& request, int64_t samples);
std::string describe_text(const Dataset* dataset);

}  // namespace modular
