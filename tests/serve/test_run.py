"""The server as a process: port, crowd, Ctrl-C."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import httpx
from server import Server

from noisyor.cli.main import main
from noisyor.serve.run import LOOPBACK, listen


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


def test_ctrl_c_ends_it_cleanly(models):
    running = Server(models.clinic)
    assert running.line == f"{running.address}  (Ctrl-C ends)\n"
    port = int(running.address.rstrip("/").rpartition(":")[2])
    with socket.create_connection((LOOPBACK, port)) as door:  # what is held open does not keep it
        door.sendall(b"POST /api/explain HTTP/1.1\r\nHost: 127.0.0.1\r\n")
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
    assert error == (
        f"noisyor: error: port {port} is in use by another program; choose another one, "
        "or 0 for any\n"
    )


def test_no_model_is_one_line(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "none.safetensors"), "--port", "0"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
