"""An app whose actors stop at places that a test sees and opens: files in a folder, as the test is another process."""

import asyncio
import os
import time
from pathlib import Path

from tidegate import App

app = App()

LOOK = 0.01


def enter(place: str) -> Path:
    """Leave a trace of this process, and return the file whose appearance lets the actor go on."""
    with Path(f"{place}.entered").open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    return Path(f"{place}.leave")


@app.actor(channel="held")
async def held(place: str) -> None:
    """Wait as a coroutine."""
    leave = enter(place)
    while not leave.exists():
        await asyncio.sleep(LOOK)


@app.actor(channel="held")
def held_in_thread(place: str) -> None:
    """Wait in a thread."""
    leave = enter(place)
    while not leave.exists():
        time.sleep(LOOK)


@app.actor(channel="held")
async def blocking(place: str) -> None:
    """Wait where no coroutine may: the event loop stands still."""
    leave = enter(place)
    while not leave.exists():
        time.sleep(LOOK)  # noqa: ASYNC251 - the fault


@app.actor(channel="held")
def deadly(place: str, beside: str) -> None:
    """End the process, at first not before a job is at the place beside, in the same process."""
    enter(place)
    met = Path(f"{beside}.entered")
    while not Path(f"{place}.alone").exists() and not (met.exists() and str(os.getpid()) in met.read_text().split()):
        time.sleep(LOOK)
    os._exit(9)
