"""What the Python client programs have in common: how a check is named, run and reported.

Each check prints one line, `ok NAME` or `FAIL NAME: why`, which the runner (e2e/clients) reads. The addresses come in the environment:
AMQP_ADDRESS and KAFKA_ADDRESS (host:port), NAME_PREFIX (begins every name this run makes, so that runs do not meet).
"""

import functools
import itertools
import os
import signal
import sys
import time
import traceback

AMQP = os.environ.get("AMQP_ADDRESS", "")
KAFKA = os.environ.get("KAFKA_ADDRESS", "")
PREFIX = os.environ.get("NAME_PREFIX", "check")

# How long one check may take, in seconds, on a machine that is busy with others.
LIMIT = 60

_checks = []
_numbers = itertools.count(1)


def check(what):
    """Makes the function a check with this name."""

    def register(function):
        _checks.append((what, function))
        return function

    return register


def name(kind):
    """A name that nobody else uses."""
    return f"{PREFIX}.{kind}.{os.getpid()}.{next(_numbers)}"


def equal(got, want, what):
    if got == want:
        return
    if isinstance(got, list) and isinstance(want, list) and len(got) == len(want) > 5:
        i = next(i for i in range(len(got)) if got[i] != want[i])
        got, want, what = got[i], want[i], f"{what} number {i}"
    raise AssertionError(f"{what} is {short(got)}, want {short(want)}")


def short(value, most=300):
    """The value as text of a length that one can read."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, function, *args, **kwargs):
    """Returns the exception of this kind that the call raises."""
    try:
        result = function(*args, **kwargs)
    except kind as e:
        return e
    raise AssertionError(f"{getattr(function, '__name__', function)} returned {result!r}, want {kind}")


def until(what, condition, limit=30):
    """Calls condition until it returns something true, and returns that."""
    deadline = time.monotonic() + limit
    pause = 0.001
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit} s for {what}")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _late(*_):
    raise TimeoutError(f"not done within {LIMIT} s")


def run():
    """Runs all checks, or those whose names contain one of the program's arguments. Exits with 1 if one failed."""
    failed = 0
    signal.signal(signal.SIGALRM, _late)
    for what, function in _checks:
        if len(sys.argv) > 1 and not any(a in what for a in sys.argv[1:]):
            continue
        signal.alarm(LIMIT)
        try:
            function()
            print("ok", what, flush=True)
        except BaseException as e:  # a check that fails must not end the others
            signal.alarm(0)
            failed += 1
            where = traceback.extract_tb(e.__traceback__)
            own = [f for f in where if f.filename == sys.argv[0] or f.filename.endswith(os.path.basename(sys.argv[0]))] or where
            text = str(e).replace("\n", " ") or type(e).__name__
            print(f"FAIL {what}: line {own[-1].lineno}: {type(e).__name__}: {text}", flush=True)
            if isinstance(e, KeyboardInterrupt):
                raise
        finally:
            signal.alarm(0)
    # Threads of a client that hangs must not keep the program.
    sys.stdout.flush()
    os._exit(1 if failed else 0)


@functools.cache
def amqp_host_port():
    host, _, port = AMQP.rpartition(":")
    return host, int(port)
