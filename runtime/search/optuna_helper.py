"""Optuna for modrun search: a line of JSON in, a line of JSON out.

The first line, {"sampler"}, is answered with {}, or {"error": sentence} where there is no Optuna or no such sampler. The next line says what is searched: {"storage", "study", "shared": whether other machines are in it, "place": a name for this one's folder, "workers", "sampler",
"pruner", "seed", "minimize": [bool], "space": [{"key", "choices": [TOML]} or {"key", "low", "high", "step", "log", "whole"}], "ended": [{"trial", "values" or "failure"}]}. The answer is {} or {"error": sentence}.
Then {"ask": true} is answered with {"trial": number, "settings": {key: TOML}}, {"running": number, "step", "value"} with {"prune": bool}, and {"trial", "values", "failure" or "pruned"}
with {}.
"""

import json
import sys
import zlib


def suggested(trial, dimension):
    """What Optuna draws for a trial, as TOML, or has drawn: of a trial that was begun when the program was killed there may be some values."""
    key = dimension["key"]
    if "choices" in dimension:
        return get_choice(dimension, trial.suggest_categorical(key, [native(choice) for choice in dimension["choices"]]))
    if dimension["whole"]:
        return repr(trial.suggest_int(key, int(dimension["low"]), int(dimension["high"]), log=dimension["log"], step=int(dimension["step"] or 1)))
    return repr(trial.suggest_float(key, dimension["low"], dimension["high"], log=dimension["log"], step=dimension["step"] or None))


SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler", "nsga2": "NSGAIISampler", "gp": "GPSampler"}


def get_sampler(optuna, asked, trials):
    """A sampler for a study that has so many trials."""
    # From the same seed a study that continues, and another machine in it, would draw again what was tried.
    seed = asked["seed"]
    if trials or asked["shared"]:
        seed = zlib.crc32(f"{seed} {trials} {asked['place'] if asked['shared'] else ''}".encode())
    # Of several trials at a time, what is being tried counts as bad, or all would try the same.
    liar = {"constant_liar": asked["workers"] > 1 or asked["shared"]} if asked["sampler"] == "tpe" else {}
    return getattr(optuna.samplers, SAMPLERS[asked["sampler"]])(seed=seed, **liar)


def pruner_named(optuna, name):
    pruners = {"": optuna.pruners.NopPruner, "median": optuna.pruners.MedianPruner, "hyperband": optuna.pruners.HyperbandPruner}
    return pruners[name]()


def tell(optuna, study, message):
    if "values" in message:
        study.tell(message["trial"], message["values"])
    elif "pruned" in message:
        study.tell(message["trial"], state=optuna.trial.TrialState.PRUNED)
    else:
        study.tell(message["trial"], state=optuna.trial.TrialState.FAIL)


def begin(optuna, asked):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = ["minimize" if minimize else "maximize" for minimize in asked["minimize"]]
    study = optuna.create_study(
        study_name=asked["study"],
        storage=asked["storage"],
        pruner=pruner_named(optuna, asked["pruner"]),
        directions=directions,
        load_if_exists=True,
    )
    there = [direction.name.lower() for direction in study.directions]
    if there != directions:
        raise ValueError(f"the study {asked['study']} in {asked['storage']} wants {', '.join(there)}, and this search {', '.join(directions)}")
    study.sampler = get_sampler(optuna, asked, len(study.get_trials(deepcopy=False)))
    # What the search has written down and was not told before it was killed; then what it was trying.
    running = {trial.number: trial for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING])}
    for ended in asked["ended"]:
        if running.pop(ended["trial"], None) is not None:
            tell(optuna, study, ended)
    return study, [trial for trial in running.values() if not asked["shared"] or trial.user_attrs.get("place") == asked["place"]]


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
    asked = json.loads(line)
    try:
        study, unfinished = begin(optuna, asked)
    except Exception as error:  # of the storage, say
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
            if asked["shared"]:
                trial.set_user_attr("place", asked["place"])
        trials[trial.number] = trial
        answer({"trial": trial.number, "settings": {each["key"]: suggested(trial, each) for each in asked["space"]}})


if __name__ == "__main__":
    serve(main)
