// Pruning asks the backend once per evaluation, and only about finite values.
#include "runtime/search/trial_values.h"

#include <gmock/gmock.h>

#include <fstream>
#include <utility>
#include <vector>

#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(Pruning, AsksOncePerFiniteEvaluation) {
  const TemporaryFolder folder;
  std::ofstream metrics(folder.path() / "metrics.jsonl");
  std::vector<std::pair<int64_t, double>> asked;
  Pruning pruning(folder.path(), {"perplexity"}, [&](int64_t step, double value) {
    asked.emplace_back(step, value);
    return value > 7.0;
  });
  const auto evaluated = [&](int step, const char* perplexity) {
    metrics << "{\"event\":\"evaluation\",\"step\":" << step
            << ",\"targets\":3,\"val_loss\":2.0,\"metrics\":{\"perplexity\":" << perplexity << "}}\n"
            << std::flush;
    return pruning.check();
  };
  EXPECT_FALSE(pruning.check());
  EXPECT_FALSE(evaluated(10, "null"));
  EXPECT_FALSE(evaluated(20, "6.5"));
  EXPECT_FALSE(pruning.check());
  EXPECT_THAT(asked, ElementsAre(Pair(20, 6.5)));
  EXPECT_TRUE(evaluated(30, "7.5"));
  EXPECT_EQ(pruning.reason(), "pruned after step 30, with perplexity 7.5");
  EXPECT_TRUE(evaluated(40, "1.0")) << "stays pruned";
  EXPECT_THAT(asked, ElementsAre(Pair(20, 6.5), Pair(30, 7.5)));
}

}  // namespace
}  // namespace modular
