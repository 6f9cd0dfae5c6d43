// Examples with integers of every width.
#include "runtime/data/examples.h"

#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

ModelConfig default_llama() { return parse_config(R"({"model_type": "llama"})", "config.json"); }

TEST(Examples, IdsOfEveryTypeAreComparedWithTheVocabularySize) {
  const TemporaryFolder folder;
  for (const at::ScalarType type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kUInt16, at::kUInt32, at::kUInt64}) {
    write_safetensors(folder.path() / "file", {{"input_ids", at::full({3, 4}, 7, at::kLong).to(type)}});
    const Examples examples({folder.path() / "file"}, default_llama());
    examples.check_ids();
    const std::vector<int64_t> rows = {0, 2};
    EXPECT_TRUE(at::equal(examples.read(rows).input_ids, at::full({2, 4}, 7, at::kLong))) << c10::toString(type);
  }
}

TEST(Examples, FilesMayHoldIdsOfDifferentTypes) {
  const TemporaryFolder folder;
  write_safetensors(folder.path() / "a", {{"input_ids", at::full({1, 4}, 7, at::kLong)}});
  write_safetensors(folder.path() / "b", {{"input_ids", at::full({1, 4}, 7, at::kLong).to(at::kUInt64)}});
  const Examples examples({folder.path() / "a", folder.path() / "b"}, default_llama());
  const std::vector<int64_t> rows = {0, 1};
  EXPECT_TRUE(at::equal(examples.read(rows).input_ids, at::full({2, 4}, 7, at::kLong)));
}

TEST(Examples, RejectsAnIdBeyondTheVocabularyInAnyRowAndType) {
  const TemporaryFolder folder;
  const at::Tensor ids = at::zeros({3, 4}, at::kLong);
  ids[2][3] = 65535;
  write_safetensors(folder.path() / "file", {{"input_ids", ids.to(at::kUInt16)}});
  const auto message =
      get_message<std::runtime_error>([&] { Examples({folder.path() / "file"}, default_llama()).check_ids(); });
  EXPECT_NE(message.find("file: \"input_ids\" holds 65535: write ids from 0 to 31999"), std::string::npos) << message;
}

}  // namespace
}  // namespace modular
