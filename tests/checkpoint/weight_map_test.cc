// The index of a Hugging Face folder names files of that folder alone.
#include <gmock/gmock.h>

#include "runtime/checkpoint/pretrained.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string error(const std::string& file) {
  const ModelConfig model = parse_config(R"({"model_type": "llama"})", "config.json");
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json", R"({"weight_map": {"lm_head.weight": ")" + file + R"("}})");
  return get_message<std::runtime_error>([&] { open_parameters(folder.path(), model); });
}

TEST(WeightMap, NamesFilesOfItsFolder) {
  for (const std::string file : {"/", "/etc/passwd", "", "../model.safetensors", "a/../../model.safetensors"})
    EXPECT_THAT(error(file), HasSubstr("model.safetensors.index.json names the file \"" + file +
                                       "\" for \"lm_head.weight\": write one of the checkpoint's folder"));
  for (const std::string file : {"model.safetensors", "a/../model.safetensors", "part/model.safetensors"})
    EXPECT_THAT(error(file), AllOf(HasSubstr("model.safetensors"), Not(HasSubstr("names the file")))) << file;
}

}  // namespace
}  // namespace modular
