"""The server as a process: port, many connections, Ctrl-C."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import ExitStack, closing

import httpx
import pytest
from server import Server, ServerInThread

from noisyor.cli.main import main
from noisyor.serve import server as server_module
from noisyor.serve.server import LOOPBACK, listen


def test_it_answers_this_machine_only(server):
    assert httpx.get(server.address + "api/model").json()["name"] == "clinic.safetensors"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for other in {one for one in others if "." in one and not one.startswith("127.")}:
        with socket.socket() as door:
            door.settimeout(2)
            assert door.connect_ex((other, server.port)) != 0


def test_two_hundred_at_once(server):
    async def crowd():
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(base_url=server.address, limits=limits, timeout=60) as client:
            return await asyncio.gather(
                *(
                    client.post("api/explain", json={"present": [k % 8], "absent": [(k + 3) % 8]})
                    for k in range(200)
                )
            )

    answers = asyncio.run(crowd())
    assert {answer.status_code for answer in answers} == {200}
    for k, answer in enumerate(answers):
        found = answer.json()
        assert [one["id"] for one in found["present"]] == [k % 8]
        assert found["causes"] == answers[k % 8].json()["causes"]


def test_bytes_that_are_no_request(server):
    for sent in (b"\x16\x03\x01\x02\x00 hello\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 40_000):
        with socket.create_connection((LOOPBACK, server.port), timeout=10) as door:
            door.sendall(sent)
            assert b"400" in door.recv(200)
    assert httpx.get(server.address).status_code == 200


HALF = b"GET /api/model HTTP/1.1\r\nHost: 127.0.0.1"


def closes_within(door: socket.socket, seconds: float) -> bool:
    door.settimeout(seconds)
    try:
        while door.recv(5000):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def request(port: int) -> bytes:
    return b"GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port


@pytest.fixture
def hasty(models, monkeypatch):
    """A server with a short deadline for heads and room for few connections."""
    monkeypatch.setattr(server_module, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 20)
    running = ServerInThread(models.clinic)
    yield running
    running.stop()


SLOW = (
    b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
    b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)


@pytest.mark.parametrize("before", [False, True], ids=["first", "behind another request"])
def test_a_body_that_stops_half_way_is_closed(hasty, before):
    with socket.create_connection((LOOPBACK, hasty.port), timeout=5) as door:
        door.sendall(request(hasty.port) * before + SLOW % hasty.port)
        assert closes_within(door, 3)


def test_a_client_that_does_not_read_is_closed(hasty):
    many = 500_000 * request(hasty.port).replace(b"health", b"page.js")
    with socket.create_connection((LOOPBACK, hasty.port), timeout=20) as door:
        with pytest.raises(ConnectionError):  # the server reads no further, then ends it
            door.sendall(many)
        assert httpx.get(hasty.address + "health", timeout=5).status_code == 200


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "half a head"])
def test_a_connection_without_a_request_is_closed(hasty, sent):
    with socket.create_connection((LOOPBACK, hasty.port)) as door:
        door.sendall(sent)
        assert closes_within(door, 5)


def test_a_second_request_that_stops_half_way_is_closed(hasty):
    with socket.create_connection((LOOPBACK, hasty.port), timeout=5) as door:
        door.sendall(request(hasty.port))
        assert b"200 OK" in door.recv(2000)
        time.sleep(0.1)
        door.sendall(HALF)
        assert closes_within(door, 3)


@pytest.mark.parametrize("sent", [HALF, SLOW], ids=["half a head", "half a body"])
def test_half_open_connections_keep_nobody_out(models, monkeypatch, sent):
    """Many more than the server holds; without a deadline they would be held for ever."""
    monkeypatch.setattr(server_module, "MAX_CONNECTIONS", 20)
    running = ServerInThread(models.clinic)
    try:
        with ExitStack() as stack:
            for _ in range(80):
                door = stack.enter_context(socket.create_connection((LOOPBACK, running.port)))
                door.sendall(sent.replace(b"%d", b"%d" % running.port))
            for _ in range(3):
                assert httpx.get(running.address + "health", timeout=5).status_code == 200
    finally:
        running.stop()


def test_an_endless_body_is_not_read_on(server):
    """After the 413 the connection is closed, so that the sender cannot go on."""
    head = (
        b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" % server.port
    )
    chunk = b"%x\r\n" % 65_536 + b" " * 65_536 + b"\r\n"
    with socket.create_connection((LOOPBACK, server.port), timeout=10) as door:
        door.sendall(head + chunk)
        with pytest.raises(ConnectionError):
            door.sendall(1000 * chunk)  # 64 MB
    assert httpx.get(server.address + "health").status_code == 200


def test_an_unread_body_closes_the_connection(server):
    """Of a request to a route without a body."""
    head = b"POST /nothing HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 99999999\r\n\r\n"
    with socket.create_connection((LOOPBACK, server.port), timeout=10) as door:
        door.sendall(head % server.port)
        assert b"404" in door.recv(5000)
        assert closes_within(door, 5)


def test_ctrl_c_ends_it_cleanly(models):
    running = Server(models.clinic)
    assert running.line == f"{running.address}  (Ctrl-C ends)\n"
    port = int(running.address.rstrip("/").rpartition(":")[2])
    with socket.create_connection((LOOPBACK, port)) as door:  # what is held open does not keep it
        door.sendall(b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        with socket.create_connection((LOOPBACK, port)) as other:
            other.sendall(b"nonsense\r\n\r\n")  # leaves no trace on the terminal
            assert b"400" in other.recv(200)
        assert running.interrupt() == (0, "", "")


def test_answers_are_sent_at_once():
    """An answer is a head and a body; Nagle's algorithm would hold the body back for 40 ms."""

    async def delays() -> int:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def greet(reader, writer):
            sock = writer.get_extra_info("socket")
            accepted.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with closing(listen(0)) as door:
            async with await asyncio.start_server(greet, sock=door):
                _, writer = await asyncio.open_connection(*door.getsockname())
                writer.close()
                return await accepted

    assert asyncio.run(delays()) != 0


def test_a_port_in_use_is_one_line(models, capsys):
    with listen(0) as door:
        port = door.getsockname()[1]
        assert main(["serve", str(models.clinic), "--port", str(port)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"noisyor: error: port {port} is in use")
    assert error.count("\n") == 1


def test_no_model_is_one_line(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none.safetensors"), "--port", "0"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(server, caplog):
    head = (
        "POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    )
    for _ in range(5):
        with socket.create_connection((LOOPBACK, server.port), timeout=10) as door:
            door.sendall(head.format(server.port).encode() + b'{"present"')
    assert httpx.get(server.address + "health").status_code == 200
    time.sleep(0.2)
    assert not caplog.records
