"""An app of one actor; the database is TIDEGATE_DATABASE_URL.

``python greetings.py 300`` enqueues so many greetings under the limit `vendor-x`.
"""

import asyncio
import sys

from tidegate import App

app = App()


@app.actor(channel="greetings")
async def greet(name: str, seconds: float = 0) -> None:
    """Greet somebody, after so many seconds."""
    await asyncio.sleep(seconds)
    print("hello", name, flush=True)


async def send(jobs: int) -> None:
    """Enqueue all of them or none."""
    async with app, app.engine.begin() as connection:
        for number in range(jobs):
            await greet.using(session=connection, limit_key="vendor-x").enqueue(name=f"number {number}", seconds=1)


if __name__ == "__main__":
    asyncio.run(send(int(sys.argv[1])))
