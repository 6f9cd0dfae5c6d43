// Divides the families of one parse among processes that fork from this one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "generator/generate.h"
#include "generator/workers.h"

namespace modgen {

/// While the specs are read one after another, up to `jobs` other processes already flatten families that have been
/// read and run their later stages.
class FamilyWorkers {
 public:
  /// With `stays`, all families stay in this process: models cannot be sent between processes.
  FamilyWorkers(std::vector<std::string> families, size_t jobs, bool stays)
      : families_(std::move(families)), jobs_(jobs), stays_(stays), workers_(jobs) {}

  /// All families; in a worker, those of its part.
  const std::vector<std::string>& families() const { return families_; }

  /// Called when `specs` specs have been read, and others have not. True in a new worker, whose families() have been
  /// read and are in no other worker.
  bool starts_worker(size_t specs);

  /// Called when all specs have been read: hands the families that are left to workers, unless there is only enough
  /// work for one process. True in the workers, and if none was started.
  bool continues_here();

  /// In a worker: ends it, and hands `result` to the parent. In the parent: returns `result` with the workers' results
  /// added, as if this process had computed them. Throws std::runtime_error if a worker failed.
  GenerateResult gathered(GenerateResult result);

  /// In a worker: ends it; the parent throws `message`. Does nothing in the parent.
  void fail(const std::string& message) const;

 private:
  size_t families_per_worker() const;
  bool hand_over(size_t end);

  std::vector<std::string> families_;
  size_t jobs_;
  bool stays_;
  Workers workers_;
  size_t handed_over_ = 0;  // number of families handed to workers
};

/// The results of `make` for each of `families`, each in a process of its own, at most `jobs` at a time.
std::vector<GenerateResult> in_workers(const std::vector<std::string>& families, size_t jobs,
                                       const std::function<GenerateResult(const std::string& family)>& make);

}  // namespace modgen
