# SPDX-License-Identifier: Apache-2.0
"""The time that a rule may take for one step: an endless loop in Python ends with an exception."""

import ctypes
import os
import threading
import time


class TooSlow(Exception):
    """Raised in a rule that takes longer than its limit."""


class Limit:
    """A block of one thread. It is entered once for each request of each step: a class is cheaper than a generator."""

    __slots__ = ("watch", "seconds", "here")

    def __init__(self, watch, seconds):
        self.watch, self.seconds = watch, seconds

    def __enter__(self):
        self.here = threading.get_ident()
        self.watch.enter(self.here, time.monotonic() + self.seconds)

    def __exit__(self, *raised):
        if self.watch.leave(self.here):
            raise TooSlow()


class Watch:
    """Looks at the rules that run, from a thread of its own, which starts with the first of them."""

    def __init__(self):
        self.begin()
        os.register_at_fork(after_in_child=self.begin)

    def begin(self):
        """A child has none of its parent's threads, and a lock that one of them held stays locked."""
        self.lock = threading.Lock()
        self.running = {}  # thread: when its rule must be done
        self.thread = None

    def limit(self, seconds):
        """Raises TooSlow in a `with` block once it has taken so many seconds. Code that is not Python's, a sort or a
        sleep, comes to its end first."""
        return Limit(self, seconds)

    def enter(self, here, until):
        with self.lock:
            self.running[here] = until
            if self.thread is None:
                self.thread = threading.Thread(target=self.look, name="unmask.engine limit", daemon=True)
                self.thread.start()

    def leave(self, here):
        """Whether the block of this thread took too long."""
        with self.lock:
            late = self.running.pop(here) < time.monotonic()
            if late:  # what was asked for and did not come yet
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(here), None)
        return late

    def look(self):
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            with self.lock:
                for thread, until in self.running.items():
                    if until < now:
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooSlow))


WATCH = Watch()
