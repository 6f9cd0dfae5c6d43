// Every test begins with the same random numbers, whichever ran before it: libtorch seeds its generator by chance.
#include <ATen/Context.h>
#include <gtest/gtest.h>

namespace {

class Seeding : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { at::manual_seed(1); }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new Seeding);
  return RUN_ALL_TESTS();
}
