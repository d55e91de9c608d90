"""Kafka topics written as `kafka:SERVERS/TOPIC`, as a source or output of streams."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trendfold.errors import InputError

KAFKA = "kafka:"
_SERVER = r"[^\s/,:]+:\d{1,5}"
_TOPIC = re.compile(rf"kafka:(?P<servers>{_SERVER}(?:,{_SERVER})*)/(?P<name>[A-Za-z0-9._-]{{1,249}})")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its bootstrap servers."""

    servers: str
    name: str


def is_topic(text: str) -> bool:
    """Whether a source or output names a topic."""
    return text.startswith(KAFKA)


def read_topic(text: str) -> Topic:
    """Parse `kafka:SERVERS/TOPIC`.

    >>> read_topic("kafka:one:9092,two:9092/rides")
    Topic(servers='one:9092,two:9092', name='rides')
    """
    found = _TOPIC.fullmatch(text)
    if found is None:
        raise InputError(
            f"{text!r} is not a Kafka topic; write kafka:HOST:PORT/TOPIC, with commas between several brokers"
        )
    return Topic(**found.groupdict())
