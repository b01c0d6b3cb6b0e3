# SPDX-License-Identifier: Apache-2.0
"""The time that a rule may take for one step: an endless loop in Python ends with an exception."""

import contextlib
import ctypes
import threading
import time


class TooSlow(Exception):
    """Raised in a rule that takes longer than its limit."""


class Watch:
    """Looks at the rules that run, from a thread of its own, which starts with the first of them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = {}  # thread: when its rule must be done
        self.thread = None

    @contextlib.contextmanager
    def limit(self, seconds):
        """Raises TooSlow in this block once it has taken so many seconds. Code that is not Python's, a sort or a
        sleep, comes to its end first."""
        here = threading.get_ident()
        with self.lock:
            self.running[here] = time.monotonic() + seconds
            if self.thread is None or not self.thread.is_alive():
                self.thread = threading.Thread(target=self.look, name="unmask.engine limit", daemon=True)
                self.thread.start()
        try:
            yield
        finally:
            with self.lock:
                late = self.running.pop(here) < time.monotonic()
                if late:  # what was asked for and did not come yet
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(here), None)
        if late:
            raise TooSlow()

    def look(self):
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            with self.lock:
                for thread, until in self.running.items():
                    if until < now:
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooSlow))


WATCH = Watch()
