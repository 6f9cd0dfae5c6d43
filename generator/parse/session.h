// The first stage, parse: one translation unit of all requested specs on top of a cached precompiled prelude. The same
// compiler then reads the flattened texts, so that Clang reports errors introduced by flattening.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Support/MemoryBuffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "generator/parse/compiler.h"
#include "generator/source/parsed.h"

namespace modgen {

/// Owns Clang and what it has read. Syntax trees stay valid as long as the session.
class Session {
 public:
  /// Reads nothing but the prelude. `spec_paths` are relative to the root or the shipped tree, as an #include names
  /// them. Throws std::runtime_error if the prelude does not compile.
  Session(const ParseOptions& options, std::vector<std::string> spec_paths);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Reads the next spec. Returns false if there is none or if Clang finds an error; it then reads the remaining specs
  /// as well, for their errors.
  bool read_spec();

  /// Number of specs that have been read, and whether more follow.
  size_t specs_read() const { return specs_read_; }
  bool has_next_spec() const { return specs_read_ < spec_paths_.size(); }

  /// Reads flattened texts instead of the specs that remain. Returns their indices in the table of files, in order; an
  /// error may hide the last ones.
  std::vector<uint32_t> read_flattened(const std::vector<std::string>& texts);

  clang::CompilerInstance& compiler() { return *compiler_; }
  Parsed& parsed() { return parsed_; }

 private:
  class Action;
  class Reader;

  /// Runs `read`, which may crash in Clang.
  void read_safely(llvm::function_ref<void()> read);
  /// Returns the name of the file.
  std::string set_file(const char* folder, size_t index, const std::string& text);
  bool has_errors() const;

  ParseOptions options_;
  std::vector<std::string> spec_paths_;
  Parsed parsed_;
  Remarks remarks_;
  std::unique_ptr<llvm::MemoryBuffer> text_;  // includes the specs
  std::unique_ptr<clang::CompilerInstance> compiler_;
  std::unique_ptr<Action> action_;
  std::unique_ptr<Reader> reader_;
  size_t specs_read_ = 0;
  bool is_open_ = false;  // false if Clang rejects the prelude
  bool crashed_ = false;
};

}  // namespace modgen
