// Pixels of JPEG and PNG files, and of resized images, equal Pillow's; a folder is a class; errors name files that are
// cut off or not images.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/image_dataset.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path folder() {
  const char* const path = std::getenv("MODULAR_IMAGES");
  return path ? path : "MODULAR_IMAGES is to name the folder that images_oracle.py wrote";
}

int64_t largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() ? (a.to(at::kInt) - b.to(at::kInt)).abs().max().item<int64_t>() : 256;
}

std::vector<std::string> names() {
  std::vector<std::string> found;
  const SafetensorsFile expected(folder() / "expected.safetensors");
  for (const auto& [name, header] : expected.tensors())
    if (name.ends_with("/rgb")) found.push_back(name.substr(0, name.size() - 4));
  return found;
}

TEST(Images, ReadsPixelsLikePillow) {
  const SafetensorsFile expected(folder() / "expected.safetensors");
  ASSERT_EQ(names().size(), 6u);
  for (const std::string& name : names()) {
    // Two releases of libjpeg may round a pixel differently.
    const int64_t allowed = fs::path(name).extension() == ".png" ? 0 : 2;
    EXPECT_LE(largest_difference(read_image(folder() / name, 3), expected.tensor(name + "/rgb")), allowed) << name;
    EXPECT_LE(largest_difference(read_image(folder() / name, 1), expected.tensor(name + "/luma")), allowed) << name;
  }
}

TEST(Images, ResizesLikePillow) {
  const SafetensorsFile expected(folder() / "expected.safetensors");
  for (const std::string& name : names())
    EXPECT_LE(largest_difference(resized(read_image(folder() / name, 3), 32, 24), expected.tensor(name + "/resized")),
              fs::path(name).extension() == ".png" ? 1 : 3)
        << name;
}

TEST(Images, InvalidOrCutOffFilesAreErrorsThatNameThem) {
  for (const char* const name : {"broken/a.jpg", "broken/c.png", "broken/text.png"}) {
    const auto message = get_message<DataError>([&] { read_image(folder() / name, 3); });
    EXPECT_THAT(message, HasSubstr(std::string(name) + ": ")) << name;
    EXPECT_THAT(message, HasSubstr("write complete JPEG or PNG files"));
  }
  EXPECT_TRUE(is_image_name("x/a.JPEG"));
  EXPECT_FALSE(is_image_name("x/a.txt"));
}

TEST(Images, AFolderIsAClass) {
  std::vector<DataFile> files;
  for (const std::string& name : names())
    files.push_back({.path = folder() / name, .bytes = static_cast<int64_t>(fs::file_size(folder() / name))});
  const std::vector<std::string> classes = image_classes(files);
  EXPECT_EQ(classes, (std::vector<std::string>{"cat", "dog", "owl"}));
  const ImageDataset samples(files, {{"cat", 2}, {"dog", 0}, {"owl", 1}},
                             {.height = 32, .width = 24, .mean = {0.5, 0.4, 0.3}, .std = {0.25}});
  EXPECT_EQ(samples.count(), 6);
  const std::vector<SamplePosition> positions = {{5, 0}, {0, 1}, {3, 2}};
  const Batch batch = samples.read(positions, 4);
  EXPECT_TRUE(at::equal(batch.labels, at::tensor({1, 2, 0, -100}, at::kLong)));
  ASSERT_EQ(batch.pixel_values.sizes(), (at::IntArrayRef{4, 3, 32, 24}));
  const at::Tensor pixels = resized(read_image(files[5].path, 3), 32, 24).to(at::kFloat) / 255.0;
  EXPECT_TRUE(at::allclose(batch.pixel_values[0][1], (pixels[1] - 0.4) / 0.25));
  EXPECT_THAT(get_message<DataError>([&] { ImageDataset(files, {{"cat", 0}, {"dog", 1}}, {}); }),
              HasSubstr("its folder is not one of the classes cat, dog"));
}

}  // namespace
}  // namespace modular
