"""Webhooks: rows are posted as JSON with stable keys, again until the receiver takes them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pyarrow as pa
import pytest

from trendfold.errors import InputError, TrendfoldError
from trendfold.runtime import webhooks
from trendfold.runtime.webhooks import post_rows, read_webhook
from trendfold.runtime.writing import keyed_lines


class Receiver:
    """A web server on this machine that answers with the given codes, then with 200."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.bodies.append(body)
                self.send_response(receiver.codes.pop(0) if receiver.codes else 200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/alerts?token=secret"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhooks, "FIRST_PAUSE_S", 0.001)
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


ROWS = {
    "late": pa.table({"start": [3, 1, 1], "A": [[{"id": "x"}], [], []]}),
    "none": pa.table({"start": [0][:0]}),
}


def test_every_row_has_a_key_of_its_own_that_does_not_depend_on_order_or_batch() -> None:
    lines = keyed_lines(ROWS)
    keys = [key for key, _ in lines]
    assert len(set(keys)) == 3
    assert all(key.startswith("late/") for key in keys)
    assert lines == keyed_lines({"late": ROWS["late"].take(pa.array([2, 0, 1]))})
    assert keys != [key for key, _ in keyed_lines({"other": ROWS["late"]})]


def test_rows_are_posted_and_posted_again_until_they_are_taken(receiver: Receiver) -> None:
    receiver.codes = [503, 429]
    post_rows(receiver.url, 7, keyed_lines(ROWS))
    assert len(receiver.bodies) == 3
    assert receiver.bodies[0] == receiver.bodies[2]
    body = receiver.bodies[0]
    assert body["batch"] == 7
    assert sorted(row["row"]["start"] for row in body["rows"]) == [1, 1, 3]
    assert {row["row"]["query"] for row in body["rows"]} == {"late"}


def test_many_rows_are_several_posts_and_none_is_no_post(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "ROWS_PER_POST", 2)
    post_rows(receiver.url, 0, keyed_lines(ROWS))
    post_rows(receiver.url, 1, [])
    assert [len(body["rows"]) for body in receiver.bodies] == [2, 1]


def test_a_receiver_that_refuses_is_not_asked_again(receiver: Receiver) -> None:
    receiver.codes = [403]
    with pytest.raises(
        TrendfoldError, match=r"the webhook at 127\.0\.0\.1 did not take .* 403 .*no data is lost"
    ) as told:
        post_rows(receiver.url, 0, keyed_lines(ROWS))
    assert len(receiver.bodies) == 1
    assert "secret" not in str(told.value)


def test_a_receiver_that_never_answers_stops_the_stream(receiver: Receiver) -> None:
    receiver.codes = [500] * 9
    with pytest.raises(TrendfoldError, match="it answered 500"):
        post_rows(receiver.url, 0, keyed_lines(ROWS))
    assert len(receiver.bodies) == webhooks.ATTEMPTS


@pytest.mark.parametrize(
    "text", ["webhook:", "webhook:ftp://a/b", "webhook:example.com", "webhook:http://[x/"]
)
def test_what_is_no_address_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="is not a webhook; write webhook:https://HOST/PATH"):
        read_webhook(text)
