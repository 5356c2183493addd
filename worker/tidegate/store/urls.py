"""The URL of a database, judged before anybody connects, by messages that never repeat a part of it.

A password with an unescaped ``/``, ``#`` or ``?`` moves the rest of itself into the port, the path or the query, where
a driver would quote it in its error.
"""

import re
from urllib.parse import parse_qsl, urlsplit

from tidegate.errors import ConfigurationError

SCHEMES = frozenset({"postgresql", "postgres"})
SSL_MODES = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})

EXAMPLE = "postgresql://user@host:5432/name"

_HOST = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/@]*)(?::([0-9]{1,5}))?")


def check_database_url(url: str) -> str:
    """Return the URL when it can be used.

    Raises:
        ConfigurationError: it is not one of Postgres, or cannot be read; the message holds nothing of it.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _unreadable("its host is no host") from None
    if parts.scheme not in SCHEMES:
        raise ConfigurationError(
            f"the database URL must start with postgresql://; set --database-url or TIDEGATE_DATABASE_URL to something "
            f"like {EXAMPLE}"
        )
    if "@" not in parts.netloc and "@" in f"{parts.path}{parts.query}{parts.fragment}":
        raise _unreadable("its user or password holds a /, # or ?")
    for place in parts.netloc.rpartition("@")[2].split(","):
        found = _HOST.fullmatch(place)
        if not found or int(found[2] or 0) > 65535:
            raise _unreadable("its host or port is none")
    if dict(parse_qsl(parts.query)).get("sslmode", "prefer") not in SSL_MODES:
        raise ConfigurationError(f"sslmode in the database URL must be one of {', '.join(sorted(SSL_MODES))}")
    return url


def _unreadable(what: str) -> ConfigurationError:
    return ConfigurationError(
        f"the database URL cannot be read, {what}; write {EXAMPLE}, and escape what is special in a password "
        "(/ as %2F, @ as %40, # as %23, ? as %3F)"
    )
