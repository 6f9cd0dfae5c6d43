"""Joined to optuna_helper.py and ray_helper.py: answers, and choices as the libraries draw them."""

import json
import signal
import sys
import tomllib


def answer(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def serve(main):
    """Runs main(): what goes wrong in it is an answer, for modrun to say, and no traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: modrun, which gets it too, ends this program
    try:
        main()
    except BrokenPipeError:
        pass
    except Exception as error:
        answer({"error": f"{type(error).__name__}: {error}"})


def native(choice):
    """What a library sees of a choice: its value, where that is simple, else its text."""
    value = tomllib.loads("value = " + choice)["value"]
    return value if isinstance(value, (bool, int, float, str)) else choice


def get_choice(dimension, value):
    """The choice that was drawn by its native value."""
    return next(choice for choice in dimension["choices"] if type(native(choice)) is type(value) and native(choice) == value)
