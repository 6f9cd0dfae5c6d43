// The trials of a study, some at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/launch/background_task.h"
#include "runtime/search/python_backend.h"
#include "runtime/search/study.h"

namespace modular {

/// Begins a trial, whose answer is format_answer() its end. `place` is below the number of trials at a time, and no
/// other trial's that runs. Throws std::exception where the trial cannot begin, which makes it a failed one.
using StartTrial = std::function<std::unique_ptr<BackgroundTask>(const Trial& trial, int64_t place)>;

/// What a trial's task is to answer with when its run has ended well: the values, or why there are none.
std::string format_answer(const std::vector<double>& values);
std::string answer_of_failure(const std::string& failure);

/// The settings of trial n where no backend draws them: those of a grid, or such as follow from the seed.
TrialConfig make_trial_config(const SearchConfig& config, int64_t number);

/// Runs the trials that the study lacks, `workers` at a time, until it has config.trials; `backend` draws their values
/// where it is not null, and is told of them. Each that ends is added to the study before anything else happens.
/// Signals that ask to end go to the trials that run, and their end is waited for. Returns 0, 128 + the signal where
/// the study was interrupted, or 1 where the backend or the study failed, which is printed after the trials have ended.
int run_trials(const SearchConfig& config, Study& study, PythonBackend* backend, int64_t workers,
               const StartTrial& start);

/// Names and values, as the search prints them.
std::string shown(const TrialConfig& settings);
std::string shown(const Trial& trial, const std::vector<Objective>& objectives);

}  // namespace modular
