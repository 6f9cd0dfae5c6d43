"""Ray Tune for modrun search: one line of JSON in, one line of JSON out, in the format of optuna_helper.py.

Tune's search algorithms sample values and its schedulers judge running trials, as objects of this process. No Ray cluster is started, because modrun starts the trials. All questions and reports are written to "journal", one per line, before they are
answered. A resumed search replays them, so that the algorithms have the same state and sample the same values.
"""

import importlib.util
import json
import os
import sys
import types


def domain(tune, dimension):
    if "choices" in dimension:
        return tune.choice([native(choice) for choice in dimension["choices"]])
    low, high, step = dimension["low"], dimension["high"], dimension["step"]
    if step:  # Tune rounds to multiples of the step regardless of `low`: sample the number of steps instead
        return tune.randint(0, int((high - low) / step + 1e-9) + 1)
    if dimension["whole"]:
        return (tune.lograndint if dimension["log"] else tune.randint)(int(low), int(high) + 1)
    return (tune.loguniform if dimension["log"] else tune.uniform)(low, high)


def as_toml(dimension, value):
    if "choices" in dimension:
        return get_choice(dimension, value)
    if dimension["step"]:
        value = dimension["low"] + int(value) * dimension["step"]
    return repr(int(value) if dimension["whole"] else float(value))


class Random:
    """Samples like Tune's default search algorithm, BasicVariantGenerator."""

    def __init__(self, space, seed):
        import numpy
        from ray.tune.search.variant_generator import generate_variants

        state = numpy.random.default_rng(seed)
        self._sample = lambda: next(iter(generate_variants({"config": space}, random_state=state)))[1]["config"]

    def suggest(self, trial_id):
        return self._sample()

    def on_trial_result(self, trial_id, result):
        pass

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


# Search algorithm in Tune and required package of each sampler.
SAMPLERS = {"random": ("variant_generator", None), "tpe": ("optuna", "optuna"), "hyperopt": ("hyperopt", "hyperopt")}


def find_problem(sampler):
    """Returns an error message if the sampler is not available, else None."""
    if sampler not in SAMPLERS:
        return f'search.sampler is "{sampler}": with Ray it must be one of {", ".join(SAMPLERS)}'
    package = SAMPLERS[sampler][1]
    if package and not importlib.util.find_spec(package):
        return f'search.sampler is "{sampler}", and Python has no package {package}: {sys.executable} -m pip install {package}'
    return None


def algorithm(request, space, names):
    from ray.tune.search import create_searcher

    modes = ["min" if minimize else "max" for minimize in request["minimize"]]
    metric, mode = (names[0], modes[0]) if len(names) == 1 else (names, modes)
    if request["sampler"] == "random":
        return Random(space, request["seed"])
    if request["sampler"] == "hyperopt" and len(names) > 1:
        raise ValueError("search.sampler is hyperopt, which has one objective: set search.objective to one, or the sampler to tpe")
    seed = {"seed" if request["sampler"] == "tpe" else "random_state_seed": request["seed"]}
    searcher = create_searcher(SAMPLERS[request["sampler"]][0], metric=metric, mode=mode, **seed)
    searcher.set_search_properties(None, None, space)
    return searcher


def scheduler(request, name):
    from ray.tune import schedulers

    if not request["pruner"]:
        return None
    mode = "min" if request["minimize"][0] else "max"
    if request["pruner"] == "asha":
        # Do not stop trials at max_t: modrun knows when they end.
        return schedulers.AsyncHyperBandScheduler(metric=name, mode=mode, stop_last_trials=False)
    return schedulers.MedianStoppingRule(metric=name, mode=mode, time_attr="training_iteration", grace_period=1)


class Running:
    """A trial in the form that schedulers expect."""

    def __init__(self, number):
        self.trial_id, self.evaluations, self.last_step, self.last = str(number), 0, -1, {}


class Tune:
    """Answers questions with the search algorithm and the scheduler."""

    def __init__(self, tune, request):
        self._space, self._names = request["space"], [f"objective{i}" for i in range(len(request["minimize"]))]
        self._algorithm = algorithm(request, {each["key"]: domain(tune, each) for each in self._space}, self._names)
        self._scheduler = scheduler(request, self._names[0])
        self._controller = types.SimpleNamespace(get_live_trials=lambda: [])  # no trial is ever paused
        self._count, self.running = 0, {}

    def ask(self):
        trial = Running(self._count)
        sampled = self._algorithm.suggest(trial.trial_id)
        if sampled is None:
            raise RuntimeError("Ray's search algorithm has no more values to try")
        self.running[self._count] = trial
        self._count += 1
        if self._scheduler:
            self._scheduler.on_trial_add(self._controller, trial)
        return {"trial": self._count - 1, "settings": {each["key"]: as_toml(each, sampled[each["key"]]) for each in self._space}}

    def judge(self, number, step, value):
        trial = self.running[number]
        if step <= trial.last_step:  # repeated after an interruption
            return {"prune": False}
        trial.last_step = step
        trial.evaluations += 1
        trial.last = {self._names[0]: value, "training_iteration": trial.evaluations}
        self._algorithm.on_trial_result(trial.trial_id, trial.last)
        return {"prune": self._scheduler.on_trial_result(self._controller, trial, trial.last) == "STOP"}

    def tell(self, message):
        trial = self.running.pop(message["trial"])
        result = None
        if "values" in message:
            result = {**dict(zip(self._names, message["values"])), "training_iteration": max(trial.evaluations, 1)}
        self._algorithm.on_trial_complete(trial.trial_id, result=result or (trial.last if "pruned" in message else None), error="failure" in message)
        if self._scheduler and result:
            self._scheduler.on_trial_complete(self._controller, trial, result)
        elif self._scheduler and "failure" in message:
            self._scheduler.on_trial_error(self._controller, trial)
        return {}

    def answer(self, message):
        if "ask" in message:
            return self.ask()
        if "running" in message:
            return self.judge(message["running"], message["step"], message["value"])
        return self.tell(message)


def begin(tune, request):
    """Returns Tune in its state when the search was killed, the unfinished trials, and the open journal."""
    state, running = Tune(tune, request), {}
    kept = []
    if os.path.exists(request["journal"]):
        with open(request["journal"]) as file:
            kept = [line for line in file if line.endswith("\n")]  # an incomplete last line was not answered
    for number, line in enumerate(kept, 1):
        message, was = json.loads(line)
        if state.answer(message) != was:
            raise ValueError(f"{request['journal']}:{number}: another version of Ray or of its search algorithm answered differently: resume with that version, or use another search.dir")
        if "ask" in message:
            running[was["trial"]] = was
        elif "trial" in message:
            del running[message["trial"]]
    written = request["journal"] + ".new"
    if os.path.lexists(written):  # left by a killed search, or an untrusted link
        os.unlink(written)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "w") as file:
        file.writelines(kept)
    os.replace(written, request["journal"])
    journal = open(request["journal"], "a")
    for ended in request["ended"]:  # recorded but not reported
        if running.pop(ended["trial"], None):
            note(journal, ended, state.answer(ended))
    return state, list(running.values()), journal


def note(journal, message, answered):
    journal.write(json.dumps([message, answered]) + "\n")
    journal.flush()
    return answered


def main():
    sampler = json.loads(sys.stdin.readline())["sampler"]
    try:
        from ray import tune
    except ImportError as error:
        return answer({"error": lacks(error.name or "ray", '"ray[tune]"')})
    if problem := find_problem(sampler):
        return answer({"error": problem})
    if sampler == "tpe":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
    answer({})
    line = sys.stdin.readline()
    if not line:  # the study could not be opened
        return
    request = json.loads(line)
    try:
        state, unfinished, journal = begin(tune, request)
    except ValueError as error:
        return answer({"error": str(error)})
    except Exception as error:  # from Ray
        return answer({"error": f"{type(error).__name__}: {error}"})
    answer({})
    for line in sys.stdin:
        message = json.loads(line)
        if "ask" in message and unfinished:
            answer(unfinished.pop(0))
        else:
            answer(note(journal, message, state.answer(message)))


if __name__ == "__main__":
    serve(main)
