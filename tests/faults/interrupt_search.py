"""Kills a search at random times, resumes it each time, and checks that only running trials are lost.

usage: interrupt_search.py --modrun build/ci/bin/modrun --python .venv/bin/python3 [--count 3] [--trials 4] [--seed 1] [--backend optuna] [--workers 3]

The search trains a small model on two ranks and optimizes loss and throughput, with a varying number of concurrent trials up to --workers. SIGKILL goes to modrun and all of its descendants. In the end, each trial number is recorded once and unchanged since it was first seen; the search has the
requested number of trials, and none has failed; pareto/ holds the Pareto front; Optuna opens the study, in which no trial is running, with the same values and the same best trials.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

CONFIG = """
[model]
entry = 'llama'
[model.config]
vocab_size = 256
hidden_size = 32
intermediate_size = 48
num_hidden_layers = 2
num_attention_heads = 4
[data]
paths = ['{data}']
validation_every = 4
[train]
steps = 60
batch_size = 8
seq_len = 32
[eval]
samples = 8
[checkpoint]
every = -1
[search]
dir = '{study}'
backend = '{backend}'
python = '{python}'
trials = {trials}
objective = ['val_loss', 'samples_per_second']
[search.space]
'optim.lr' = {{ low = 1e-4, high = 1e-1, log = true }}
'train.batch_size' = [4, 8]
"""


def holds_study(study):
    return (study / "trials.jsonl").exists()


def load_trials(study):
    try:
        lines = (study / "trials.jsonl").read_text().splitlines()
    except FileNotFoundError:
        return []
    return [trial for trial in map(json.loads, lines) if "trial" in trial]


def start(modrun, config, resume, workers):
    command = [modrun, "--nproc-per-node", "2", "search", str(config), "--workers", str(workers)] + (["--resume"] if resume else [])
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def kill_all(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def dominated(values, others):
    """Whether another trial is better. Minimizes the loss and maximizes the throughput."""
    return any(other[0] <= values[0] and other[1] >= values[1] and other != values for other in others)


def check(condition, message):
    if not condition:
        sys.exit(f"error: {message}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--modrun", required=True)
    parser.add_argument("--python", required=True)
    parser.add_argument("--backend", default="optuna")
    long = os.environ.get("MODULAR_LONG_TESTS") == "1"
    parser.add_argument("--count", type=int, default=20 if long else 3)
    parser.add_argument("--trials", type=int, default=20 if long else 4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    modrun, rng = str(pathlib.Path(arguments.modrun).resolve()), random.Random(arguments.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="modular-search-"))
    for number in range(8):
        (folder / f"data{number}.txt").write_text("".join(f"line {line * (number + 3)} of file {number}\n" for line in range(40)))
    study = folder / "study"
    python = str(pathlib.Path(arguments.python).absolute())
    config = folder / "search.toml"
    config.write_text(CONFIG.format(data=folder / "*.txt", study=study, python=python, backend=arguments.backend, trials=arguments.trials))

    seen, kills = {}, 0
    while kills < arguments.count:
        process = start(modrun, config, resume=holds_study(study), workers=rng.randint(1, arguments.workers))
        # One kill in four hits the startup or the opening of the study; the others hit a trial, however long the startup takes.
        if rng.random() < 0.25:
            time.sleep(rng.uniform(0.2, 2.0))
        else:
            while not holds_study(study) and process.poll() is None:
                time.sleep(0.05)
            time.sleep(rng.uniform(0.2, 4.0))
        ended = process.poll() is not None
        if ended:
            output = process.communicate()[0]
            check(process.returncode == 0, f"resumed after {kills} kills, the search ended with {process.returncode}:\n{output}")
        else:
            kill_all(process)
            kills += 1
        for trial in load_trials(study):
            check(seen.setdefault(trial["trial"], trial) == trial, f"trial {trial['trial']} was {seen[trial['trial']]} and is {trial} in {folder}")
        if ended:
            break
    process = start(modrun, config, resume=holds_study(study), workers=1)
    output = process.communicate()[0]
    check(process.returncode == 0, f"the search ended with {process.returncode}:\n{output}")

    trials = load_trials(study)
    check(len(trials) == arguments.trials, f"{len(trials)} trials in {study}, expected {arguments.trials}")
    check(len({trial["trial"] for trial in trials}) == len(trials), f"duplicate trial in {study}")
    for number, trial in seen.items():
        check(trial in trials, f"completed trial {number} is missing from {study}")
    failed = [trial for trial in trials if "values" not in trial]
    check(not failed, f"trials have failed in {study}: {failed}")
    values = {trial["trial"]: [trial["values"][name] for name in ("val_loss", "samples_per_second")] for trial in trials}
    best = {number for number, value in values.items() if not dominated(value, values.values())}
    found = {int(path.stem) for path in (study / "pareto").glob("*.toml")}
    check(found == best, f"{study}/pareto holds {sorted(found)}, expected {sorted(best)}")
    if arguments.backend == "optuna":
        script = (
            "import json, sys, optuna; study = optuna.load_study(study_name='study', storage='sqlite:///' + sys.argv[1]);"
            "print(json.dumps({'best': [trial.number for trial in study.best_trials], 'running': [trial.number for trial in study.trials if trial.state.name == 'RUNNING'],"
            "'values': {trial.number: trial.values for trial in study.trials if trial.state.name == 'COMPLETE'}}))"
        )
        theirs = json.loads(subprocess.run([python, "-c", script, str(study / "study.db")], check=True, capture_output=True, text=True).stdout)
        check(set(theirs["best"]) == best, f"Optuna's best trials are {theirs['best']}, and pareto/ has {sorted(best)} in {study}")
        check(not theirs["running"], f"Optuna has trials {theirs['running']} still running in {study}")
        check({int(number): value for number, value in theirs["values"].items()} == values, f"Optuna's values differ in {study}")
    print(f"{kills} kills: all {len(seen)} completed trials were kept, {len(trials)} in the end")


if __name__ == "__main__":
    main()
