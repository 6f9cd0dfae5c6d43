// Files as the compiler sees them.
#pragma once

#include <llvm/Support/VirtualFileSystem.h>

namespace modgen {

/// The real file system, in which the lines of every text end in "\n", and what is neither a file nor a folder (a pipe
/// that nobody writes to) does not exist.
llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> files_with_unix_lines();

}  // namespace modgen
