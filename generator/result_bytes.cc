#include "generator/result_bytes.h"

#include <nlohmann/json.hpp>

namespace modgen {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Location, path, line, column, source_line)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FixIt, path, begin, end, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Diagnostic, severity, where, message, advice, notes, fix)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Explanation, where, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Output, family, path, bytes, plan_json, proof, explanations, read, absent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerateResult, outputs, diagnostics)

// CBOR, because specs may contain text that is not UTF-8.
std::string to_bytes(const GenerateResult& result) {
  std::string bytes;
  Json::to_cbor(Json(result), bytes);
  return bytes;
}

GenerateResult result_from(std::string_view bytes) { return Json::from_cbor(bytes).get<GenerateResult>(); }

}  // namespace modgen
