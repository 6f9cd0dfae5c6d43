// A config's field that is a number in some files and a text in others, in config.json and back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/checkpoint/config_json.h"
#include "runtime/parallel/parameters/config_integers.h"
#include "tests/data/temporary_folder.h"

namespace modular {
namespace {

using nlohmann::json;

struct PatternConfig {
  IntegerOrString kind = 3;
  std::optional<IntegerOrString> pattern = "LLLG";

  template <class Visitor>
  void fields(Visitor&& visit) {
    visit("kind", kind);
    visit("pattern", pattern);
  }
};

PatternConfig taken(json object) {
  ConfigOf<PatternConfig> config;
  take_fields(config, object, "config.json");
  EXPECT_TRUE(object.empty()) << object;
  return config.value;
}

json printed(const PatternConfig& value) {
  ConfigOf<PatternConfig> config;
  config.value = value;
  return fields_as_json(config);
}

TEST(FieldOfTwoTypes, IsANumberOrATextOrAbsent) {
  EXPECT_EQ(taken(json::object()).kind, IntegerOrString(3));
  EXPECT_EQ(taken(json::object()).pattern, IntegerOrString("LLLG"));
  EXPECT_EQ(taken({{"kind", "auto"}}).kind, IntegerOrString("auto"));
  EXPECT_EQ(taken({{"pattern", 4}}).pattern, IntegerOrString(4));
  EXPECT_EQ(taken({{"pattern", nullptr}}).pattern, std::nullopt);
}

TEST(FieldOfTwoTypes, IsWrittenAsItWasRead) {
  for (const json& pattern : {json(4), json("LG"), json(nullptr)})
    EXPECT_EQ(printed(taken({{"pattern", pattern}})), (json{{"kind", 3}, {"pattern", pattern}}));
}

TEST(FieldOfTwoTypes, OfAnotherTypeIsRejected) {
  for (const json& wrong : {json(2.5), json(true), json::array({1})})
    EXPECT_EQ(get_message<ConfigError>([&] { taken({{"pattern", wrong}}); }),
              "config.json: \"pattern\" is " + wrong.dump() + ": write an integer or a string");
}

TEST(FieldOfTwoTypes, CountsWhereItIsANumber) {
  ConfigOf<PatternConfig> config;
  EXPECT_EQ(config_integers(config), (ConfigIntegers{{"kind", 3}}));
  config.value.pattern = 4;
  EXPECT_EQ(config_integers(config), (ConfigIntegers{{"kind", 3}, {"pattern", 4}}));
}

}  // namespace
}  // namespace modular
