# SPDX-License-Identifier: Apache-2.0
"""unmask chat: render conversations with a checkpoint's own chat template.

As transformers does, in jinja2's sandbox. python -m unmask chat FILE reads JSON lines: first {"template",
"variables", "where"}, then one {"messages", "add_generation_prompt", ...} for each conversation; further keys of a
conversation are variables of the template (enable_thinking). It prints one {"text"} a line. A template is a
stranger's program: time, memory and the size of a text are bounded."""

import json
import resource
import signal
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from unmask.rows import options
from unmask.rows.errors import EnvironmentFault, UserError

SECONDS = 10  # of one conversation
TOTAL_SECONDS = 600  # of processor time, enforced by the kernel
MEMORY = 2 << 30  # bytes of address space
CHARACTERS = 16 << 20  # of one rendered text


class TooLong(BaseException):
    """A conversation took too long. No Exception: jinja2 swallows those of what it computes in advance."""


class GenerationBlock(jinja2.ext.Extension):
    """The block {% generation %} marks what an assistant said; rendered, it is its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = jinja2.nodes.CallBlock(self.call_method("render_body"), [], [], body)
        return call.set_lineno(line)

    def render_body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.now().strftime(form)


def compile_template(text):
    """Compile with the options, filters and functions that transformers gives to a template."""
    environment = ImmutableSandboxedEnvironment(
        optimized=False, trim_blocks=True, lstrip_blocks=True,
        extensions=[GenerationBlock, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    return environment.from_string(text)


def render(template, variables, request):
    """Render one conversation; ValueError if the text is longer than CHARACTERS or is no text."""
    given = {"tools": None, "documents": None, **variables, **request}
    pieces, size = [], 0
    for piece in template.generate(**given):
        size += len(piece)
        if size > CHARACTERS:
            raise ValueError(f"makes a text of more than {CHARACTERS} characters")
        pieces.append(piece)
    text = "".join(pieces)
    half = next((c for c in text if "\ud800" <= c <= "\udfff"), None)
    if half is not None:
        raise ValueError(f"writes U+{ord(half):04X}, half of a surrogate pair, which is no character")
    return text


def limit_process():
    def stop(*_):
        raise TooLong(f"takes more than {SECONDS} s for a conversation")

    signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (TOTAL_SECONDS, TOTAL_SECONDS))


def start_clock():
    """The next conversation has SECONDS from here; the alarm comes again until it is heard."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    # A C function (a huge power, a huge repetition) hears no alarm: the kernel ends it.
    hard = min(TOTAL_SECONDS, int(used.ru_utime + used.ru_stime) + SECONDS + 5)
    resource.setrlimit(resource.RLIMIT_CPU, (hard, TOTAL_SECONDS))
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)


def render_all(lines):
    """Yield the texts of the conversations in `lines`, whose first one holds the template."""
    head = json.loads(next(lines))
    where = head["where"]
    number = 0
    try:
        start_clock()
        template = compile_template(head["template"])
        for number, line in enumerate(lines, 1):
            request = json.loads(line)
            start_clock()
            text = render(template, head["variables"], request)
            signal.setitimer(signal.ITIMER_REAL, 0)
            yield text
    except jinja2.exceptions.TemplateSyntaxError as problem:
        raise EnvironmentFault(f"line {problem.lineno} of the chat template of {where}: "
                               f"{problem.message}") from problem
    except MemoryError as problem:
        raise EnvironmentFault(f"the chat template of {where} takes more than {MEMORY >> 30} GiB "
                               f"for conversation {number}") from problem
    except UserError:
        raise
    except (Exception, TooLong) as problem:  # whatever a stranger's program raises
        words = " ".join(str(problem).split())[:300] or type(problem).__name__
        raise EnvironmentFault(f"the chat template of {where} fails on conversation {number}: "
                               f"{words}") from problem


def main(arguments):
    parser = options.parser(__doc__)
    parser.add_argument("file", help="JSON lines: the template, then a conversation a line")
    path = parser.parse_args(arguments).file
    limit_process()
    with open(path, encoding="utf-8") as lines:
        for text in render_all(lines):
            print(json.dumps({"text": text}))
    return 0
