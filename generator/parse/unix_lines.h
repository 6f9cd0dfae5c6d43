// The compiler's view of files.
#pragma once

#include <llvm/Support/VirtualFileSystem.h>

namespace modgen {

/// The real file system with "
/// " line endings in every text. Anything that is neither a file nor a directory (such as a pipe without a writer) does
/// not exist.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files_with_unix_lines();

}  // namespace modgen
