// Valid and invalid configs of runs.
#include "runtime/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "generated/llama.h"
#include "runtime/config/config_field.h"
#include "runtime/datasets/model_checks.h"
#include "runtime/train/preflight.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

using Settings = std::vector<std::string>;

class RunConfigTest : public testing::Test {
 protected:
  RunConfig read(const std::string& toml, const Settings& settings = {}) {
    return read_run_config(folder_.write("run.toml", toml), settings);
  }
  /// The error, from the file's name on.
  std::string error(const std::string& toml, const Settings& settings = {}) {
    const auto message = get_message<ConfigError>([&] { read(toml, settings); });
    const auto name = message.find("run.toml");
    return name == std::string::npos ? message : message.substr(name);
  }
  std::string option_error(const std::string& setting) { return error("model.entry = 'llama'", {setting}); }

  static Settings with_entry(Settings settings) {
    settings.emplace_back("model.entry=llama");
    return settings;
  }

  TemporaryFolder folder_;
};

TEST_F(RunConfigTest, CommandLineOverridesTheFile) {
  const auto config = read(
      "[model]\nentry = 'llama'\n[model.config]\nhidden_size = 64\n[model.config.rope_parameters]\nrope_theta = 5e5\n"
      "[train]\nsteps = 10\n[data]\npaths = ['a', 'b']\n",
      {"train.steps=20", "train.steps=30", "model.config.num_hidden_layers=2", "optim.lr=1", "sample.prompt=#include <",
       "data.suffixes=.h"});
  EXPECT_EQ(config.train.steps, 30);
  EXPECT_EQ(config.optim.lr, 1.0);
  EXPECT_EQ(config.sample.prompt, "#include <");
  EXPECT_EQ(config.data.suffixes, (Settings{".h"}));
  EXPECT_EQ(config.data.paths.size(), 2u);
  EXPECT_EQ(config.model.entry, "LlamaForCausalLM");
  const auto& model = dynamic_cast<const ConfigOf<llama::LlamaConfig>&>(*config.network.config).value;
  EXPECT_EQ(model.hidden_size, 64);
  EXPECT_EQ(model.num_hidden_layers, 2);
  EXPECT_EQ(model.rope_parameters.rope_theta, 5e5);
  EXPECT_EQ(model.head_dim, 2) << "finish() has run";
}

TEST_F(RunConfigTest, IgnoresProgramsThatARunsFolderNames) {
  const auto file = folder_.write("run/config.toml",
                                  "[model]\nentry = 'llama'\n[sample]\npython = '/evil'\ntokens = 7\n"
                                  "[metrics]\npython = 'python3'\n[parallel]\nbackend = './evil.so'\n");
  const auto config = read_run_config(file, {}, ConfigSource::run_folder);
  EXPECT_EQ(config.sample.python, "python3");
  EXPECT_EQ(config.sample.tokens, 7);
  EXPECT_EQ(config.parallel.backend, "auto");
  ASSERT_EQ(config.untrusted.size(), 2u) << "the usual Python is not one of them";
  EXPECT_THAT(config.untrusted.at("sample.python"),
              AllOf(HasSubstr("run/config.toml:4:1: sample.python is \"/evil\""), HasSubstr("--trust-folder")));
  EXPECT_THAT(get_message<ConfigError>([&] { config.mesh_options(); }),
              HasSubstr("config.toml:9:1: parallel.backend is \"./evil.so\", and what the folder of a run names is not "
                        "run: add --set parallel.backend=\"./evil.so\""));

  const auto named = read_run_config(file, {"sample.python=/mine", "parallel.backend=gloo"}, ConfigSource::run_folder);
  EXPECT_EQ(named.sample.python, "/mine");
  EXPECT_TRUE(named.untrusted.empty());
  auto own = read_run_config(file, {});
  EXPECT_EQ(own.sample.python, "/evil");
  EXPECT_EQ(program_options(own).size(), 2u);
  EXPECT_EQ(read_run_config({}, with_entry(program_options(own))).sample.python, "/evil");
}

TEST_F(RunConfigTest, FieldsOfProgramsAreMarked) {
  RunConfig config;
  std::vector<std::string> named;
  for (const ConfigField& field : section_fields(config)) {
    if (field.rule.names != Names::nothing) named.push_back(field.path);
    const bool is_run = field.help.starts_with("Python with") || field.help.find("library") != field.help.npos;
    EXPECT_EQ(is_run, field.rule.names != Names::nothing) << field.path << ": " << field.help;
  }
  EXPECT_THAT(named, testing::ElementsAre("parallel.backend", "sample.python", "metrics.python"));
}

TEST_F(RunConfigTest, UnknownKeyNamesTheNearestKnownOne) {
  EXPECT_EQ(error("[model]\nentry = 'llama'\n[train]\nstep = 10\n"),
            "run.toml:4:1: unknown key train.step: did you mean train.steps?");
  EXPECT_EQ(option_error("train.lr=1"), "--set train.lr=1: unknown key train.lr: did you mean optim.lr?");
  EXPECT_EQ(option_error("batch_size=1"), "--set batch_size=1: unknown key batch_size: did you mean train.batch_size?");
  EXPECT_EQ(error("[model]\nentry = 'llama'\n[model.config]\nhiden_size = 64\n"),
            "run.toml:4:1: unknown key model.config.hiden_size: did you mean model.config.hidden_size?");
}

TEST_F(RunConfigTest, KeyFarFromAllNamesTheSection) {
  EXPECT_EQ(option_error("checkpoint.zzzzzzzzz=1"),
            "--set checkpoint.zzzzzzzzz=1: unknown key checkpoint.zzzzzzzzz: [checkpoint] has every, every_minutes, "
            "keep, best, "
            "background, shared, form");
  EXPECT_THAT(option_error("qqqqqqqqqqqq=1"), HasSubstr("`modrun settings` lists all keys"));
}

TEST_F(RunConfigTest, WrongTypesAndValuesAreLocated) {
  EXPECT_EQ(error("model.entry = 'llama'\ntrain.steps = 'many'\n"),
            "run.toml:2:7: train.steps must be an integer, but is the string \"many\"");
  EXPECT_EQ(option_error("train.steps=1.5"),
            "--set train.steps=1.5: train.steps must be an integer, but is the number 1.5");
  EXPECT_EQ(option_error("train.steps=0"), "--set train.steps=0: train.steps must be at least 1, but is 0");
  EXPECT_EQ(option_error("parallel.bf16=yes"),
            "--set parallel.bf16=yes: parallel.bf16 must be true or false, but is the string \"yes\"");
  EXPECT_EQ(option_error("optim.beta1=1.0"), "--set optim.beta1=1.0: optim.beta1 must be less than 1, but is 1");
  EXPECT_EQ(option_error("optim.lr=nan"), "--set optim.lr=nan: optim.lr must be at least 0, but is nan");
  EXPECT_EQ(
      option_error("data.paths=[1]"),
      "--set data.paths=[1]: data.paths must be an array, each element a string, but is an array of the integer 1");
  EXPECT_EQ(option_error("data.format=arrow"),
            "--set data.format=arrow: data.format is \"arrow\": it must be one of bytes, tokens, nanogpt, llm.c, "
            "megatron, examples, parquet and images");
  EXPECT_EQ(option_error("parallel.schedule=zigzag"),
            "--set parallel.schedule=zigzag: parallel.schedule is \"zigzag\": it must be one of gpipe, 1f1b, "
            "interleaved, looped-bfs, interleaved-zero-bubble, zbv, dualpipev, or a path that ends in .csv");
  EXPECT_EQ(option_error("train.steps"), "--set train.steps: expected key=value, e.g. --set train.steps=100");
}

TEST_F(RunConfigTest, ReportsAllProblemsAndWhereEachWasSet) {
  const auto lines = [&](const std::string& toml, const std::vector<std::string>& options) {
    std::vector<std::string> found;
    std::istringstream text(get_message<ConfigError>([&] { read("model.entry = 'llama'\n" + toml, options); }));
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  };
  EXPECT_THAT(lines("train.stepz = 3\ntrain.steps = 'many'\n", {"optim.lr=-1"}),
              ElementsAre(HasSubstr("run.toml:3:"), HasSubstr("run.toml:2:"), StartsWith("--set optim.lr=-1: ")));
  EXPECT_THAT(lines("optim.beta1 = 1.0\ndata.order = 'files'\n", {"train.device=tpu"}),
              ElementsAre(HasSubstr("run.toml:2:"), StartsWith("--set train.device=tpu: "), HasSubstr("run.toml:3:")));
  std::string many;
  for (int i = 0; i < 100'000; ++i) many += "train.x" + std::to_string(i) + " = 1\n";
  const auto first = lines(many, {});
  ASSERT_EQ(first.size(), 11u);
  EXPECT_EQ(first.back(), "and more: fix these first");
}

TEST_F(RunConfigTest, ModelsOwnConfigIsCheckedWithTheRun) {
  EXPECT_THAT(option_error("model.config.num_key_value_heads=5"),
              HasSubstr("num_attention_heads must be a multiple of num_key_value_heads"));
  const auto reading_error = [&](const std::string& setting, const std::string& entry = "llama") {
    const auto config = read("model.entry = '" + entry + "'", {setting});
    return get_message<ConfigError>([&] { check_reading(config); });
  };
  EXPECT_EQ(
      reading_error("model.config.vocab_size=100"),
      "--set model.config.vocab_size=100: model.config.vocab_size must be at least 256 to read bytes, but is 100");
  EXPECT_EQ(reading_error("train.seq_len=4096", "gpt2"),
            "--set train.seq_len=4096: train.seq_len (4096) must not exceed model.config.n_positions (1024), as its "
            "positions are a learned table");
  EXPECT_NO_THROW(check_reading(read("model.entry = 'llama'", {"train.seq_len=4096"}))) << "rotary positions";
}

TEST_F(RunConfigTest, RouterOptionsNeedExpertsAndBiases) {
  const auto router_error = [&](const std::string& entry, const std::string& setting) {
    const auto config = read("model.entry = '" + entry + "'", {setting, "model.config.num_hidden_layers=4"});
    return get_message<ConfigError>([&] { check_router(config); });
  };
  EXPECT_EQ(router_error("llama", "router.aux_loss=0.5"),
            "--set router.aux_loss=0.5: router.aux_loss is 0.5, and LlamaForCausalLM has no experts: leave it out");
  EXPECT_EQ(router_error("mixtral", "router.bias_speed=0.001"),
            "--set router.bias_speed=0.001: router.bias_speed is 0.001, and the routers of MixtralForCausalLM have no "
            "bias: set router.aux_loss instead");
  check_router(read("model.entry = 'deepseek_v3'", {"router.bias_speed=0.001", "model.config.num_hidden_layers=4"}));
  EXPECT_EQ(option_error("router.balance=layer"),
            "--set router.balance=layer: router.balance is \"layer\": it must be one of batch, sequence");
  EXPECT_EQ(option_error("router.aux_loss=-1"),
            "--set router.aux_loss=-1: router.aux_loss must be at least 0, but is -1.0");
}

TEST_F(RunConfigTest, TransformersConfigsEnableTheRouterLossOfLanguageModels) {
  const auto coefficient = [&](const std::string& entry, Settings settings) {
    settings.push_back("model.config.router_aux_loss_coef=0.02");
    return read("model.entry = '" + entry + "'", settings).parallel_options().router.aux_loss;
  };
  EXPECT_EQ(coefficient("mixtral", {"model.config.output_router_logits=true"}), 0.02);
  EXPECT_EQ(coefficient("mixtral", {}), 0.0);
  EXPECT_EQ(coefficient("mixtral", {"model.config.output_router_logits=true", "router.aux_loss=0"}), 0.0);
  EXPECT_EQ(coefficient("mixtral", {"router.aux_loss=0.5"}), 0.5);
  EXPECT_EQ(coefficient("MixtralForSequenceClassification", {"model.config.output_router_logits=true"}), 0.0);
}

TEST_F(RunConfigTest, BrokenTomlAndMissingFilesAreLocated) {
  EXPECT_THAT(error("[train\nsteps = 1\n"), HasSubstr("run.toml:1:7: "));
  EXPECT_THAT(get_message<ConfigError>([] { read_run_config("/nowhere/run.toml", {}); }),
              HasSubstr("/nowhere/run.toml cannot be read: No such file"));
}

TEST_F(RunConfigTest, FamilySelectsItsLanguageModel) {
  EXPECT_EQ(read("model.entry = 'llama'").model.entry, "LlamaForCausalLM");
  EXPECT_EQ(read("model.entry = 'LlamaForTokenClassification'").model.entry, "LlamaForTokenClassification");
}

TEST_F(RunConfigTest, ModelMustBeNamedAndKnown) {
  EXPECT_THAT(error("[train]\nsteps = 1\n"), HasSubstr("model.entry is not set"));
  EXPECT_THAT(error("model.entry = 'lama'"),
              AllOf(HasSubstr("run.toml:1:7: "), HasSubstr("\"lama\" is not in this program: did you mean llama?")));
}

TEST_F(RunConfigTest, ResolvedConfigReadsBackAsItself) {
  auto config = read(
      "model.entry = 'llama'\nmodel.config.hidden_size = 128\n",
      {"sample.prompt=a \"quoted\" \\ and\n\ttwo lines", "optim.eps=1e-12", "optim.lr=1", "data.paths=['x', 'y']"});
  const auto text = format_toml(config);
  auto again = read(text);
  EXPECT_EQ(format_toml(again), text);
  EXPECT_EQ(again.sample.prompt, config.sample.prompt);
  EXPECT_EQ(again.optim.eps, 1e-12);
  EXPECT_EQ(again.data.paths, config.data.paths);
}

TEST_F(RunConfigTest, PipelineOptionsReachTheModel) {
  const auto config = read("model.entry = 'llama'",
                           {"parallel.schedule=own.csv", "parallel.stages_per_rank=0", "parallel.cuts=[3, 5]"});
  const PipelineOptions pipeline = config.parallel_options().pipeline;
  EXPECT_EQ(pipeline.schedule, std::filesystem::absolute("own.csv").string());
  EXPECT_EQ(pipeline.cuts, (std::vector<int64_t>{3, 5}));
}

TEST_F(RunConfigTest, MemoryOptionsReadBackAsThemselves) {
  const auto recompute = [&](const std::string& value) {
    auto config = read("[model]\nentry = 'llama'\n[parallel]\nrecompute = " + value + "\n");
    const Recomputation first = config.parallel.recompute;
    const Recomputation again = read(format_toml(config)).parallel_options().recompute;
    EXPECT_EQ(again.every, first.every) << format_toml(config);
    EXPECT_EQ(again.operations, first.operations) << format_toml(config);
    return first;
  };
  for (const char* none : {"false", "'none'", "[]"}) EXPECT_FALSE(recompute(none)) << none;
  for (const char* full : {"true", "'full'", "1"}) EXPECT_EQ(recompute(full).every, 1) << full;
  EXPECT_EQ(recompute("3").every, 3);
  EXPECT_EQ(recompute("['norm', 'attention']").operations, (Settings{"norm", "attention"}));
  EXPECT_EQ(recompute("'norm'").operations, Settings{"norm"});
  const auto options = read("model.entry = 'llama'", {"parallel.units=[]", "parallel.offload=parameters"});
  EXPECT_TRUE(options.parallel_options().units.empty());
  EXPECT_TRUE(options.parallel_options().offload.optimizer);

  for (const char* wrong : {"0", "-1", "1.5", "{}"})
    EXPECT_THAT(option_error(std::string("parallel.recompute=") + wrong),
                HasSubstr("parallel.recompute must be \"none\", \"full\", an integer of at least 1, or an array of "
                          "operations"));
  EXPECT_THAT(option_error("parallel.recompute=[1]"), HasSubstr("must be an array of operations"));
  EXPECT_THAT(option_error("parallel.offload=[\"optimiser\"]"),
              HasSubstr("parallel.offload has \"optimiser\": it may hold optimizer, parameters, activations"));
  EXPECT_THAT(error("model.entry = 'llama'", {"parallel.offload=optimizer", "optim.name=muon"}),
              HasSubstr("use adamw or sgd, or leave optimizer out"));
  EXPECT_THAT(error("model.entry = 'llama'", {"parallel.offload=activations", "parallel.recompute=full"}),
              HasSubstr("units keep only their inputs"));
  EXPECT_THAT(error("model.entry = 'llama'", {"parallel.offload=optimizer", "parallel.dp_threads=2"}),
              HasSubstr("replicas on threads do not offload"));
}

TEST_F(RunConfigTest, TableShowsWhereEachValueWasSet) {
  auto config = read("model.entry = 'llama'\n[train]\nsteps = 7\n", {"optim.lr=0.5"});
  const auto table = format_table(config);
  EXPECT_THAT(table, testing::ContainsRegex("train.steps +7 +.*run.toml:3:1\n"));
  EXPECT_THAT(table, testing::ContainsRegex("optim.lr +0.5 +--set optim.lr=0.5\n"));
  EXPECT_THAT(table, testing::ContainsRegex("train.seq_len +256\n"));
}

TEST_F(RunConfigTest, GroupsAreTablesOfAFileOrAnOption) {
  auto config = read(
      "model.entry = 'llama'\n[[optim.groups]]\nmatch = 'lm_head'\nlr_scale = 2\n"
      "[[optim.groups]]\nmatch = ['model.norm', 'a \"b']\nweight_decay = 0.5\n");
  const std::vector<ParameterGroup> expected = {
      {.match = {"lm_head"}, .lr_scale = 2.0},
      {.match = {"model.norm", "a \"b"}, .weight_decay = 0.5},
  };
  EXPECT_EQ(config.optim.groups, expected);
  EXPECT_EQ(read(format_toml(config)).optim.groups, expected) << format_toml(config);
  EXPECT_EQ(read("model.entry = 'llama'", {"optim.groups=[{match='lm_head', lr_scale=2}]"}).optim.groups,
            (std::vector<ParameterGroup>{{.match = {"lm_head"}, .lr_scale = 2.0}}));
  for (const auto& [groups, answer] :
       {std::pair("3", "optim.groups must be an array of tables"),
        std::pair("[{lr_scale = 1}]", "optim.groups: a group has no match"),
        std::pair("[{match = 'x', lr_scal = 1}]", "optim.groups: unknown key lr_scal: did you mean lr_scale?"),
        std::pair("[{match = 'x', lr_scale = 'y'}]",
                  "optim.groups: lr_scale must be a number, but is the string \"y\""),
        std::pair("[{match = 'x', weight_decay = -1}]", "optim.groups: weight_decay must be at least 0, but is -1")})
    EXPECT_THAT(option_error(std::string("optim.groups=") + groups), HasSubstr(answer));
}

TEST_F(RunConfigTest, RejectsOptionsOfAnotherOptimizer) {
  EXPECT_EQ(option_error("optim.name=adm"),
            "--set optim.name=adm: optim.name is \"adm\": it must be one of adamw, sgd, adafactor, muon");
  EXPECT_EQ(option_error("optim.momentum=0.5"),
            "--set optim.momentum=0.5: optim.momentum is 0.5, which optim.name = \"adamw\" does not read: leave it "
            "out, or set optim.name to sgd or muon");
  EXPECT_EQ(read("[model]\nentry = 'llama'\n[optim]\nname = 'muon'\nmomentum = 0.5\nbeta2 = 0.99\n").optim.momentum,
            0.5);
  // A file for one optimizer can be tried with another one.
  EXPECT_EQ(read("[model]\nentry = 'llama'\n[optim]\nbeta2 = 0.99\n", {"optim.name=sgd"}).optim.name, "sgd");
  // A run's config.toml has all keys.
  auto config = read("model.entry = 'llama'", {"optim.name=adafactor", "optim.eps2=0.5"});
  EXPECT_EQ(read(format_toml(config)).optim.eps2, 0.5);
}

TEST_F(RunConfigTest, MeshMustMakeTheRanksOfTheJob) {
  EXPECT_EQ(read("model.entry = 'llama'", {"parallel.tp=2"}).parallel.mesh_shape(8)[Axis::dp_shard], 4);
  EXPECT_EQ(read("model.entry = 'llama'", {}).parallel_options().sequence, std::nullopt);
  EXPECT_EQ(read("model.entry = 'llama'", {"parallel.sequence=false"}).parallel_options().sequence, false);
  const auto rejected = [&](const Settings& settings, int64_t ranks) {
    return get_message<ConfigError>([&] { read("model.entry = 'llama'", settings).parallel.mesh_shape(ranks); });
  };
  EXPECT_EQ(
      rejected({"parallel.tp=2"}, 3),
      "parallel.pp = 1, dp_replicate = 1, tp = 2 need a multiple of 2 ranks, but the job has 3: change an axis or "
      "--nproc-per-node");
  EXPECT_EQ(
      rejected({"parallel.dp_shard=4", "parallel.pp=2"}, 4),
      "parallel.pp = 2, dp_replicate = 1, tp = 1, dp_shard = 4 make 8 ranks, but the job has 4: change an axis or "
      "--nproc-per-node");
}

TEST_F(RunConfigTest, ReportsAllOptionsThatTheModelDoesNotSupport) {
  const RunConfig config =
      read("model.entry = 'llama'", {"router.z_loss=0.5", "sampled_softmax.samples=4", "metrics.trace=[3, 2]"});
  EXPECT_EQ(get_message<ConfigError>([&] { check_run_config(config, /*world_size=*/1); }),
            "--set router.z_loss=0.5: router.z_loss is 0.5, and LlamaForCausalLM has no experts: leave it out\n"
            "--set sampled_softmax.samples=4: sampled_softmax.samples is 4, which is for session models, and "
            "LlamaForCausalLM is for causal-lm: leave it out\n"
            "--set metrics.trace=[3, 2]: metrics.trace is [3, 2]: give the first and the last step to trace, from 1 to "
            "train.steps (1000), e.g. [10, 12]");
}

TEST_F(RunConfigTest, AcceptsAndReportsKeysOfEarlierVersions) {
  const auto config = read("[model]\nentry = 'llama'\n[data]\nheld_out_every = 3\nheld_out = ['*/b']\n",
                           {"data.held_out_every=4", "data.held_out_part=0"});
  EXPECT_EQ(config.data.validation_every, 4);
  EXPECT_EQ(config.data.validation, (Settings{"*/b"}));
  ASSERT_EQ(config.renamed.size(), 4u);
  EXPECT_THAT(config.renamed[0], HasSubstr("run.toml:5:1: data.held_out is now data.validation"));
  EXPECT_THAT(config.renamed[1], HasSubstr("run.toml:4:1: data.held_out_every is now data.validation_every"));
  EXPECT_EQ(config.renamed[2], "--set data.held_out_every=4: data.held_out_every is now data.validation_every");
  EXPECT_EQ(config.renamed[3], "--set data.held_out_part=0: data.held_out_part is now data.validation_fraction");

  EXPECT_THAT(error("[model]\nentry = 'llama'\n[data]\nheld_out_every = 3\nvalidation_every = 3\n"),
              AllOf(HasSubstr("run.toml:4:1: data.held_out_every is now data.validation_every"),
                    HasSubstr("run.toml:5:1): leave data.held_out_every out")));
  EXPECT_THAT(error("model.entry = 'llama'", {"data.held_out_part=0.1", "data.validation_fraction=0.2"}),
              HasSubstr("leave data.held_out_part out"));
  const auto overridden = read("[model]\nentry = 'llama'\n[data]\nheld_out_every = 3\n", {"data.validation_every=5"});
  EXPECT_EQ(overridden.data.validation_every, 5) << "the file of an older run, and a new command line";
}

TEST_F(RunConfigTest, PathsOfValidationDataBecomeAbsoluteAndPatternsStay) {
  const auto config = read("model.entry = 'llama'", {"data.validation=['*/b', 'c/d', '/e/*.txt']"});
  EXPECT_EQ(config.data.validation, (Settings{"*/b", (std::filesystem::current_path() / "c/d").string(), "/e/*.txt"}));
}

TEST_F(RunConfigTest, BatchMustDivideAmongRanksAndMicroBatches) {
  MeshShape mesh;
  mesh[Axis::dp_shard] = 2;
  mesh[Axis::tp] = 2;
  const auto shape =
      read("model.entry = 'llama'", {"train.batch_size=8", "train.micro_batches=2"}).batch_shape(mesh, 1);
  EXPECT_EQ(shape.micro_batch, 2);
  EXPECT_EQ(shape.global(), 8);
  EXPECT_EQ(
      get_message<ConfigError>(
          [&] { read("model.entry = 'llama'", {"train.batch_size=6", "train.micro_batches=2"}).batch_shape(mesh, 0); }),
      "train.batch_size = 6 does not divide into 2 data-parallel ranks x 2 micro-batches: make it a multiple of 4");
}

TEST_F(RunConfigTest, BatchIsCountedOverAllRanksOrOnEach) {
  MeshShape mesh;
  mesh[Axis::dp_shard] = 4;
  const auto shape =
      read("model.entry = 'llama'", {"train.batch_size_per_rank=6", "train.micro_batches=2"}).batch_shape(mesh, 1);
  EXPECT_EQ(shape.micro_batch, 3);
  EXPECT_EQ(shape.global(), 24);
  const auto error = [&](const std::vector<std::string>& settings) {
    return get_message<ConfigError>([&] { read("model.entry = 'llama'", settings).batch_shape(mesh, 0); });
  };
  EXPECT_EQ(error({"train.batch_size_per_rank=6", "train.batch_size=16"}),
            "train.batch_size = 16, but train.batch_size_per_rank = 6 on 4 data-parallel ranks make 24: give only one "
            "of them; train.batch_size_per_rank=0 is not given");
  EXPECT_EQ(read("model.entry = 'llama'\n[train]\nbatch_size = 16", {"train.batch_size_per_rank=6"})
                .batch_shape(mesh, 0)
                .global(),
            24)
      << "a run's file has both";
  EXPECT_EQ(error({"train.batch_size_per_rank=6", "train.micro_batches=4"}),
            "train.batch_size_per_rank = 6 does not divide into 4 micro-batches: make it a multiple of them");
}

}  // namespace
}  // namespace modular
