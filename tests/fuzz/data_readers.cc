// Token files, manifests, and the records of generated files.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "checks/records.h"
#include "runtime/data/files.h"
#include "runtime/data/token_dataset.h"
#include "runtime/data/token_formats.h"
#include "tests/data/temporary_folder.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/readers.h"

namespace modular::fuzz {
namespace {

Input make_tokens(Random& random) {
  static const std::vector<std::string> valid = [] {
    const TemporaryFolder folder;
    std::vector<std::string> files;
    for (const int64_t highest : {200, 60'000, 1 << 20}) {
      write_token_file(folder.path() / "file", std::vector<int64_t>{1, 2, 3, highest, 5});
      files.push_back(get_files(folder.path()).at("file"));
    }
    return files;
  }();
  return {{{"a.tokens", mutated_text(random.pick(valid), {}, random)}, {"b.tokens", valid.front()}}, {}};
}

void read_tokens(const std::string& format, const std::string& path) {
  DataOptions options;
  options.format = format;
  options.paths = {path};
  const TokenStream stream(find_data_files(options).training);
  std::vector<int64_t> tokens(static_cast<size_t>(std::min<int64_t>(stream.size(), 1000)));
  stream.read(0, tokens);
  stream.read(stream.size() - static_cast<int64_t>(tokens.size()), tokens);
}

template <class... Numbers>
std::string get_bytes(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

/// Token files of other projects; the name of the format is the name of a file.
Input make_foreign_tokens(Random& random) {
  static const std::vector<std::pair<std::string, std::map<std::string, std::string>>> valid = [] {
    std::string llm_c = get_bytes(int32_t{20240520}, int32_t{1}, int32_t{3});
    llm_c.resize(1024, '\0');
    const std::string ids = get_bytes(uint16_t{1}, uint16_t{2}, uint16_t{60'000});
    const std::string index = std::string("MMIDIDX\0\0", 9) + get_bytes(uint64_t{1}, uint8_t{8}) +
                              get_bytes(uint64_t{2}, uint64_t{2}) + get_bytes(int32_t{1}, int32_t{2}) +
                              get_bytes(int64_t{0}, int64_t{2}, int64_t{0}, int64_t{2});
    return std::vector<std::pair<std::string, std::map<std::string, std::string>>>{
        {"nanogpt", {{"a.bin", ids}}},
        {"llm.c", {{"a.bin", llm_c + ids}}},
        {"megatron", {{"a.bin", ids}, {"a.idx", index}}}};
  }();
  auto [format, files] = random.pick(valid);
  Input input;
  const std::string changed = format == "megatron" ? "a.idx" : "a.bin";
  for (auto& [name, bytes] : files) input.files[name] = name == changed ? mutated_text(bytes, {}, random) : bytes;
  input.files["format"] = format;
  return input;
}

Input make_manifest(Random& random) {
  static constexpr std::array<std::string_view, 8> kWords = {"a.txt",         "b.txt", "5 ",     "4 ",
                                                             "data.manifest", "*",     "a.txt ", "-4"};
  Input input{{{"a.txt", "abcde"}, {"b.txt", "abcd"}}, {}};
  input.files["data.manifest"] = mutated_text("5 a.txt\n4 b.txt\n", kWords, random);
  return input;
}

void read_manifest(const Input&) {
  DataOptions options;
  options.paths = {"a.txt", "b.txt"};
  read_tokens("bytes", "data.manifest");
  const DataFiles files = find_data_files(options);
  std::ofstream("run.manifest") << format_manifest(files);
  check_manifest("run.manifest", files);
  try {
    check_manifest("data.manifest", files);  // its relative paths are not a run's
  } catch (const DataError&) {
  }
}

Input make_record(Random& random) {
  static constexpr std::array<std::string_view, 9> kWords = {"format", "generator", "llvm",   "torch",     "output",
                                                             "spec",   "read",      "absent", "<shipped>/"};
  modgen::Record record{.generator = "0123", .llvm = "19.1.7", .torch = "2.11.0", .output = "4567"};
  record.spec = {"modular/llama.h", "89ab"};
  record.read = {{"modular/modular.h", "cdef"}, {"<shipped>/runtime/model/model.h", "0011"}};
  record.absent = {"modular/torch/torch.h"};
  return {{{"llama.lock", mutated_text(modgen::to_text(record), kWords, random)}}, {}};
}

void read_record(const Input& input) {
  const modgen::Record record = modgen::parse_record(input.files.at("llama.lock"));
  modgen::TreeFiles files({".", "."});
  modgen::reasons_to_regenerate(record, files, "llama", ".", modgen::built_generator());
  modgen::is_current(files, "llama", ".");
}

}  // namespace

std::vector<Reader> data_readers() {
  return {{"tokens", "token files", make_tokens, [](const Input&) { read_tokens("tokens", "a.tokens"); }, {"a.tokens"}},
          {"foreign_tokens",
           "files of ids of other projects",
           make_foreign_tokens,
           [](const Input& input) { read_tokens(input.files.at("format"), "a.bin"); },
           {"a.bin", "a.idx", "data.paths"}},
          {"manifest", "manifests", make_manifest, read_manifest, {".txt", "data.manifest", "data.paths"}},
          {"record", "records of generated files", make_record, read_record, {"line ", "record", "./"}}};
}

}  // namespace modular::fuzz
