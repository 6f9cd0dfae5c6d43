// Runs the trials of a study, several concurrently, and shares the machine's GPUs among them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/process.h"
#include "runtime/search/python_backend.h"
#include "runtime/search/study.h"

namespace modular {

/// Returns CUDA_VISIBLE_DEVICES for each of `workers` concurrent trials of `ranks` ranks, such that no two trials share
/// a GPU. The machine has `gpus` GPUs, named by `visible` (CUDA_VISIBLE_DEVICES of this process, or empty). Throws
/// ConfigError if there are too few GPUs.
std::vector<std::string> assign_gpus(int64_t gpus, const std::string& visible, int64_t ranks, int64_t workers);

/// Starts a trial. Its task answers with format_answer() or format_failure() at its end. `slot` is less than the number
/// of concurrent trials and unique among running trials. Throws std::exception if the trial cannot start, in which case
/// it counts as failed.
using StartTrial = std::function<std::unique_ptr<BackgroundTask>(const Trial& trial, int64_t slot)>;

/// Answers of a trial's task after a successful run: the values, or the reason why there are none.
std::string format_answer(const std::vector<double>& values);
std::string format_failure(const std::string& failure);

/// Config of trial `number` without a Python backend: a grid point, or sampled from the seed.
TrialConfig make_trial_config(const SearchConfig& config, int64_t number);

/// Runs trials, up to `workers` concurrently, until the study has config.trials. `backend`, if not null, samples their
/// values and receives their results. Each completed trial is recorded in the study before anything else happens.
/// Termination signals are forwarded to running trials, whose end is awaited. Returns 0, 128 + the signal if the study
/// was interrupted, or 1 if the backend or the study failed; the error is printed after the trials have ended.
int run_trials(const SearchConfig& config, Study& study, PythonBackend* backend, int64_t workers,
               const StartTrial& start);

/// Formats names and values for the search's output.
std::string shown(const TrialConfig& settings);
std::string shown(const Trial& trial, const std::vector<Objective>& objectives);

}  // namespace modular
