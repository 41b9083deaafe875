"""The JSON interface: answers, refusals, limits, and the document that describes it."""

from __future__ import annotations

import hashlib
import json
import re
import threading

import pytest
from asgi_client import Client

import noisyor as nor
from noisyor.errors import InvalidDataError
from noisyor.serve.app import Limits, make_app
from noisyor.serve.guard import HEADERS
from noisyor.serve.networks import load_subject
from noisyor.serve.subjects import MOST_LISTED, Findings


@pytest.fixture(scope="module")
def subject(models):
    return load_subject(models.clinic)


@pytest.fixture(scope="module")
def client(subject):
    return Client(make_app(subject))


class TestAnswers:
    def test_explain_by_name_and_by_number(self, client):
        by_name = client.post("/api/explain", json={"present": ["fever"], "absent": ["RASH"]})
        by_number = client.post("/api/explain", json={"present": [0], "absent": [3]})
        assert by_name.status_code == 200
        found = by_name.json()
        assert found["causes"] == by_number.json()["causes"]
        assert found["causes"][0]["name"] == "cold"
        assert (
            len(client.post("/api/explain", json={"present": [0], "top": 1}).json()["causes"]) == 1
        )

    def test_the_model_is_identified_by_the_hash_of_its_file(self, client, models):
        expected = hashlib.sha256(models.clinic.read_bytes()).hexdigest()
        assert client.get("/api/model").json()["sha256"] == expected

    def test_health(self, client):
        health = client.get("/health").json()
        assert (health["status"], health["version"]) == ("ok", nor.__version__)
        assert health["sha256"] == client.get("/api/model").json()["sha256"]

    def test_a_batch_is_its_rows(self, client):
        rows = [{"present": ["fever"]}, {"absent": [0]}, {}]
        found = client.post("/api/explain-batch", json={"rows": rows, "top": 2}).json()["rows"]
        for row, together in zip(rows, found, strict=True):
            alone = client.post("/api/explain", json={**row, "top": 2}).json()
            assert {**together, "seconds": 0} == {**alone, "seconds": 0}

    @pytest.mark.parametrize(
        "wrong", [{}, {"rows": 3}, {"rows": [3]}, {"rows": [{"top": 3}]}, {"rows": [{}] * 101}]
    )
    def test_a_wrong_batch_is_refused(self, client, wrong):
        assert client.post("/api/explain-batch", json=wrong).status_code == 400

    def test_nothing_known(self, client):
        found = client.post("/api/explain", json={}).json()
        assert found["causes"][0]["name"] == "cold"
        assert found["questions"]

    def test_findings_are_completed(self, client):
        found = client.get("/api/findings", params={"text": "ee", "limit": 2}).json()["findings"]
        assert [one["name"] for one in found] == ["sneezing", "wheezing"]

    def test_pages_scripts_and_styles(self, client):
        for path, kind in (
            ("/", "text/html"),
            ("/api", "text/html"),
            ("/page.js", "text/javascript"),
            ("/api.js", "text/javascript"),
            ("/page.css", "text/css"),
            ("/icon.svg", "image/svg+xml"),
        ):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(kind)
            assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
            assert "https://" not in answer.text

    def test_the_document_describes_the_answers(self, client):
        document = client.get("/openapi.json").json()
        schemas = document["components"]["schemas"]
        answers = {
            "/health": client.get("/health"),
            "/api/model": client.get("/api/model"),
            "/api/findings": client.get("/api/findings"),
            "/api/explain": client.post("/api/explain", json={"present": [0]}),
            "/api/explain-batch": client.post(
                "/api/explain-batch", json={"rows": [{"present": [0]}]}
            ),
            "/api/what-if": client.post("/api/what-if", json={"present": [0], "finding": 1}),
        }
        assert set(answers) == set(document["paths"])
        for path, answer in answers.items():
            operation = next(iter(document["paths"][path].values()))
            schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
            check(answer.json(), schema, schemas)
        for _, group, name in re.findall(r"#/(components)/(\w+)/(\w+)", json.dumps(document)):
            assert name in document["components"][group]
        example = document["paths"]["/api/explain"]["post"]["requestBody"]["content"]
        media = example["application/json"]
        limits = Limits()
        assert f"{limits.body:,} bytes" in document["info"]["description"]
        assert media["schema"]["properties"]["present"]["maxItems"] == limits.findings
        assert media["schema"]["properties"]["top"]["maximum"] == MOST_LISTED
        asked = media["example"]
        assert client.post("/api/explain", json=asked).status_code == 200


def check(value, schema, schemas) -> None:
    """A value has the fields and types of a schema, and no others."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "oneOf" in schema:
        assert any(fits(value, one["type"]) for one in schema["oneOf"]), value
    elif "enum" in schema:
        assert value in schema["enum"]
    else:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        assert any(fits(value, kind) for kind in kinds), (value, schema)
    if isinstance(value, dict):
        assert set(value) == set(schema["properties"])
        for name, inner in value.items():
            check(inner, schema["properties"][name], schemas)
    elif isinstance(value, list):
        for inner in value:
            check(inner, schema["items"], schemas)


def fits(value, kind: str) -> bool:
    types = {
        "array": list,
        "boolean": bool,
        "integer": int,
        "null": type(None),
        "number": (int, float),
        "object": dict,
        "string": str,
    }
    return isinstance(value, types[kind]) and (kind == "boolean" or not isinstance(value, bool))


class TestWrongRequests:
    @pytest.mark.parametrize(
        ("body", "error"),
        [
            (b"{", "no JSON"),
            (b"[" * 60_000, "no JSON"),
            (b"[]", "must be a JSON object"),
            (b'{"colour": []}', "fields are absent, present, top, got 'colour'"),
            (b'{"present": "fever"}', "present must be a list"),
            (b'{"present": [null]}', "a finding is a name or a number"),
            (b'{"present": [true]}', "a finding is a name or a number"),
            (b'{"present": ["feve"]}', "did you mean 'fever'"),
            (b'{"present": [99]}', "99"),
            (b'{"present": [-1]}', "-1"),
            (b'{"present": [0], "absent": ["fever"]}', "both as present and as absent"),
            (b'{"top": 0}', "top must be a whole number from 1 to 50"),
            (b'{"top": true}', "top must be a whole number from 1 to 50"),
            (b'{"present": [' + b"0," * 1000 + b"0]}", "at most 1,000 findings"),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_the_error_says_why(self, client, body, error):
        answer = client.post(
            "/api/explain", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400
        assert error in answer.json()["error"]
        assert "\n" not in answer.json()["error"]

    def test_a_body_that_is_too_large(self, client):
        answer = client.post("/api/explain", json={"present": ["x" * 70_000]})
        assert answer.status_code == 413
        assert "65,536 bytes" in answer.json()["error"]
        assert answer.headers["connection"] == "close"

    def test_a_body_of_another_type(self, client):
        # A form is all that a foreign page can send without asking first.
        answer = client.post("/api/explain", data={"present": "0"})
        assert answer.status_code == 415

    def test_paths_and_verbs_that_do_not_exist(self, client):
        assert client.get("/nothing").status_code == 404
        assert client.get("/api/explain").status_code == 405
        assert client.get("/static/../app.py").status_code == 404
        assert client.get("/api/findings", params={"text": "x" * 201}).status_code == 400
        assert client.get("/api/findings", params={"limit": "many"}).status_code == 400

    def test_what_if_needs_a_finding(self, client):
        answer = client.post("/api/what-if", json={"present": [0]})
        assert "finding is missing" in answer.json()["error"]


class TestGuard:
    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "evil.example"},
            {"host": "127.0.0.1.evil.example"},
            {"host": "127.0.0.1"},
            {"host": "127.0.0.1:8080"},
            {"host": ""},
            {"origin": "http://evil.example"},
            {"origin": "http://localhost:3000"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        ],
    )
    def test_other_names_and_other_sites_are_refused(self, client, headers):
        for path in ("/", "/api/model", "/openapi.json"):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 403
            assert set(answer.json()) == {"error"}
        answer = client.post("/api/explain", json={}, headers=headers)
        assert answer.status_code == 403

    def test_no_foreign_page_posts_even_by_navigating(self, client):
        headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.post("/api/explain", json={}, headers=headers).status_code == 403
        assert client.get("/", headers=headers).status_code == 200  # a link was followed

    @pytest.mark.parametrize(
        "headers",
        [
            {"host": "localhost:8000"},
            {"host": "LOCALHOST:8000"},
            {"host": "[::1]:8000"},
            {"origin": "http://127.0.0.1:8000"},
            {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"},
            {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"},
        ],
    )
    def test_this_machine_is_answered(self, client, headers):
        assert client.get("/api/model", headers=headers).status_code == 200

    def test_every_answer_has_the_headers(self, client):
        for path in ("/", "/nothing", "/api/model", "/page.js"):
            answer = client.get(path)
            for name, value in HEADERS.items():
                assert answer.headers[name] == value
            assert not any(name.startswith("access-control") for name in answer.headers)
        refused = client.get("/", headers={"host": "evil.example"})
        assert refused.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]


class Slow:
    """A subject whose answers take until they are let go."""

    def __init__(self) -> None:
        self.go, self.most, self._now, self._lock = threading.Event(), 0, 0, threading.Lock()

    def find(self, finding):
        raise InvalidDataError("knows nothing")

    def explain(self, findings: Findings, top: int):
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.go.wait(10)
        with self._lock:
            self._now -= 1
        return {"causes": []}


class TestLimits:
    def test_so_many_work_and_so_many_wait(self):
        slow = Slow()
        client = Client(make_app(slow, Limits(working=2, waiting=3)))
        threading.Timer(0.3, slow.go.set).start()
        answers = client.at_once([("POST", "/api/explain", {"json": {}})] * 8)
        assert sorted(answer.status_code for answer in answers) == [200] * 5 + [503] * 3
        assert slow.most == 2

    def test_an_answer_that_takes_too_long(self):
        slow = Slow()
        answer = Client(make_app(slow, Limits(seconds=0.05))).post("/api/explain", json={})
        slow.go.set()
        assert answer.status_code == 503
        assert answer.json()["error"] == "no answer within 0.05 seconds"
        assert answer.headers["retry-after"]

    def test_what_goes_wrong_inside_stays_inside(self, caplog):
        answer = Client(make_app(object())).post("/api/explain", json={"present": []})
        assert answer.status_code == 500
        assert "attribute" not in answer.text
        assert "AttributeError" in caplog.text
