"""Optuna for modrun search: one line of JSON in, one line of JSON out.

The first line, {"sampler"}, is answered with {}, or {"error": message} if Optuna or the sampler is missing. The next line describes the search: {"storage", "study", "shared": whether other machines use the study, "location": unique name of this machine's folder, "workers", "sampler",
"pruner", "seed", "minimize": [bool], "space": [{"key", "choices": [TOML]} or {"key", "low", "high", "step", "log", "whole"}], "ended": [{"trial", "values" or "failure"}]}. The answer is {} or {"error": message}.
After that, {"ask": true} is answered with {"trial": number, "settings": {key: TOML}}, {"running": number, "step", "value"} with {"prune": bool}, and {"trial", "values", "failure" or "pruned"}
with {}.
"""

import json
import sys
import zlib


def suggested(trial, dimension):
    """Returns the value that Optuna suggests for a trial, as TOML. Trials that were running when the search was killed may already have some values."""
    key = dimension["key"]
    if "choices" in dimension:
        return get_choice(dimension, trial.suggest_categorical(key, [native(choice) for choice in dimension["choices"]]))
    if dimension["whole"]:
        return repr(trial.suggest_int(key, int(dimension["low"]), int(dimension["high"]), log=dimension["log"], step=int(dimension["step"] or 1)))
    return repr(trial.suggest_float(key, dimension["low"], dimension["high"], log=dimension["log"], step=dimension["step"] or None))


SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler", "nsga2": "NSGAIISampler", "gp": "GPSampler"}


def get_sampler(optuna, request, trials):
    """Returns a sampler for a study with `trials` trials."""
    # With the same seed, a resumed study or another machine would sample the same values again.
    seed = request["seed"]
    if trials or request["shared"]:
        seed = zlib.crc32(f"{seed} {trials} {request['location'] if request['shared'] else ''}".encode())
    # With concurrent trials, treat running trials as bad, so that they do not all sample the same values.
    liar = {"constant_liar": request["workers"] > 1 or request["shared"]} if request["sampler"] == "tpe" else {}
    return getattr(optuna.samplers, SAMPLERS[request["sampler"]])(seed=seed, **liar)


def get_pruner(optuna, name):
    pruners = {"": optuna.pruners.NopPruner, "median": optuna.pruners.MedianPruner, "hyperband": optuna.pruners.HyperbandPruner}
    return pruners[name]()


def tell(optuna, study, message):
    if "values" in message:
        study.tell(message["trial"], message["values"])
    elif "pruned" in message:
        study.tell(message["trial"], state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(message["trial"], state=optuna.trial.TrialState.FAIL)


def begin(optuna, request):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = ["minimize" if minimize else "maximize" for minimize in request["minimize"]]
    study = optuna.create_study(
        study_name=request["study"],
        storage=request["storage"],
        pruner=get_pruner(optuna, request["pruner"]),
        directions=directions,
        load_if_exists=True,
    )
    existing = [direction.name.lower() for direction in study.directions]
    if existing != directions:
        raise ValueError(f"the study {request['study']} in {request['storage']} has directions {', '.join(existing)}, and this search {', '.join(directions)}")
    study.sampler = get_sampler(optuna, request, len(study.get_trials(deepcopy=False)))
    # Report trials that were recorded but not reported before the search was killed. The others are resumed.
    running = {trial.number: trial for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING])}
    for ended in request["ended"]:
        if running.pop(ended["trial"], None) is not None:
            tell(optuna, study, ended)
    return study, [trial for trial in running.values() if not request["shared"] or trial.user_attrs.get("place") == request["location"]]


def main():
    sampler = json.loads(sys.stdin.readline())["sampler"]
    try:
        import optuna
    except ImportError as error:
        return answer({"error": lacks(error.name or "optuna", "optuna")})
    if sampler not in SAMPLERS:
        return answer({"error": f'search.sampler is "{sampler}": with Optuna it must be one of {", ".join(SAMPLERS)}'})
    answer({})
    line = sys.stdin.readline()
    if not line:  # the study could not be opened
        return
    request = json.loads(line)
    try:
        study, unfinished = begin(optuna, request)
    except Exception as error:  # e.g. from the storage
        return answer({"error": f"{type(error).__name__}: {error}"})
    answer({})
    trials = {}
    for line in sys.stdin:
        message = json.loads(line)
        if "running" in message:
            trial = trials[message["running"]]
            trial.report(message["value"], message["step"])
            answer({"prune": bool(trial.should_prune())})
            continue
        if "ask" not in message:
            tell(optuna, study, message)
            answer({})
            continue
        if unfinished:
            trial = optuna.trial.Trial(study, unfinished.pop(0)._trial_id)
        else:
            trial = study.ask()
            if request["shared"]:
                trial.set_user_attr("place", request["location"])
        trials[trial.number] = trial
        answer({"trial": trial.number, "settings": {each["key"]: suggested(trial, each) for each in request["space"]}})


if __name__ == "__main__":
    serve(main)
