// What the programs of the differential fuzzer share: families.py writes their code, judge.py builds and runs them.
#pragma once

#include <sys/wait.h>
#include <torch/nn/module.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace oracle {

/// The family whose objects are being used, by its place in the chain.
inline int level = 0;

/// Marks the constructors that skip to an ancestor's, n classes up.
template <int n>
struct Skip {};

struct Registry : torch::nn::Module {
  static torch::OrderedDict<std::string, at::Tensor>& get_parameters(torch::nn::Module& module) {
    return module.*(&Registry::parameters_);
  }
};

/// register_parameter of a name that a base registers: at its place.
inline at::Tensor registered_again(torch::nn::Module& module, const std::string& name, at::Tensor value) {
  value.set_requires_grad(true);
  return Registry::get_parameters(module)[name] = value;
}

/// remove(): the parameter is registered no more.
inline void forget(torch::nn::Module& module, const std::string& name) { Registry::get_parameters(module).erase(name); }

}  // namespace oracle

namespace differential {

inline void show(const char* label, int64_t value) { std::printf("  %s %lld\n", label, static_cast<long long>(value)); }
inline void show(const char* label, int value) { std::printf("  %s %d\n", label, value); }
inline void show(const char* label, bool value) { std::printf("  %s %s\n", label, value ? "true" : "false"); }
inline void show(const char* label, double value) { std::printf("  %s %a (%g)\n", label, value, value); }
inline void show(const char* label, float value) {
  std::printf("  %s %a (%g)\n", label, static_cast<double>(value), static_cast<double>(value));
}
inline void show(const char* label, char value) { std::printf("  %s '%c'\n", label, value); }
inline void show(const char* label, const std::string& value) { std::printf("  %s \"%s\"\n", label, value.c_str()); }
template <class Element>
void show(const char* label, const std::vector<Element>& values) {
  std::printf("  %s %zu elements\n", label, values.size());
  for (const auto& value : values) show(label, value);
}
inline void show(const char* label, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous().reshape(-1);
  show(label, std::vector<double>(values.data_ptr<double>(), values.data_ptr<double>() + values.numel()));
}

/// Errors of TORCH_CHECK have a place in their text, which differs.
inline std::string described(const std::exception& error) {
  return dynamic_cast<const c10::Error*>(&error) ? "c10::Error" : error.what();
}

/// The names of the state dict in their order, after members that a family calls otherwise: `renamed` has them with
/// what holds them.
inline std::vector<std::string> get_names(const torch::nn::Module& module,
                                          const std::map<std::string, std::string>& renamed) {
  std::vector<std::string> names;
  for (const auto& item : module.named_parameters()) {
    std::string name;
    for (size_t begin = 0; begin <= item.key().size();) {
      size_t end = item.key().find('.', begin);
      if (end == std::string::npos) end = item.key().size();
      const auto found = renamed.find(item.key().substr(0, end));
      name += (begin ? "." : "") + (found == renamed.end() ? item.key().substr(begin, end - begin) : found->second);
      begin = end + 1;
    }
    names.push_back(name);
  }
  return names;
}

struct Case {
  int program, level;
  void (*run)();
};

/// Each case in a process of its own: one that crashes or never ends leaves the others alone.
template <class Cases>
int run_all(const Cases& cases) {
  torch::NoGradGuard no_grad;
  for (const Case& one : cases) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      oracle::level = one.level;
      alarm(5);
      try {
        one.run();
      } catch (const std::exception& error) {
        std::printf("  exception %s\n", error.what());
      }
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("= %d %d %d\n", one.program, one.level, status);
  }
  return 0;
}

}  // namespace differential
