"""``make demo``: two tenants, a vendor with a rate, a worker that is killed, and the proof that no limit was broken.

Needs nothing but Python: the Postgres it runs comes with the dependencies. Ends in about ninety seconds, leaves no
process and no data, and writes ``build/demo.json``. The exit code is 0 only if everything is proven.
"""

import asyncio
import signal
import sys
from pathlib import Path

from rich.text import Text

# Ctrl-C while all this is imported ends the process without a word; main() sets it right
signal.signal(signal.SIGINT, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from examples.demonstration.proofs import Proof  # noqa: E402 - the line above makes the package importable
from examples.demonstration.scenes import Played, play_default_order, play_fair_order  # noqa: E402
from examples.demonstration.screens import Screen, figures_table  # noqa: E402
from tidegate.audit.figures import write_figures  # noqa: E402
from tidegate.errors import TidegateError  # noqa: E402
from tidegate.store.embedded import temporary_server  # noqa: E402

BUILD = ROOT / "build"
REPORT = BUILD / "demo.json"
LOGS = BUILD / "demo"

PROVEN, NOT_PROVEN, FAILED, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    """Run the demo and return its exit code."""
    screen = Screen()
    # until the event loop has its own: SIGTERM ends the demo as Ctrl-C does
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    try:
        screen.say("starting Postgres (it came with the dependencies, and goes with the demo)")
        with temporary_server() as server:
            before, after = asyncio.run(play(server.url, screen))
        return report(Proof(before, after), screen)
    except (KeyboardInterrupt, asyncio.CancelledError):
        screen.say("stopped; nothing is left running")
        return INTERRUPTED
    except (TidegateError, RuntimeError, TimeoutError) as error:
        screen.say(f"the demo failed: {str(error) or type(error).__name__}")
        screen.say(f"its workers' logs are in {LOGS.relative_to(ROOT)}/")
        return FAILED


async def play(url: str, screen: Screen) -> tuple[Played, Played]:
    """Play both parts of the story."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with screen:
        before = await play_default_order(url, screen, LOGS)
        screen.say("look further while it runs, in another terminal:")
        screen.say(f"  export TIDEGATE_DATABASE_URL='{url}'")
        screen.say("  .venv/bin/tidegate limits list    (or: queues list, jobs list, jobs show ID)")
        return before, await play_fair_order(url, screen, LOGS)


def report(proof: Proof, screen: Screen) -> int:
    """Print the proof, write the report, and return the exit code."""
    screen.print(figures_table("computed from the recorded history", proof.figures))
    for figure in proof.figures:
        if figure.note:
            screen.print(Text(f"  {figure.name}: {figure.note}"))
    if proof.verdict.violations:
        screen.print(str(proof.verdict))
    write_figures(REPORT, proof.figures, proof.details())
    screen.say(f"{'proven' if proof.holds else 'NOT PROVEN'}: {proof.verdict}")
    screen.say(
        f"the figures: {REPORT.relative_to(ROOT)}; the workers' logs: {LOGS.relative_to(ROOT)}/; what next: README.md"
    )
    return PROVEN if proof.holds else NOT_PROVEN


if __name__ == "__main__":
    sys.exit(main())
