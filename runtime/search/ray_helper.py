"""Ray Tune for modrun search: a line of JSON in, a line of JSON out, as optuna_helper.py has it.

Tune's own search algorithm draws the values and its own scheduler judges trials that run, as objects of this process: no cluster of Ray is started, as modrun starts the trials. What they were asked and told is written to "journal", a
line each, before it is answered. A search that goes on asks and tells them the same again, so that they know what they knew and draw what they would have drawn.
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
    if step:  # Tune rounds to multiples of a step, wherever the range begins: the number of steps is drawn instead
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
    """What Tune's default search algorithm, BasicVariantGenerator, draws."""

    def __init__(self, space, seed):
        import numpy
        from ray.tune.search.variant_generator import generate_variants

        state = numpy.random.default_rng(seed)
        self._draw = lambda: next(iter(generate_variants({"config": space}, random_state=state)))[1]["config"]

    def suggest(self, trial_id):
        return self._draw()

    def on_trial_result(self, trial_id, result):
        pass

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


# Tune's name of the search algorithm of each sampler, and the package that it needs.
SAMPLERS = {"random": ("variant_generator", None), "tpe": ("optuna", "optuna"), "hyperopt": ("hyperopt", "hyperopt")}


def find_problem(sampler):
    """Why there is no such sampler, or nothing."""
    if sampler not in SAMPLERS:
        return f'search.sampler is "{sampler}": with Ray it must be one of {", ".join(SAMPLERS)}'
    package = SAMPLERS[sampler][1]
    if package and not importlib.util.find_spec(package):
        return f'search.sampler is "{sampler}", and Python has no package {package}: {sys.executable} -m pip install {package}'
    return None


def algorithm(asked, space, names):
    from ray.tune.search import create_searcher

    modes = ["min" if minimize else "max" for minimize in asked["minimize"]]
    metric, mode = (names[0], modes[0]) if len(names) == 1 else (names, modes)
    if asked["sampler"] == "random":
        return Random(space, asked["seed"])
    if asked["sampler"] == "hyperopt" and len(names) > 1:
        raise ValueError("search.sampler is hyperopt, which has one objective: set search.objective to one, or the sampler to tpe")
    seed = {"seed" if asked["sampler"] == "tpe" else "random_state_seed": asked["seed"]}
    searcher = create_searcher(SAMPLERS[asked["sampler"]][0], metric=metric, mode=mode, **seed)
    searcher.set_search_properties(None, None, space)
    return searcher


def scheduler(asked, name):
    from ray.tune import schedulers

    if not asked["pruner"]:
        return None
    mode = "min" if asked["minimize"][0] else "max"
    if asked["pruner"] == "asha":
        # A trial that has come to the end is not stopped there: modrun knows when it ends.
        return schedulers.AsyncHyperBandScheduler(metric=name, mode=mode, stop_last_trials=False)
    return schedulers.MedianStoppingRule(metric=name, mode=mode, time_attr="training_iteration", grace_period=1)


class Running:
    """A trial as schedulers see it."""

    def __init__(self, number):
        self.trial_id, self.evaluations, self.last_step, self.last = str(number), 0, -1, {}


class Tune:
    """Answers questions by asking the search algorithm and the scheduler."""

    def __init__(self, tune, asked):
        self._space, self._names = asked["space"], [f"objective{i}" for i in range(len(asked["minimize"]))]
        self._algorithm = algorithm(asked, {each["key"]: domain(tune, each) for each in self._space}, self._names)
        self._scheduler = scheduler(asked, self._names[0])
        self._controller = types.SimpleNamespace(get_live_trials=lambda: [])  # none of them is paused
        self._count, self.running = 0, {}

    def ask(self):
        trial = Running(self._count)
        drawn = self._algorithm.suggest(trial.trial_id)
        if drawn is None:
            raise RuntimeError("Ray's search algorithm has nothing more to try")
        self.running[self._count] = trial
        self._count += 1
        if self._scheduler:
            self._scheduler.on_trial_add(self._controller, trial)
        return {"trial": self._count - 1, "settings": {each["key"]: as_toml(each, drawn[each["key"]]) for each in self._space}}

    def judge(self, number, step, value):
        trial = self.running[number]
        if step <= trial.last_step:  # again, after the trial was interrupted
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


def begin(tune, asked):
    """Tune as it was when the search was killed, the trials that it was trying, and the journal to write on."""
    state, running = Tune(tune, asked), {}
    kept = []
    if os.path.exists(asked["journal"]):
        with open(asked["journal"]) as file:
            kept = [line for line in file if line.endswith("\n")]  # the last may be cut off: it was not answered
    for number, line in enumerate(kept, 1):
        message, was = json.loads(line)
        if state.answer(message) != was:
            raise ValueError(f"{asked['journal']}:{number}: another version of Ray, or of its search algorithm, answered otherwise: continue with that one, or name another search.dir")
        if "ask" in message:
            running[was["trial"]] = was
        elif "trial" in message:
            del running[message["trial"]]
    written = asked["journal"] + ".new"
    if os.path.lexists(written):  # of a search that was killed, or a link that somebody else made
        os.unlink(written)
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644), "w") as file:
        file.writelines(kept)
    os.replace(written, asked["journal"])
    journal = open(asked["journal"], "a")
    for ended in asked["ended"]:  # what was written down and not told
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
    asked = json.loads(line)
    try:
        state, unfinished, journal = begin(tune, asked)
    except ValueError as error:
        return answer({"error": str(error)})
    except Exception as error:  # of Ray's own
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
