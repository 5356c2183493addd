"""Claims with a hand-in, one after another, as a worker's loop makes them."""

from bench.claimants import Claimant
from bench.processors import Stopwatch
from bench.samples import Timings


class Stepping:
    """Takes samples of one claimant that always has jobs in hand; `open` makes it."""

    def __init__(self, claimant: Claimant, watch: Stopwatch) -> None:
        self._claimant = claimant
        self._watch = watch

    @classmethod
    async def open(cls, claimant: Claimant) -> "Stepping":
        """Begin with jobs in hand."""
        claimant.held = await claimant.claim()
        return cls(claimant, await Stopwatch.open(claimant.connection))

    async def sample(self, timings: Timings) -> None:
        """Time one claim that hands in."""
        self._watch.start()
        await self._claimant.turn(())
        self._watch.lap((timings.both, timings.both_ran))

    async def close(self) -> None:
        """Finish what is in hand."""
        await self._claimant.put_away(self._claimant.held)
        self._claimant.held = []
