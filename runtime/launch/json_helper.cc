#include "runtime/launch/json_helper.h"

#include <stdexcept>

namespace modular {

nlohmann::json JsonHelper::ask(const nlohmann::json& question) {
  const std::string line = helper_.ask(question.dump());
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) throw std::runtime_error("a helper's answer is not JSON: " + line.substr(0, 200));
  if (const auto error = answer.find("error"); error != answer.end())
    throw std::runtime_error(error->get<std::string>());
  return answer;
}

}  // namespace modular
