// Files that are written in one go and do not fit on the disk are removed, which frees the disk again, and are reported
// by one message with the cause.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "runtime/checkpoint/safetensors.h"
#include "tests/modrun/modrun_process.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using Words = std::vector<std::string>;

class FullDisk : public ModrunTest {
 protected:
  /// Runs modrun between the shell commands `before` and `after`, in a mount namespace of its own.
  Finished modrun_between(const std::string& before, const Words& words, const std::string& after) const {
    std::string command = MODRUN;
    for (const std::string& word : words) command += " '" + word + "'";
    const fs::path script =
        folder_.write("script", before + "\n" + command + "\nstatus=$?\n" + after + "\nexit $status\n");
    const fs::path out = folder_.path() / "said";
    const int status = std::system(
        ("unshare --mount --map-root-user bash " + script.string() + " > " + out.string() + " 2>&1").c_str());
    return {WEXITSTATUS(status), get_bytes(out)};
  }
};

TEST_F(FullDisk, RemovesAPartialExport) {
  const fs::path disk = folder_.path() / "disk", adapted = run_folder("adapted") / "checkpoints";
  fs::create_directory(disk);
  const std::string mount = "mount -t tmpfs -o size=32k tmpfs " + disk.string() + " || exit 99";
  if (modrun_between(mount, {"--help"}, "").status == 99) GTEST_SKIP() << "no file system can be mounted here";
  ASSERT_EQ(train("run").status, 0);
  const std::string checkpoints = (run_folder("run") / "checkpoints").string();
  const fs::path exported = folder_.path() / "exported";
  ASSERT_EQ(modrun({"export", checkpoints, exported.string()}).status, 0);
  ASSERT_EQ(train("adapted", set({"model.entry=LlamaForCausalLM", "model.checkpoint=" + exported.string(),
                                  "lora.layers=['all-linear']", "lora.rank=32"}))
                .status,
            0);
  const std::string out = (disk / "out").string();
  for (const Words& words :
       {Words{"export", checkpoints, out}, Words{"export", adapted.string(), out, "--adapter", "--base", "base"},
        Words{"import", exported.string(), out}}) {
    const auto run = modrun_between(mount, words, "ls -A " + disk.string());
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_THAT(run.output, MatchesRegex("modrun: [^\n]*safetensors cannot be [^\n]*: No space left on device\n"))
        << "one message, and no file is listed";
  }
}

TEST_F(FullDisk, RemovesAnExportBeyondTheFileSizeLimit) {
  ASSERT_EQ(train("run").status, 0);
  const std::string out = (folder_.path() / "out").string();
  const auto run = modrun_between("ulimit -f 8", {"export", (run_folder("run") / "checkpoints").string(), out}, "");
  EXPECT_EQ(run.status, 2) << run.output;
  EXPECT_THAT(run.output, HasSubstr("File too large"));
  EXPECT_FALSE(fs::exists(out)) << run.output;
  EXPECT_FALSE(fs::exists(out + ".partial")) << run.output;
}

TEST_F(FullDisk, RemovesPartialPredictions) {
  const fs::path rows = folder_.path() / "rows.safetensors", out = folder_.path() / "out.safetensors";
  write_safetensors(rows, {{"input_ids", at::arange(200 * 2 * 6, at::kLong).remainder(40).view({200, 2, 6})}});
  folder_.write("tiny.toml", "[train]\nsteps = 1\nbatch_size = 8\n[eval]\nsamples = 0\n");
  const auto trained =
      train("run", set({"model.entry=BertModel", "data.format=examples", "data.paths=['" + rows.string() + "']",
                        "model.config.vocab_size=40", "model.config.hidden_size=32", "data.validation_every=0",
                        "model.config.intermediate_size=48", "model.config.num_hidden_layers=1",
                        "model.config.num_attention_heads=4", "model.config.max_position_embeddings=16"}));
  ASSERT_EQ(trained.status, 0) << trained.output;
  const auto run = modrun_between(
      "ulimit -f 8", {"predict", run_folder("run").string(), "--inputs", rows.string(), "--outputs", out.string()}, "");
  EXPECT_EQ(run.status, 1) << run.output;
  EXPECT_THAT(run.output, HasSubstr("File too large"));
  EXPECT_FALSE(fs::exists(out) || fs::exists(out.string() + ".partial")) << run.output;
}

}  // namespace
}  // namespace modular
