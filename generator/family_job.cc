#include "generator/family_job.h"

#include <algorithm>
#include <utility>

#include "generator/model/model.h"
#include "generator/print/print.h"
#include "generator/weave/readings.h"
#include "generator/weave/weave.h"

namespace modgen {
namespace {

Remark to_remark(const Finding& finding) {
  Remark result{finding.is_error ? Diagnostic::Severity::error : Diagnostic::Severity::warning,
                finding.where,
                finding.message,
                finding.advice,
                {}};
  for (const Finding& note : finding.notes) {
    result.notes.push_back(to_remark(note));
    result.notes.back().severity = Diagnostic::Severity::note;
  }
  return result;
}

}  // namespace

std::vector<FamilyJob> flatten(Session& session, const Specs& specs, const std::vector<std::string>& names) {
  std::vector<FamilyJob> jobs;
  if (session.parsed().has_errors()) return jobs;
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    FamilyJob& job = jobs.emplace_back();
    job.name = name;
    job.family = std::make_unique<Family>(specs, *specs.family(name));
    job.text = job.family->flatten();
    job.outline = std::make_shared<FamilyOutline>(make_outline(*job.family));
    texts.push_back(job.text.text());
  }
  if (texts.empty() || session.parsed().has_errors()) return jobs;
  const std::vector<uint32_t> files = session.read_flattened(texts);
  for (size_t index = 0; index < files.size(); ++index) jobs[index].file = files[index];
  return jobs;
}

void validate(Session& session, std::vector<FamilyJob>& jobs) {
  if (session.parsed().has_errors()) return;
  for (const FamilyJob& job : jobs) check_code(session.compiler(), session.parsed(), job.file);
  if (session.parsed().has_errors()) return;
  for (FamilyJob& job : jobs) job.validation = validate(*job.family, job.text, job.file);
}

void read_models(Session& session, std::vector<FamilyJob>& jobs) {
  if (session.parsed().has_errors()) return;
  for (FamilyJob& job : jobs) {
    const Spec& spec = job.family->spec();
    job.model = read_model(session.compiler(), session.parsed(), job.file, job.name, spec.prefix);
    job.model.model_type = spec.names.model_type;
  }
}

void weave(Session& session, std::vector<FamilyJob>& jobs) {
  if (session.parsed().has_errors()) return;
  std::vector<Remark>& remarks = session.parsed().remarks;
  for (FamilyJob& job : jobs) {
    for (const auto check : {check_constructors, check_layer_options})
      for (const Finding& finding : check(job.model)) remarks.push_back(to_remark(finding));
    std::vector<Finding> findings = weave(job.model);
    if (std::ranges::none_of(findings, &Finding::is_error))
      for (Finding& finding : check_readings(job.model)) findings.push_back(std::move(finding));
    if (std::ranges::none_of(findings, &Finding::is_error)) check_woven(job.model, woven_text(job.model), findings);
    for (const Finding& finding : findings) remarks.push_back(to_remark(finding));
  }
}

}  // namespace modgen
