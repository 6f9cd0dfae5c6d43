"""Appended to optuna_helper.py and ray_helper.py: answers, and conversion of choices."""

import json
import signal
import sys
import tomllib


def answer(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def serve(main):
    """Runs main(). An exception becomes an answer that modrun reports, not a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal: modrun receives it too and ends this program
    try:
        main()
    except BrokenPipeError:
        pass
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})


def native(choice):
    """Returns a choice as passed to a library: its value if that is a scalar, otherwise its TOML text."""
    value = tomllib.loads("value = " + choice)["value"]
    return value if isinstance(value, (bool, int, float, str)) else choice


def get_choice(dimension, value):
    """Returns the choice with the given native value."""
    return next(choice for choice in dimension["choices"] if type(native(choice)) is type(value) and native(choice) == value)
