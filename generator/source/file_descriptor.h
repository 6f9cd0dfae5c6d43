// An open file that is closed at the end of its scope.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace modgen {

class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) close(number_);
  }

  /// Closes the file now. Returns the errno of errors that only closing reveals (a write that a server rejected), or 0.
  int close_now() { return close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

  bool is_open() const { return number_ >= 0; }
  operator int() const { return number_; }  // NOLINT(google-explicit-constructor)

 private:
  int number_;
};

}  // namespace modgen
