// Images in folders train as their pixels in a file of examples do, on every mesh; unsuitable data is rejected.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <png.h>

#include "runtime/checkpoint/safetensors.h"
#include "runtime/data/image_dataset.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

class ImageData : public ModrunTest {
 protected:
  ImageData() {
    at::manual_seed(1);
    folder_.write("tiny.toml", "[train]\nsteps = 8\nbatch_size = 6\n[optim]\nlr = 1e-3\n[eval]\nsamples = 0\n");
    for (int number = 0; number < 12; ++number) write(number, number % 3);
  }

  fs::path images() const { return folder_.path() / "images"; }

  /// A picture of 20 x 14 pixels of a class.
  void write(int number, int label) const {
    const fs::path path = images() / ("class" + std::to_string(label)) / (std::to_string(100 + number) + ".png");
    fs::create_directories(path.parent_path());
    const at::Tensor pixels = (at::rand({14, 20, 3}) * 60 + 80 * label).to(at::kByte).contiguous();
    png_image png = {};
    png.version = PNG_IMAGE_VERSION;
    png.width = 20, png.height = 14, png.format = PNG_FORMAT_RGB;
    ASSERT_TRUE(png_image_write_to_file(&png, path.c_str(), 0, pixels.const_data_ptr(), 0, nullptr)) << png.message;
  }

  Words options(const std::string& format, const std::string& data, const Words& more = {}) const {
    Words all = {"--set", "model.entry=ViTForImageClassification",
                 "--set", "data.format=" + format,
                 "--set", "data.paths=['" + data + "']"};
    for (const char* setting : {"image_size=16", "patch_size=8", "num_labels=3", "hidden_size=16",
                                "intermediate_size=24", "num_hidden_layers=2", "num_attention_heads=2"})
      all.insert(all.end(), {"--set", std::string("model.config.") + setting});
    for (const std::string& setting : more) all.insert(all.end(), {"--set", setting});
    return all;
  }
};

TEST_F(ImageData, TrainsAsPixelsInExamplesDoOnEveryMesh) {
  const auto run = train("images", options("images", images().string()));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_THAT(run.output, HasSubstr("12 images to train on"));
  std::vector<at::Tensor> pixels;
  std::vector<int64_t> labels;
  for (int label = 0; label < 3; ++label)  // in the order of the paths
    for (int number = label; number < 12; number += 3) {
      const fs::path path = images() / ("class" + std::to_string(label)) / (std::to_string(100 + number) + ".png");
      pixels.push_back(resized(read_image(path, 3), 16, 16).to(at::kFloat) / 127.5 - 1.0);
      labels.push_back(label);
    }
  fs::create_directories(folder_.path() / "examples");
  write_safetensors(folder_.path() / "examples/a.safetensors",
                    {{"pixel_values", at::stack(pixels)}, {"labels", at::tensor(labels, at::kLong)}});
  const auto plain = train("examples", options("examples", (folder_.path() / "examples").string()));
  ASSERT_EQ(plain.status, 0) << plain.output;
  const auto mesh = train("mesh", options("images", images().string()), {"--nproc-per-node", "3"});
  ASSERT_EQ(mesh.status, 0) << mesh.output;
  const std::vector<double> expected = losses("examples");
  ASSERT_EQ(expected.size(), 8u);
  for (const char* const name : {"images", "mesh"})
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(losses(name)[step], expected[step], 1e-5) << name << " " << step;
}

TEST_F(ImageData, RejectsUnsuitableImagesBeforeStartingRanks) {
  const auto error = [&](const Words& more) {
    const auto run = train("rejected", options("images", images().string(), more));
    EXPECT_EQ(run.status, 2) << run.output;
    return run.output;
  };
  EXPECT_THAT(error({"model.config.num_labels=2"}),
              HasSubstr("the images of data.paths are in 3 folders, which are classes, and num_labels of the model's "
                        "config is 2: set model.config.num_labels to 3"));
  EXPECT_THAT(error({"model.config.num_channels=4"}), HasSubstr("num_channels of ViTForImageClassification is 4"));
  EXPECT_THAT(error({"data.validation_fraction=0.3"}), HasSubstr("set data.validation_every or data.validation"));
  EXPECT_THAT(error({"model.config.problem_type=regression"}), HasSubstr("the images of data.paths have one class"));
  const auto text = train("rejected", {"--set", "data.format=images", "--set", "model.entry=llama", "--set",
                                       "data.paths=['" + images().string() + "']"});
  EXPECT_EQ(text.status, 2);
  EXPECT_THAT(text.output, HasSubstr("data.format is \"images\", folders of classes, and LlamaForCausalLM is for "
                                     "causal-lm"));
}

TEST_F(ImageData, ArePlanned) {
  const auto plan = modrun(with({"plan", config_.string(), "--ranks", "2"}, options("images", images().string())));
  EXPECT_EQ(plan.status, 0) << plan.output;
}

TEST_F(ImageData, ReportsABrokenFile) {
  std::ofstream(images() / "class1/101.png") << "no image, though of as many bytes as it likes";
  const auto run = train("broken", options("images", images().string()));
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("class1/101.png: it is not an image: write complete JPEG or PNG files"));
}

}  // namespace
}  // namespace modular
