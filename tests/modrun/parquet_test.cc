// Rows of Parquet files train as the same rows in example files do, for any row groups, compression and types, on every
// mesh and after resuming; partitions read each row once per pass; invalid data is rejected before ranks start.
#include <gmock/gmock.h>
#include <signal.h>

#include <random>
#include <tuple>

#include "runtime/data/parquet_library.h"
#include "runtime/datasets/partitions.h"
#include "tests/modrun/modrun_process.h"
#include "tests/support/programs.h"

namespace modular {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

const Words kBert = {"model.entry=BertForSequenceClassification",
                     "model.config.vocab_size=40",
                     "model.config.type_vocab_size=1",
                     "model.config.max_position_embeddings=16",
                     "model.config.hidden_dropout_prob=0",
                     "model.config.attention_probs_dropout_prob=0"};

class Parquet : public ModrunTest {
 protected:
  void SetUp() override {
    if (!fs::exists(fs::path(MODRUN).parent_path() / "libmodular_parquet.so")) GTEST_SKIP() << "built without pyarrow";
    folder_.write(
        "tiny.toml",
        "[model.config]\nhidden_size = 32\nintermediate_size = 48\nnum_hidden_layers = 2\n"
        "num_attention_heads = 4\n[train]\nsteps = 10\nbatch_size = 6\n[optim]\nlr = 3e-3\n[data]\ntrim = true\n");
  }

  fs::path data() const { return folder_.path() / "rows"; }

  static void python(const std::string& program, const Words& arguments) {
    std::string command = PARITY_PYTHON " " + program;
    for (const std::string& argument : arguments) command += " '" + argument + "'";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  /// Writes rows of a kind, replacing the previous ones.
  void write(const std::string& kind, const Words& more = {}) const {
    fs::remove_all(data());
    python(PARQUET_ROWS, with({data().string(), kind}, more));
  }

  /// A file written by a line of Python, which calls it `path`.
  void write_file(const std::string& line) const {
    fs::remove_all(data());
    fs::create_directories(data() / "parquet");
    folder_.write("program.py", "import sys, pyarrow as pa, pyarrow.parquet as pq\npath = sys.argv[1]\n" + line + "\n");
    python((folder_.path() / "program.py").string(), {(data() / "parquet/0.parquet").string()});
  }

  /// Arguments to train on the rows in that format.
  Finished learn(const std::string& name, const std::string& format, const Words& settings,
                 const Words& launcher = {}) const {
    Words options = {"--set", "data.format=" + format, "--set", "data.paths=['" + (data() / format).string() + "']"};
    for (const std::string& setting : settings) options.insert(options.end(), {"--set", setting});
    return train(name, options, launcher);
  }

  /// The error of the run, with exit status 2.
  std::string error(const Words& settings = kBert, const Words& launcher = {"--nproc-per-node", "2"}) const {
    const auto run = learn("rejected", "parquet", settings, launcher);
    EXPECT_EQ(run.status, 2) << run.output;
    EXPECT_EQ(std::ranges::count(run.output, '\n'), 1) << run.output;
    return run.output;
  }

  static bool has(const std::string& entry) { return modrun({"entries"}).output.find(entry) != std::string::npos; }
};

TEST_F(Parquet, RowsTrainAsExamplesDoForAnyGroupsCompressionAndTypes) {
  for (const Words& form : {Words{"group=1000", "compression=none", "element=int64"},
                            Words{"group=7", "compression=snappy", "element=int32", "list=large_list", "label=int8"},
                            Words{"group=1", "compression=zstd", "element=int16", "files=3", "dictionary=yes"},
                            Words{"group=10", "compression=gzip", "element=int8", "list=fixed_size_list"},
                            Words{"group=16", "element=uint8", "label=uint32"}, Words{"files=70", "rows=70"}}) {
    write("classes", form);
    ASSERT_EQ(learn("examples", "examples", kBert).status, 0);
    const auto run = learn("parquet", "parquet", kBert);
    ASSERT_EQ(run.status, 0) << run.output;
    EXPECT_THAT(run.output, HasSubstr(" examples to train on"));
    EXPECT_EQ(losses("parquet"), losses("examples")) << form[0];
    EXPECT_EQ(losses("parquet").size(), 10u);
    for (const char* name : {"examples", "parquet"}) fs::remove_all(run_folder(name));
  }
}

TEST_F(Parquet, EveryTaskTrainsAsExamplesDo) {
  Words tokens = kBert, scores = kBert, flags = kBert;
  tokens[0] = "model.entry=BertForTokenClassification";
  scores.push_back("model.config.num_labels=1");
  flags.insert(flags.end(), {"model.config.num_labels=3", "model.config.problem_type=multi_label_classification"});
  const Words sessions = {"model.entry=SessionForNextItem", "model.config.vocab_size=40",
                          "model.config.feature_cardinalities=[5, 9]", "model.config.feature_numbers=2"};
  const Words t5 = {"model.entry=T5ForConditionalGeneration",
                    "model.config.vocab_size=40",
                    "model.config.d_model=32",
                    "model.config.d_kv=8",
                    "model.config.d_ff=48",
                    "model.config.num_layers=2"};
  const Words llama = {"model.entry=LlamaForCausalLM", "model.config.vocab_size=40"};
  for (const auto& [kind, settings, form] :
       {std::tuple("tokens", tokens, Words{"group=9"}), std::tuple("scores", scores, Words{"label=float64"}),
        std::tuple("flags", flags, Words{"element=int8"}),
        std::tuple("sessions", sessions, Words{"list=large_list", "element=int32"}),
        std::tuple("sessions", sessions, Words{"list=fixed_size_list"}),
        std::tuple("pairs", t5, Words{"element=int16"}), std::tuple("ids", llama, Words{"compression=zstd"})}) {
    const std::string entry = settings[0].substr(settings[0].find('=') + 1);
    if (!has(entry)) continue;  // built with other families
    const bool takes_sizes = entry.starts_with("Bert") || entry.starts_with("Llama");
    if (!takes_sizes)
      folder_.write("tiny.toml", "[train]\nsteps = 10\nbatch_size = 6\n[optim]\nlr = 3e-3\n[data]\ntrim = true\n");
    write(kind, form);
    for (const char* format : {"examples", "parquet"}) {
      const auto run = learn(format, format, settings);
      ASSERT_EQ(run.status, 0) << entry << run.output;
    }
    EXPECT_EQ(losses("parquet"), losses("examples")) << entry;
    for (const char* name : {"examples", "parquet"}) fs::remove_all(run_folder(name));
    SetUp();
  }
}

TEST_F(Parquet, TrainsIdenticallyOnMeshesAndResumed) {
  write("classes", {"group=5"});
  const Words settings =
      with(kBert, {"data.validation_fraction=0.25", "data.group_by_length=true", "checkpoint.every=5"});
  ASSERT_EQ(learn("examples", "examples", settings, {"--nproc-per-node", "3"}).status, 0);
  const auto run = learn("parquet", "parquet", settings, {"--nproc-per-node", "3"});
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(losses("parquet"), losses("examples"));
  EXPECT_EQ(events("parquet", "evaluation").back()["val_loss"], events("examples", "evaluation").back()["val_loss"]);

  fs::copy(run_folder("parquet"), run_folder("resumed"), fs::copy_options::recursive);
  fs::remove_all(run_folder("resumed") / "checkpoints/step-00000010");
  std::ofstream(run_folder("resumed") / "checkpoints/latest") << "step-00000005\n";
  const auto resumed = modrun({"--nproc-per-node", "3", "train", run_folder("resumed").string(), "--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  expect_same_checkpoint("resumed", "parquet", "step-00000010");

  const auto changed =
      modrun({"train", run_folder("resumed").string(), "--resume", "--set", "train.steps=12", "--set",
              "data.order=partitions", "--set", "data.validation_fraction=0", "--set", "data.group_by_length=false"});
  EXPECT_EQ(changed.status, 2) << changed.output;
  EXPECT_THAT(changed.output, HasSubstr("--resume: data."));
}

/// A pass of 48 rows by a model that does not change has the mean loss of all rows, in any order that has each row
/// once.
TEST_F(Parquet, PartitionsReadEachRowOncePerPassAndResumeOnAnyMesh) {
  write("classes", {"group=8", "files=2"});  // 6 row groups
  const Words still = with(kBert, {"optim.lr=0", "train.steps=16"});
  ASSERT_EQ(learn("rows", "parquet", still).status, 0);
  const Words order = {"data.order=partitions", "checkpoint.every=8"};
  const auto both = learn("still", "parquet", with(still, order), {"--nproc-per-node", "2"});
  ASSERT_EQ(both.status, 0) << both.output;
  const auto mean = [&](const std::string& name, size_t pass) {
    double sum = 0.0;
    for (size_t step = 0; step < 8; ++step) sum += losses(name)[pass * 8 + step];
    return sum / 8;
  };
  for (const size_t pass : {0, 1}) EXPECT_NEAR(mean("still", pass), mean("rows", 0), 1e-6) << pass;
  EXPECT_NE(losses("still")[0], losses("rows")[0]);
  EXPECT_NE(losses("still")[0], losses("still")[8]) << "each pass has its own order";

  const Words moving = with(kBert, with(order, {"train.steps=16"}));
  ASSERT_EQ(learn("two", "parquet", moving, {"--nproc-per-node", "2"}).status, 0);
  fs::copy(run_folder("two"), run_folder("one"), fs::copy_options::recursive);
  fs::remove_all(run_folder("one") / "checkpoints/step-00000016");
  std::ofstream(run_folder("one") / "checkpoints/latest") << "step-00000008\n";
  const auto one = learn("one", "parquet", with(moving, {}), {});
  EXPECT_EQ(one.status, 2) << "a run is there";
  const auto resumed = modrun({"train", run_folder("one").string(), "--resume"});
  ASSERT_EQ(resumed.status, 0) << resumed.output;
  for (size_t step = 8; step < 16; ++step) EXPECT_NEAR(losses("one")[step], losses("two")[step], 5e-5) << step;

  const auto other = modrun(
      {"train", run_folder("one").string(), "--resume", "--set", "data.order=rows", "--set", "data.partitions=0"});
  EXPECT_EQ(other.status, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("data.order is \"rows\", and was \"partitions\""));
}

TEST_F(Parquet, RejectsOrRewritesIndivisibleRowGroups) {
  write("classes", {"group=16"});  // 3 row groups
  const Words order = with(kBert, {"data.order=partitions"});
  const std::string file = (data() / "parquet/0.parquet").string();
  EXPECT_THAT(error(order), AllOf(HasSubstr("have 3 row groups, which is not a multiple of 2 data-parallel ranks"),
                                  HasSubstr("`modrun repartition " + file + " --rows 24 --out DIR`"),
                                  HasSubstr("data.repartition = true")));
  EXPECT_FALSE(fs::exists(run_folder("rejected")));

  const auto cut =
      learn("cut", "parquet", with(order, {"data.repartition=true", "checkpoint.every=5"}), {"--nproc-per-node", "2"});
  ASSERT_EQ(cut.status, 0) << cut.output;
  EXPECT_THAT(cut.output, HasSubstr("the rows are rewritten into 2 groups of 24 in"));

  const fs::path out = folder_.path() / "out";
  const auto command = modrun({"repartition", file, "--rows", "24", "--out", out.string()});
  ASSERT_EQ(command.status, 0) << command.output;
  fs::remove(data() / "parquet/0.parquet");
  fs::copy(out / "0.parquet", data() / "parquet/0.parquet");
  ASSERT_EQ(learn("by-command", "parquet", order, {"--nproc-per-node", "2"}).status, 0);
  EXPECT_EQ(losses("by-command"), losses("cut"));

  write("classes", {"group=1", "rows=1"});
  EXPECT_THAT(error(with(order, {"data.repartition=true"})), HasSubstr("no size of row groups makes it one"));
}

TEST_F(Parquet, RepartitionKeepsRowsTypesAndCompression) {
  write("sessions", {"group=7", "files=2", "list=fixed_size_list", "element=int8", "compression=zstd"});
  const fs::path out = folder_.path() / "out";
  const auto run = modrun({"repartition", (data() / "parquet").string(), "--rows", "10", "--out", out.string()});
  ASSERT_EQ(run.status, 0) << run.output;
  folder_.write("compare.py",
                "import sys, pyarrow.parquet as pq\n"
                "for name in '01':\n"
                "  a, b = (pq.ParquetFile(f'{folder}/{name}.parquet') for folder in sys.argv[1:])\n"
                "  assert a.read().equals(b.read()) and a.schema_arrow.equals(b.schema_arrow)\n"
                "  assert [b.metadata.row_group(g).num_rows for g in range(b.num_row_groups)] == [10, 10, 4]\n"
                "  assert b.metadata.row_group(0).column(0).compression == 'ZSTD'\n");
  python((folder_.path() / "compare.py").string(), {(data() / "parquet").string(), out.string()});

  const auto again = modrun({"repartition", (data() / "parquet").string(), "--out", out.string()});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.output, HasSubstr("out exists: name a new folder, or remove it"));

  fs::resize_file(data() / "parquet/1.parquet", 300);
  const auto cut_off =
      modrun({"repartition", (data() / "parquet").string(), "--out", (folder_.path() / "new").string()});
  EXPECT_EQ(cut_off.status, 2);
  EXPECT_THAT(cut_off.output, HasSubstr("1.parquet: cannot be read as Parquet"));

  write("classes", {"rows=4000"});  // larger than the limit on written files
  const std::string written = (folder_.path() / "said").string();
  const std::string command = "bash -c \"trap '' XFSZ; ulimit -f 4; " MODRUN " repartition " +
                              (data() / "parquet").string() + " --out " + (folder_.path() / "new").string() + "\" 2> " +
                              written;
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
  EXPECT_THAT(get_bytes(written), HasSubstr("0.parquet: cannot be written: "));
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().filename().string(), ::testing::Not(::testing::StartsWith("new")));
}

TEST(Repartition, FindsRowsPerGroupForAMultiple) {
  for (const std::vector<int64_t>& files : {std::vector<int64_t>{48}, {100, 7}, {1000, 1000, 3}, {5, 5, 5}})
    for (const int64_t parts : {1, 2, 3, 4})
      if (const auto rows = rows_for_parts(files, parts)) {
        EXPECT_EQ(row_groups(files, *rows) % parts, 0) << files[0] << " " << parts;
      } else {
        for (int64_t size = 1; size <= 1000; ++size) EXPECT_NE(row_groups(files, size) % parts, 0) << size;
      }
}

TEST_F(Parquet, RejectsInvalidValuesByFileAndRow) {
  for (const auto& [line, expected] : std::vector<std::pair<std::string, std::string>>{
           {"pq.write_table(pa.table({'input_ids': [[2, 3]], 'text': ['a']}), path)",
            "0.parquet has no column \"labels\", which BertForSequenceClassification, for sequence-classification, "
            "reads: "
            "it has input_ids, text"},
           {"pq.write_table(pa.table({'input_ids': ['a'], 'labels': [1]}), path)",
            "0.parquet: column \"input_ids\" is string, and BertForSequenceClassification, for "
            "sequence-classification, "
            "reads a list of integers in each row"},
           {"pq.write_table(pa.table({'input_ids': [[2.5]], 'labels': [1]}), path)", "is list<element: double>"},
           {"pq.write_table(pa.table({'input_ids': [[2]], 'labels': [[1]]}), path)", "reads integers, one per row"},
           {"pq.write_table(pa.table({'input_ids': [[2]] * 30 + [None], 'labels': [1] * 31}), path, row_group_size=7)",
            "0.parquet: row 30: \"input_ids\" holds a null"},
           {"pq.write_table(pa.table({'input_ids': [[2]] * 9 + [[3, None]], 'labels': [1] * 10}), path)",
            "0.parquet: row 9: \"input_ids\" holds a null"},
           {"pq.write_table(pa.table({'input_ids': [[2]] * 3, 'labels': [1, None, 1]}), path)",
            "0.parquet: row 1: \"labels\" holds a null"},
           {"pq.write_table(pa.table({'input_ids': [[2]] * 8 + [[40]], 'labels': [1] * 9}), path, row_group_size=4)",
            "0.parquet: row 8: \"input_ids\" holds 40: write ids from 0 to 39"},
           {"pq.write_table(pa.table({'input_ids': [[2], []], 'labels': [1] * 2}), path)",
            "0.parquet: row 1: \"input_ids\" is empty"},
           {"pq.write_table(pa.table({'input_ids': [[2, 3]] * 2, 'attention_mask': [[1, 1], [1]], 'labels': [1] * 2}), "
            "path)",
            "0.parquet: row 1: \"attention_mask\" has 1 values and \"input_ids\" has 2: write as many"},
           {"pq.write_table(pa.table({'input_ids': [[2] * 17], 'labels': [1]}), path)",
            "a row of data.paths has 17 tokens, and BertForSequenceClassification has positions for 16"},
           {"pq.write_table(pa.table({'input_ids': [[2]], 'labels': [-100]}), path)", "all labels are -100"},
           {"pq.write_table(pa.table({'input_ids': [[2]], 'labels': [1]}).slice(0, 0), path)", "have no rows"},
           {"t = pa.table({'input_ids': [[2]], 'labels': [1], 'attention_mask': [[1]]})\n"
            "pq.write_table(t, path); pq.write_table(t.drop_columns('attention_mask'), path.replace('0.p', '1.p'))",
            "0.parquet has a column \"attention_mask\", and "},
           {"open(path, 'wb').write(b'PAR1 and then nothing of the kind')", "0.parquet: cannot be read as Parquet"}}) {
    write_file(line);
    EXPECT_THAT(error(), HasSubstr(expected)) << line;
    EXPECT_FALSE(fs::exists(run_folder("rejected"))) << line;
  }
}

TEST_F(Parquet, RejectsContradictoryOptions) {
  write("classes");
  for (const auto& [settings, expected] : std::vector<std::pair<Words, std::string>>{
           {{"data.order=any"}, "data.order is \"any\": it must be one of rows, partitions"},
           {{"data.repartition=true"}, "data.repartition needs data.order = \"partitions\""},
           {{"data.order=partitions", "data.validation_fraction=0.1"}, "data.validation_fraction splits off rows"},
           {{"data.order=partitions", "data.group_by_length=true"}, "data.group_by_length sets another order"},
           {{"data.order=partitions", "data.format=examples"}, "reads row groups of Parquet files"}})
    EXPECT_THAT(error(with(kBert, settings)), HasSubstr(expected));
  if (has("ViTForImageClassification"))
    EXPECT_THAT(modrun({"train", "--set", "model.entry=ViTForImageClassification", "--set", "data.format=parquet",
                        "--set", "data.paths=['" + (data() / "parquet").string() + "']", "--set",
                        "train.dir=" + run_folder("rejected").string()})
                    .output,
                HasSubstr("whose examples have images, which Parquet files cannot hold"));
}

TEST_F(Parquet, NamesThePackageToInstallWithoutTheLibrary) {
  write("classes");
  const fs::path bin = folder_.path() / "bin";
  fs::create_directories(bin);
  fs::copy(MODRUN, bin / "modrun");
  const std::string command = (bin / "modrun").string() +
                              " train --set model.entry=BertForSequenceClassification --set data.format=parquet --set "
                              "train.dir=" +
                              run_folder("rejected").string() + " --set data.paths=" + (data() / "parquet").string();
  const auto output = [&] {
    folder_.write("said", "");
    EXPECT_EQ(WEXITSTATUS(std::system((command + " > " + (folder_.path() / "said").string() + " 2>&1").c_str())), 2);
    return get_bytes(folder_.path() / "said");
  };
  EXPECT_THAT(output(),
              HasSubstr("libmodular_parquet.so is not next to this program, because it was built without pyarrow: run "
                        "`pip install pyarrow`"));
  folder_.write("bin/libmodular_parquet.so", "no library");
  EXPECT_THAT(output(), HasSubstr("run `pip install pyarrow`, in the version that modrun was built with"));
}

// 400 MB of values in a file of 200 kB; a file can claim any number.
TEST_F(Parquet, BoundsMemoryByTheSizeOfTheFile) {
  write_file(
      "million = pa.array([7], pa.int64()).take(pa.array([0] * 1000000))\n"
      "table = pa.table({'labels': pa.chunked_array([million] * 50)})\n"
      "pq.write_table(table, path, row_group_size=50000000)");
  const fs::path path = data() / "parquet/0.parquet";
  ASSERT_LT(fs::file_size(path), 300'000u);
  const auto file = parquet_library().open(path);
  ASSERT_EQ(file->groups().size(), 1u);
  try {
    file->read(0, {"labels"});
    FAIL() << "was read";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.parquet: a row group takes more memory than 1000 times the file's size and "
                                        "64 MiB: write the file again, in smaller row groups"));
  }
  const auto cut = modrun({"repartition", path.string(), "--out", (folder_.path() / "out").string()});
  EXPECT_EQ(cut.status, 2);
  EXPECT_THAT(cut.output, HasSubstr("a row group takes more memory"));
}

TEST_F(Parquet, DamagedFilesNeverCrashTheProgram) {
  write("sessions", {"group=7", "compression=none"});
  const std::string whole = get_bytes(data() / "parquet/0.parquet");
  std::mt19937 random(1);
  int rejected = 0;
  for (int input = 0; input < 300; ++input) {
    std::string bytes = whole;
    if (input % 3 == 0) bytes.resize(random() % bytes.size());
    for (unsigned change = 0; input % 3 != 0 && change <= random() % 4; ++change) {
      // Half of the changes hit the metadata, which is at the end of the file.
      const size_t from = input % 2 == 0 ? 0 : bytes.size() - std::min<size_t>(bytes.size(), 3000);
      bytes[from + random() % (bytes.size() - from)] = static_cast<char>(random());
    }
    const fs::path path = folder_.write("damaged.parquet", bytes);
    try {
      const auto file = parquet_library().open(path);
      std::vector<std::string> names;
      for (const ParquetColumn& column : file->columns())
        if (column.element != ParquetType::other) names.push_back(column.name);
      for (size_t group = 0; group < file->groups().size(); ++group) file->read(static_cast<int64_t>(group), names);
    } catch (const std::runtime_error& error) {
      ++rejected;
      EXPECT_THAT(error.what(), HasSubstr("damaged.parquet")) << input;
    }
  }
  EXPECT_GT(rejected, 100);
}

// Arrow's own threads must not take signals from the launcher, which waits for them.
TEST_F(Parquet, SignalsSaveAndEndALaunchedRun) {
  write("classes", {"group=5"});
  Words words = {"--set", "data.format=parquet", "--set", "data.paths=['" + (data() / "parquet").string() + "']"};
  for (const std::string& setting : with(kBert, {"train.steps=100000", "checkpoint.every=0"}))
    words.insert(words.end(), {"--set", setting});
  words = training("run", words, {"--nproc-per-node", "2"});
  words.insert(words.begin(), MODRUN);
  const auto run = testing::start_program(words, folder_.path());
  testing::await(run, [&] { return fs::exists(run_folder("run")) && steps_so_far("run") > 2; });
  kill(run.pid, SIGUSR1);
  testing::await(run, [&] { return fs::exists(run_folder("run") / "checkpoints"); });
  kill(run.pid, SIGTERM);
  const auto ended = testing::end_of_program(run);
  EXPECT_EQ(ended.status, 143) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("stopped by SIGTERM"));
}

}  // namespace
}  // namespace modular
