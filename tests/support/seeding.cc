// Every test begins with the same random numbers, whichever ran before it: libtorch seeds its generator by chance.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <mutex>

namespace {

class Seeding : public testing::EmptyTestEventListener {
  /// at::manual_seed would look for a GPU, before the library that knows one is loaded.
  void OnTestStart(const testing::TestInfo&) override {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(1);
  }
};

const bool added = (testing::UnitTest::GetInstance()->listeners().Append(new Seeding), true);

}  // namespace
