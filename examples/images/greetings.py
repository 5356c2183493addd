"""An app of one actor; the database is TIDEGATE_DATABASE_URL."""

import asyncio

from tidegate import App

app = App()


@app.actor(channel="greetings")
async def greet(name: str, seconds: float = 0) -> None:
    """Greet somebody, after so many seconds."""
    await asyncio.sleep(seconds)
    print("hello", name, flush=True)
