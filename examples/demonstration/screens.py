"""What the demo shows while it runs: a live table on a terminal, a line every few seconds elsewhere."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from examples.demonstration.watching import Snapshot
from tidegate.audit.figures import Figure
from tidegate.model.durations import format_duration
from tidegate.model.limits import LimitStatus

LINE_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""

MESSAGES = 6
"""Messages that stay on screen below the table."""


class Screen:
    """Shows snapshots under a headline, and messages as they come."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._began = monotonic()
        self._headline = ""
        self._total = 0
        self._messages: deque[str] = deque(maxlen=MESSAGES)
        self._next_line = 0.0
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return monotonic() - self._began

    def act(self, headline: str, total: int) -> None:
        """Begin another part of the story, in which this many jobs are to be done."""
        self._headline, self._total = headline, total
        self._next_line = 0.0
        self.say(headline)

    def say(self, message: str) -> None:
        """Show a message with the time since the beginning."""
        line = f"{self.seconds:5.1f} s  {message}"
        self._messages.append(line)
        if self._live is not None:
            # above the live table, so that it stays in the terminal's history
            self._live.console.print(Text(line))
        else:
            self.print(Text(line))

    def print(self, thing: object) -> None:
        """Print something that stays."""
        self.console.print(thing, soft_wrap=isinstance(thing, Text))

    def show(self, snapshot: Snapshot) -> None:
        """Show how things stand now."""
        if self._live is not None:
            self._live.update(self._picture(snapshot), refresh=True)
        elif monotonic() >= self._next_line:
            self._next_line = monotonic() + LINE_EVERY
            self.print(Text(f"{self.seconds:5.1f} s  {self._line(snapshot)}"))

    def _line(self, snapshot: Snapshot) -> str:
        keys = ", ".join(
            f"{limit.key}: {snapshot.done.get(limit.key, 0)} done, {limit.running} running, {limit.waiting} waiting"
            for limit in snapshot.limits
        )
        return f"{snapshot.finished}/{self._total}  {keys}"

    def _picture(self, snapshot: Snapshot) -> Group:
        bar = ProgressBar(total=max(self._total, 1), completed=snapshot.finished, width=60)
        count = Text(f"{snapshot.finished} of {self._total} jobs done, {self.seconds:.0f} s", style="dim")
        return Group(Text(self._headline, style="bold"), limits_table(snapshot), _workers(snapshot), bar, count)


def limits_table(snapshot: Snapshot) -> Table:
    """Draw the limits with their use."""
    table = Table()
    table.add_column("key")
    for heading in ("max", "running", "waiting", "starts in the window", "done"):
        table.add_column(heading, justify="right")
    for limit in snapshot.limits:
        table.add_row(
            limit.key,
            "-" if limit.max_running is None else str(limit.max_running),
            _running(limit),
            str(limit.waiting),
            _starts(limit, snapshot.at),
            str(snapshot.done.get(limit.key, 0)),
        )
    return table


def figures_table(title: str, figures: Iterable[Figure]) -> Table:
    """Draw figures against their bars."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("what", overflow="fold")
    for heading in ("found", "must be"):
        table.add_column(heading, justify="right")
    table.add_column("holds")
    for figure in figures:
        holds = Text("yes", style="green") if figure.holds else Text("NO", style="bold red")
        found = f"{figure.value:g} {figure.unit}"
        table.add_row(figure.name, found, f"{figure.sense} {figure.bar:g}", holds)
    return table


def _running(limit: LimitStatus) -> Text:
    full = limit.max_running is not None and limit.running >= limit.max_running
    return Text(str(limit.running), style="yellow" if full else "")


def _starts(limit: LimitStatus, now: datetime) -> Text:
    if limit.max_starts is None or limit.window is None:
        return Text("-")
    text = f"{limit.starts} of {limit.max_starts} in {format_duration(limit.window)}"
    full = limit.starts >= limit.max_starts
    if full and limit.waiting and limit.next_start_at is not None:
        text += f", next in {max(0.0, (limit.next_start_at - now).total_seconds()):.0f} s"
    return Text(text, style="yellow" if full else "")


def _workers(snapshot: Snapshot) -> Text:
    text = Text("workers  ")
    for row in snapshot.workers:
        if row.alive:
            text.append(f"{row.name}: {row.running} running, heard {row.silent:.0f} s ago   ")
        else:
            text.append(f"{row.name}: gone   ", style="red")
    return text
