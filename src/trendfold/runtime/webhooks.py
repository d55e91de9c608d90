"""Webhooks written as `webhook:URL`, as the output of streams: rows are posted as JSON, at least once."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from trendfold.errors import InputError, TrendfoldError

WEBHOOK = "webhook:"
ROWS_PER_POST = 1_000
ATTEMPTS = 6
FIRST_PAUSE_S = 0.5
"""Pauses double: a receiver has about 15 seconds to come back before the stream fails."""
TIMEOUT_S = 30.0
_TOO_MANY_REQUESTS, _TIMED_OUT = 429, 408


def is_webhook(text: str) -> bool:
    """Whether an output names a webhook."""
    return text.startswith(WEBHOOK)


def read_webhook(text: str) -> str:
    """Parse `webhook:URL`.

    >>> read_webhook("webhook:https://example.com/alerts")
    'https://example.com/alerts'
    """
    url = text.removeprefix(WEBHOOK)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{text!r} is not a webhook; write webhook:https://HOST/PATH")
    return url


def post_rows(url: str, batch: int, lines: Sequence[tuple[str, str]]) -> None:
    """Post the rows of a micro-batch: `{"batch": N, "rows": [{"key": KEY, "row": ROW}, ...]}`.

    Raises if the receiver refuses them, or does not take them after several attempts; the stream then stops
    and posts them again when it is restarted.
    """
    for first in range(0, len(lines), ROWS_PER_POST):
        rows = [{"key": key, "row": json.loads(line)} for key, line in lines[first : first + ROWS_PER_POST]]
        _post(url, json.dumps({"batch": batch, "rows": rows}, ensure_ascii=False).encode())


def _post(url: str, body: bytes) -> None:
    pause, why = FIRST_PAUSE_S, ""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause)
            pause *= 2
        request = Request(url, body, {"Content-Type": "application/json; charset=utf-8"}, method="POST")
        try:
            with urlopen(request, timeout=TIMEOUT_S):
                return
        except HTTPError as error:
            why = f"it answered {error.code} {error.reason}"
            if error.code < 500 and error.code not in (_TOO_MANY_REQUESTS, _TIMED_OUT):
                break
        except (OSError, HTTPException) as error:
            why = f"it could not be reached: {getattr(error, 'reason', None) or error}"
    # Without path and query: they may hold a secret.
    raise TrendfoldError(
        f"the webhook at {urlsplit(url).hostname} did not take the rows: {why}; no data is lost: fix "
        f"the cause and restart"
    )
