"""Weights & Biases for modrun train: a line of JSON in, a line of JSON out, {"error": sentence} where something cannot be done.

The first line, any, is answered with {} where there is the package, and an API key or no need of one. {"project", "folder", "name", "id",
"settings": {key: TOML}} begins the run, or continues with that of "id" where it is not empty, and is answered with {"id", "where"}. Then
{"log": [{"step", name: number or null}]} is answered with {}, and so is {"end": exit status}, after which this ends.
"""

import json
import math
import os
import sys
import tomllib

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what else is printed is none of them


def answer(message):
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def sentence(error):
    return " ".join(f"{type(error).__name__}: {error}".split())


def native(text):
    try:
        return tomllib.loads("value = " + text)["value"]
    except tomllib.TOMLDecodeError:
        return text


def import_wandb():
    # wandb takes settings, the server's address among them, from the working directory, and runs git there.
    if folder := os.environ.get("WANDB_DIR"):
        os.environ["WANDB_DIR"] = os.path.abspath(folder)
    os.chdir("/")
    try:
        import wandb
    except ImportError as error:
        raise RuntimeError(lacks(error.name or "wandb", "wandb")) from error
    if wandb.setup().settings.mode in ("online", "shared", "run"):
        try:
            wandb.login()
        except wandb.errors.Error as error:
            raise RuntimeError(f"{sentence(error)} (or set WANDB_MODE=offline, and send the run later by wandb sync)") from error
    return wandb


def begin(wandb, asked):
    settings = {key: native(text) for key, text in asked["settings"].items()}
    run = wandb.init(
        project=asked["project"],
        id=asked["id"] or None,  # or that of a sweep's agent
        name=os.environ.get("WANDB_NAME") or asked["name"],
        dir=os.environ.get("WANDB_DIR") or asked["folder"],
        resume="allow",
        config=settings,
        allow_val_change=True,
        settings=wandb.Settings(console="off", silent=True),
    )
    # What comes again after a rollback is told again, which wandb's own steps would not take.
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    where = f"in {os.path.dirname(run.dir)}: wandb sync sends it" if run.offline else f"at {run.url}"
    return run, {"id": run.id, "where": where}


def log(run, lines):
    for line in lines:
        run.log({name: math.nan if value is None else value for name, value in line.items()})


def main():
    wandb = run = None
    for text in sys.stdin:
        asked = json.loads(text)
        try:
            if wandb is None:
                wandb = import_wandb()
                answer({})
            elif run is None:
                run, begun = begin(wandb, asked)
                answer(begun)
            elif "log" in asked:
                log(run, asked["log"])
                answer({})
            else:
                run.finish(exit_code=asked["end"])
                answer({})
                return
        except Exception as error:  # whatever wandb raises is told to who looks on
            answer({"error": str(error) if isinstance(error, RuntimeError) else sentence(error)})
            return


if __name__ == "__main__":
    main()
