"""The app of the demo, run by ``tidegate worker tenants:app``: mail of two tenants, and calls to a vendor."""

import asyncio
import os

from tidegate import App
from tidegate.audit.recorder import record_run

SEND_SECONDS = 0.06
CALL_SECONDS = 0.35

app = App()

WORKER = os.environ.get("TIDEGATE_WORKER_NAME", "somebody")


@app.actor(channel="mail")
async def send_mail(item: str) -> None:
    """Send one mail. The side effect is a row in the audit, which shows what was done, how often, and by whom."""
    await asyncio.sleep(SEND_SECONDS)
    await record_run(app.engine, item, WORKER)


@app.actor(channel="mail")
async def call_vendor(item: str) -> None:
    """Call an API whose owner allows 4 calls at once and 100 a minute."""
    await asyncio.sleep(CALL_SECONDS)
    await record_run(app.engine, item, WORKER)
