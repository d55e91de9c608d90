"""Kafka topics by name: `kafka:SERVERS/TOPIC`, as a source and as an output of streams."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trendfold.errors import InputError

KAFKA = "kafka:"
_SERVER = r"[^\s/,:]+:\d{1,5}"
_TOPIC = re.compile(rf"kafka:(?P<servers>{_SERVER}(?:,{_SERVER})*)/(?P<name>[A-Za-z0-9._-]{{1,249}})")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, and the brokers that know where it is."""

    servers: str
    name: str


def is_topic(text: str) -> bool:
    """Whether a source or an output is meant to be a topic."""
    return text.startswith(KAFKA)


def read_topic(text: str) -> Topic:
    """The topic that `kafka:SERVERS/TOPIC` names.

    >>> read_topic("kafka:one:9092,two:9092/rides")
    Topic(servers='one:9092,two:9092', name='rides')
    """
    found = _TOPIC.fullmatch(text)
    if found is None:
        raise InputError(
            f"{text!r} is no Kafka topic; write kafka:HOST:PORT/TOPIC, brokers with commas between them"
        )
    return Topic(**found.groupdict())
