// Where the time of a piece of work goes, by kind of operation.
#pragma once

#include <functional>

namespace modular {

/// Runs `work` and prints each kind of operation's share of its wall time, and that of each operation. Time counts
/// where it is spent: an operation's callees are not counted to it.
void print_shares(const char* title, const std::function<void()>& work);

}  // namespace modular
