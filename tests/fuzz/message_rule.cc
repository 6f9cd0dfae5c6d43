#include "tests/fuzz/message_rule.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <typeinfo>

#include "runtime/data/files.h"
#include "runtime/model/config.h"

namespace modular::fuzz {
namespace {

/// Beginnings of libraries' own messages.
constexpr std::array<std::string_view, 9> kOfLibraries = {
    "[json.exception", "filesystem error", "basic_string", "vector::", "Exception raised from",
    "INTERNAL ASSERT", "std::bad_",        "stoll",        "_M_"};

constexpr size_t kLongest = 100'000;  // a text of the input may be part of the message

std::string name_for(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  return name ? name.get() : type.name();
}

}  // namespace

std::string broken_rule(const std::exception& error, std::span<const std::string_view> locations) {
  const std::type_info& type = typeid(error);
  if (type != typeid(ConfigError) && type != typeid(DataError) && type != typeid(std::runtime_error))
    return "it is a " + name_for(type);
  const std::string_view message = error.what();
  const auto holds = [&](std::string_view part) { return message.find(part) != std::string_view::npos; };
  if (std::ranges::none_of(locations, holds)) return "it does not say where";
  if (const auto* const found = std::ranges::find_if(kOfLibraries, holds); found != kOfLibraries.end())
    return "it has a library's words, \"" + std::string(*found) + "\"";
  if (message.size() > kLongest) return "it has " + std::to_string(message.size()) + " characters";
  return {};
}

std::string kind_of_message(std::string_view message) {
  std::string kind;
  bool quoted = false;
  for (const char c : message) {
    if (c == '"') quoted = !quoted;
    if (quoted && c != '"') continue;
    if (!std::isdigit(static_cast<unsigned char>(c)))
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  }
  return kind.substr(0, 200);
}

}  // namespace modular::fuzz
