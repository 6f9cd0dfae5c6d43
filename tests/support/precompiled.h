// Instantiates what most tests use of nlohmann/json and GoogleTest, for the tests' precompiled header: each file that
// uses them would take some seconds for it. The function is never called.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace modular::precompiled {

inline void instantiate_json(const nlohmann::json& value, nlohmann::json& changed, const std::string& text) {
  changed = nlohmann::json::parse(text);
  changed["key"] = value.at("key");
  changed[0] = value.at(text)[0];
  changed.push_back(value.value("key", 0.0));
  changed = {{"key", text}, {"list", {1, 2.0, true}}};
  changed = std::vector<double>{value.get<double>(), value.at(0).get<float>()};
  changed = std::vector<std::string>{value.get<std::string>(), value.dump(2)};
  changed = value.get<int64_t>() + static_cast<int64_t>(value.get<bool>()) + static_cast<int64_t>(value.contains(text));
  for (const auto& [key, item] : value.items()) changed[key] = item;
  for (const auto& item : value) EXPECT_EQ(item, value) << item << value.size();
  EXPECT_EQ(value, text);
  EXPECT_EQ(value.at("key"), "text");
  EXPECT_EQ(value.at("key"), 1);
  EXPECT_EQ(value.at("key"), 1.0);
  EXPECT_EQ(value.at("key"), true);
  EXPECT_NE(value, 1);
  EXPECT_GT(value, 1.0);
  EXPECT_NEAR(value, value, 1.0);
  EXPECT_TRUE(value.is_null() || value == "text") << value.dump();
  EXPECT_THAT(text, ::testing::AllOf(::testing::HasSubstr("text"), ::testing::Not(::testing::HasSubstr(text)),
                                     ::testing::StartsWith("text")));
  EXPECT_THAT((std::vector<std::string>{text}), ::testing::ElementsAre("text", text));
  EXPECT_EQ(1, 1);
  EXPECT_EQ(int64_t{1}, 1);
  EXPECT_EQ(int64_t{1}, int64_t{1});
  EXPECT_EQ(size_t{1}, 1U);
  EXPECT_EQ(size_t{1}, size_t{1});
  EXPECT_EQ(1.0, 1.0);
  EXPECT_EQ(true, true);
  EXPECT_EQ(text, text);
  EXPECT_EQ(text, "text");
  EXPECT_LT(1.0, 1.0);
  EXPECT_GT(1.0, 1.0);
  EXPECT_LE(int64_t{1}, int64_t{1});
  EXPECT_EQ((std::vector<std::string>{text}), (std::vector<std::string>{}));
  EXPECT_EQ((std::vector<int64_t>{1}), (std::vector<int64_t>{}));
  EXPECT_EQ((std::vector<double>{1}), (std::vector<double>{}));
}

}  // namespace modular::precompiled
