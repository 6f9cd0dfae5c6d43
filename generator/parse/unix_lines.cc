#include "generator/parse/unix_lines.h"

#include <llvm/Support/MemoryBuffer.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "generator/source/line_endings.h"

namespace modgen {
namespace {

class ConvertedFile : public llvm::vfs::File {
 public:
  ConvertedFile(llvm::vfs::Status status, const std::string& text) : status_(std::move(status)), text_(text) {}

  llvm::ErrorOr<llvm::vfs::Status> status() override { return status_; }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> getBuffer(const llvm::Twine& name, int64_t, bool, bool) override {
    return llvm::MemoryBuffer::getMemBufferCopy(text_, name);
  }
  std::error_code close() override { return {}; }

 private:
  llvm::vfs::Status status_;
  const std::string& text_;
};

class UnixLines : public llvm::vfs::ProxyFileSystem {
 public:
  UnixLines() : ProxyFileSystem(llvm::vfs::getRealFileSystem()) {}

  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine& path) override {
    auto status = ProxyFileSystem::status(path);
    if (!status || status->isDirectory()) return status;
    if (!status->isRegularFile()) return std::make_error_code(std::errc::no_such_file_or_directory);
    const std::string* text = converted(path.str());
    return text ? llvm::vfs::Status::copyWithNewSize(*status, text->size()) : status;
  }

  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(const llvm::Twine& path) override {
    const auto found = status(path);
    if (!found) return found.getError();
    const std::string* text = found->isRegularFile() ? converted(path.str()) : nullptr;
    if (!text) return ProxyFileSystem::openFileForRead(path);
    return std::unique_ptr<llvm::vfs::File>(std::make_unique<ConvertedFile>(*found, *text));
  }

 private:
  /// The file's text with "
  /// " line endings; null if it already has them.
  const std::string* converted(const std::string& path) {
    if (llvm::StringRef(path).ends_with(".pch")) return nullptr;
    const auto [known, is_new] = converted_.try_emplace(path);
    if (is_new)
      if (const auto buffer = llvm::MemoryBuffer::getFile(path); buffer && (*buffer)->getBuffer().contains('\r'))
        known->second = std::make_unique<const std::string>(with_unix_lines((*buffer)->getBuffer()));
    return known->second.get();
  }

  std::map<std::string, std::unique_ptr<const std::string>> converted_;
};

}  // namespace

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files_with_unix_lines() {
  return llvm::makeIntrusiveRefCnt<UnixLines>();
}

}  // namespace modgen
