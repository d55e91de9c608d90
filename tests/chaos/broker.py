"""A Kafka broker of one node (KRaft) on this machine, as a process that can be killed and started again."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
PATIENCE = 90.0
_CLUSTER_ID = "dHJlbmRmb2xkLWNoYW9zMQ"
_LOGGING = "log4j.rootLogger=WARN, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" + (
    "log4j.appender.out.target=System.err\n"
    "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
    "log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n\n"
)
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class BrokerError(Exception):
    """The broker or one of its tools did not do what it was told."""


@dataclass
class Broker:
    """Where it listens, and where it keeps what it was sent."""

    jars: Path
    folder: Path
    port: int
    controller: int
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """As a client names it."""
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self.folder / "server.properties"), memory="512m"),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise BrokerError(
                    f"the broker did not start:\n{(self.folder / 'broker.log').read_text()[-2000:]}"
                )
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL, as a machine that vanishes would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def create_topic(self, topic: str, partitions: int = 3) -> None:
        """An empty topic."""
        asked = ["--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", "1"]
        self._tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.servers, *asked)

    def send(self, topic: str, messages: Iterable[tuple[str, bytes]]) -> None:
        """Messages with their keys; those of one key keep their order."""
        lines = b"".join(key.encode() + b"\t" + value + b"\n" for key, value in messages)
        self._tool(
            "kafka.tools.ConsoleProducer",
            *("--bootstrap-server", self.servers, "--topic", topic),
            *("--property", "parse.key=true", "--property", "key.separator=\t"),
            *("--producer-property", "batch.size=262144", "--producer-property", "linger.ms=20"),
            input_=lines,
        )

    def receive(self, topic: str, quiet_ms: int = 8_000) -> list[tuple[str, str]]:
        """Every message of a topic: key and value."""
        told = self._tool(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.servers, "--topic", topic, "--from-beginning"),
            *(
                "--timeout-ms",
                str(quiet_ms),
                "--property",
                "print.key=true",
                "--property",
                "key.separator=\t",
            ),
        )
        lines = told.decode().splitlines()
        return [(key, value) for key, _, value in (line.partition("\t") for line in lines)]

    def _answers(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((HOST, self.port)) == 0

    def _java(self, tool: str, *given: str, memory: str = "256m") -> list[str]:
        logging = f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"
        return ["java", f"-Xmx{memory}", logging, "-cp", f"{self.jars}/*", tool, *given]

    def _tool(self, tool: str, *given: str, input_: bytes = b"") -> bytes:
        done = subprocess.run(
            self._java(tool, *given), input=input_, capture_output=True, check=False, timeout=PATIENCE * 3
        )
        if done.returncode:
            raise BrokerError(f"{tool} failed: {(done.stdout + done.stderr).decode()[-2000:]}")
        return done.stdout

    def format(self) -> None:
        """Write its settings, and an empty log."""
        self.folder.mkdir(parents=True)
        (self.folder / "log4j.properties").write_text(_LOGGING)
        settings = _SETTINGS.format(host=HOST, port=self.port, controller=self.controller, folder=self.folder)
        (self.folder / "server.properties").write_text(settings)
        self._tool(
            "kafka.tools.StorageTool",
            "format",
            "-t",
            _CLUSTER_ID,
            "-c",
            str(self.folder / "server.properties"),
        )


@contextmanager
def broker(jars: Path, folder: Path) -> Iterator[Broker]:
    """A broker that runs, and is gone afterwards."""
    made = Broker(jars.resolve(), folder.resolve(), *_free_ports(2))
    made.format()
    made.start()
    try:
        yield made
    finally:
        made.kill()


def _free_ports(count: int) -> Sequence[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((HOST, 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
