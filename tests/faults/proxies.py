"""A proxy before Postgres that counts statements, cuts connections and swallows bytes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

PROTOCOL = 196608


class Proxy:
    """Stands between a client and a server.

    `statements` are counted by the client's application name, `texts` by that and the statement's own text.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 5432
        self._parts = parts
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._refusing = False
        self.statements: Counter[str] = Counter()
        self.texts: Counter[tuple[str, str]] = Counter()
        self.refused = 0

    @property
    def url(self) -> str:
        """The database's URL through this proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{port}"))

    def cut(self) -> None:
        """Break every connection and refuse new ones, as a server that is down."""
        self._refusing = True
        for writer in self._writers:
            writer.transport.abort()

    def swallow(self) -> None:
        """Let nothing through and say nothing, as a network that drops packets."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let everything through again."""
        self._refusing = False
        self._flowing.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._flowing.set()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.refused += 1
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, up_writer}
        self._writers |= pair
        count = self._counter()
        try:
            await asyncio.gather(self._pump(reader, up_writer, count), self._pump(up_reader, writer, None))
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    def _counter(self) -> Callable[[bytes], None]:
        """Return what reads the client's half of one connection as it goes by."""
        buffer = bytearray()
        half: _Half | None = None

        def feed(data: bytes) -> None:
            nonlocal half
            buffer.extend(data)
            while len(buffer) >= 8:
                length = int.from_bytes(buffer[:4]) if half is None else 1 + int.from_bytes(buffer[1:5])
                if len(buffer) < length:
                    return
                message = bytes(buffer[:length])
                del buffer[:length]
                if half is not None:
                    text = half.executed(message[0], message[5:])
                    if text is not None:
                        self.statements[half.application] += 1
                        self.texts[half.application, text] += 1
                elif int.from_bytes(message[4:8]) == PROTOCOL:
                    fields = message[8:].split(b"\0")
                    half = _Half()
                    half.application = (
                        dict(zip(fields[::2], fields[1::2], strict=False)).get(b"application_name", b"").decode()
                    )

        return feed

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[bytes], None] | None
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                if count is not None:
                    count(data)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


class _Half:
    """The client's half of the protocol on one connection."""

    def __init__(self) -> None:
        self.application = ""
        self._prepared: dict[bytes, str] = {}
        self._bound: dict[bytes, str] = {}

    def executed(self, kind: int, body: bytes) -> str | None:
        """Return the text of the statement that this message runs; None where it runs none."""
        first, _, rest = body.partition(b"\0")
        match kind:
            case 0x50:  # Parse: name, text
                self._prepared[first] = rest.partition(b"\0")[0].decode()
            case 0x42:  # Bind: portal, name
                self._bound[first] = self._prepared.get(rest.partition(b"\0")[0], "")
            case 0x45:  # Execute: portal
                return self._bound.get(first, "")
            case 0x51:  # simple Query: text
                return first.decode()
        return None


@asynccontextmanager
async def proxy_before(url: str) -> AsyncIterator[Proxy]:
    """Run a proxy before a database while the block runs."""
    proxy = Proxy(url)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
