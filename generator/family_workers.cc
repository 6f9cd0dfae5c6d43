#include "generator/family_workers.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace modgen {

using Json = nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Location, path, line, column, source_line)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FixIt, path, begin, end, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Diagnostic, severity, where, message, advice, notes, fix)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Explanation, where, before, after)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Output, family, path, bytes, plan_json, proof, explanations, read, absent)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GenerateResult, outputs, diagnostics)

namespace {

/// Number of families whose syntax trees, plans and formatting fit into one process of about 200 MiB.
constexpr size_t kMostInWorker = 32;

/// Everything except the models and outlines of outputs. In CBOR, because specs may contain text that is not UTF-8.
std::string to_bytes(const GenerateResult& result) {
  std::string bytes;
  Json::to_cbor(Json(result), bytes);
  return bytes;
}

GenerateResult result_from(std::string_view bytes) { return Json::from_cbor(bytes).get<GenerateResult>(); }

}  // namespace

/// Enough families to be worth starting a worker, and few enough that all workers end at about the same time.
size_t FamilyWorkers::families_per_worker() const {
  return std::clamp<size_t>(families_.size() / (2 * jobs_), 1, kMostInWorker);
}

bool FamilyWorkers::starts_worker(size_t specs) {
  if (stays_) return false;
  // The first worker starts early; later ones get more families each.
  const size_t waiting = specs - handed_over_, least = std::min(workers_.started() + 1, families_per_worker());
  if (waiting < least || (waiting < kMostInWorker && workers_.running() + 1 >= jobs_)) return false;
  return hand_over(handed_over_ + std::min(waiting, families_per_worker()));
}

/// Hands the families before index `end` to a new worker. True in the worker.
bool FamilyWorkers::hand_over(size_t end) {
  const size_t begin = std::exchange(handed_over_, end);
  if (!workers_.start()) return false;
  families_ = {families_.begin() + static_cast<long>(begin), families_.begin() + static_cast<long>(end)};
  return true;
}

bool FamilyWorkers::continues_here() {
  if (workers_.is_child() || stays_ || families_.size() == 1 || (jobs_ == 1 && families_.size() <= kMostInWorker))
    return true;
  while (handed_over_ < families_.size())
    if (hand_over(std::min(families_.size(), handed_over_ + families_per_worker()))) return true;
  return false;
}

GenerateResult FamilyWorkers::gathered(GenerateResult result) {
  if (workers_.is_child()) workers_.succeed(to_bytes(result));
  std::map<std::string, Output> outputs;
  for (const std::string& bytes : workers_.results()) {
    GenerateResult part = result_from(bytes);
    std::move(part.diagnostics.begin(), part.diagnostics.end(), std::back_inserter(result.diagnostics));
    for (Output& one : part.outputs) outputs[one.family] = std::move(one);
  }
  for (Output& one : result.outputs) {
    if (const auto found = outputs.find(one.family); found != outputs.end()) one = std::move(found->second);
    if (!result.ok()) one.bytes.clear(), one.plan_json.clear(), one.proof.clear(), one.explanations.clear();
  }
  return result;
}

void FamilyWorkers::fail(const std::string& message) const {
  if (workers_.is_child()) workers_.fail(message);
}

std::vector<GenerateResult> in_workers(const std::vector<std::string>& families, size_t jobs,
                                       const std::function<GenerateResult(const std::string& family)>& make) {
  Workers workers(jobs);
  for (const std::string& family : families) {
    if (!workers.start()) continue;
    try {
      workers.succeed(to_bytes(make(family)));
    } catch (const std::exception& error) {
      workers.fail(error.what());
    }
  }
  std::vector<GenerateResult> results;
  for (const std::string& bytes : workers.results()) results.push_back(result_from(bytes));
  return results;
}

}  // namespace modgen
