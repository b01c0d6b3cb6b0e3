# SPDX-License-Identifier: Apache-2.0
"""What lies behind Unmask's rows: prompts and scores of published benchmarks by their own libraries,
rows as frames, comparisons, claims, layouts and what figures show."""

__version__ = "0.1.0"


def read(*paths):
    """Reads rows of files and folders as a pandas frame, a line for each point."""
    from unmask.rows import flat
    return flat.read(*paths)


def requests(*paths):
    """Reads the requests that served rows kept as a pandas frame, a line for each with its times."""
    from unmask.rows import flat
    return flat.requests(*paths)


def rows_of(frame):
    """The rows behind a frame that read() made, or behind any selection of it."""
    from unmask.rows import flat
    return flat.rows_of(frame)


def write(frame, path):
    """Writes the rows behind a frame that read() made, or behind any selection of it, byte for byte."""
    from unmask.rows import flat
    return flat.write(frame, path)


def record(folder, **settings):
    """Records a decoding loop of another program as a row and trajectories (unmask.rows.recorder)."""
    from unmask.rows import recorder
    return recorder.record(folder, **settings)


def record_served(file, folder, **settings):
    """Records the result of a load test's client as a row of a served point (unmask.rows.served)."""
    from unmask.rows import served
    return served.record_served(file, folder, **settings)
