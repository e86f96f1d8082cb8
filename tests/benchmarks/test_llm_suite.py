"""`rift bench --suite llm` and `rift runs` from the command line, against mock engines."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator

from rift import cli
from rift_benchmarks import result, run_directory, workload

SMALL = ["--profile", "smoke", "--input-tokens", "32", "--output-tokens", "6"]
Rift = Callable[..., int]


@pytest.fixture
def rift(home: Path) -> Iterator[Rift]:
    """Run a command in this process, with a RIFT_HOME of the test's own; returns its exit code."""

    def run(*argv: str) -> int:
        with pytest.raises(SystemExit) as stopped:
            cli.main(list(argv))
        return int(stopped.value.code or 0)

    before = signal.getsignal(signal.SIGTERM)
    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def url(mock_engine: Callable[..., str]) -> str:
    """A mock engine that answers fast and never fails."""
    return mock_engine("--ttft-ms", "4", "--gap-ms", "2", "--context", "4096")


def bench(rift: Rift, url: str, *options: str) -> int:
    return rift("bench", "--suite", "llm", "--endpoint", url, *SMALL, *options)


def only_run(home: Path) -> Path:
    (found,) = (home / "runs").iterdir()
    return found


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def document(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return found


def test_a_run_writes_everything_and_counts_exactly(rift: Rift, url: str, home: Path) -> None:
    code = bench(rift, url, "--concurrency", "1,3", "--price-per-hour", "1.29")

    run = only_run(home)
    found, rows = document(run), lines(run / "requests.jsonl")
    measured = [row for row in rows if row["phase"] == "measure"]
    assert code == 0
    assert {path.name for path in run.iterdir()} == {
        "manifest.json",
        "requests.jsonl",
        "result.json",
        "report.html",
    }
    assert (found["status"], found["model"], found["endpoint"]) == ("complete", "mock", url)
    assert [
        (lv["concurrency"], lv["requests"], lv["completed"], lv["failed"], lv["too_short"])
        for lv in found["levels"]
    ] == [(1, 4, 4, 0, False), (3, 12, 12, 0, False)]
    assert [row["phase"] for row in rows].count("warmup") == 4
    assert {(r["input_tokens"], r["output_tokens"], len(r["chunks_s"])) for r in measured} == {
        (32, 6, 6)
    }
    assert len({row["id"] for row in rows}) == 20
    for level in found["levels"]:
        per_million = 1.29 / (level["steady"]["total_tokens_per_s"] * 3600) * 1e6
        assert level["cost"]["total_per_million"] == pytest.approx(per_million)
        assert level["ttft_s"]["p99"] is None
        assert level["prefix_cache_hit_tokens"] == 0


def test_a_run_is_in_the_index_with_all_it_takes_to_repeat_it(
    rift: Rift, url: str, home: Path
) -> None:
    bench(rift, url, "--concurrency", "1", "--timeout", "7", "--output-tokens", "20")

    run = only_run(home)
    with closing(sqlite3.connect(home / "rift.db")) as db:
        rows = db.execute("SELECT id, suite, directory FROM runs").fetchall()
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    assert rows == [(run.name, "llm", str(run))]
    assert (manifest["status"], manifest["timeout_s"], manifest["price"]) == ("complete", 7, None)
    assert manifest["profile"]["input_tokens"] == 32
    assert [row["output_tokens"] for row in lines(run / "requests.jsonl")] == [16, *[20] * 4]
    assert manifest["endpoint"]["url"] == url
    assert set(manifest["packages"]) == set(run_directory.PACKAGES)
    assert manifest["machine"]["cores"] >= 1


@pytest.mark.parametrize("fails", [0, 4])
def test_json_is_the_document_and_nothing_else(
    fails: int,
    rift: Rift,
    mock_engine: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = mock_engine("--ttft-ms", "4", "--gap-ms", "2", "--fail-every", str(fails))

    code = bench(rift, url, "--concurrency", "2", "--json")

    found = json.loads(capsys.readouterr().out)
    Draft202012Validator(result.json_schema()).validate(found)
    assert code == (1 if fails else 0)
    assert found["levels"][0]["failed"] == (2 if fails else 0)


def test_failed_requests_are_shown_and_fail_the_command(
    rift: Rift, mock_engine: Callable[..., str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = mock_engine("--ttft-ms", "4", "--gap-ms", "2", "--fail-every", "3")

    code = bench(rift, url, "--concurrency", "1", "--requests", "8")

    shown = capsys.readouterr()
    run = only_run(home)
    (level,) = document(run)["levels"]
    assert code == 1
    assert (level["completed"], level["failed"]) == (5, 3)
    assert level["failures"] == {"in-band error": 3}
    assert level["first_failure"] == "error in the stream: mock failure"
    assert "3/8" in shown.out
    assert "first: error in the stream: mock failure" in " ".join(shown.out.split())
    assert f"3 requests failed; see {run / 'requests.jsonl'}" in shown.err
    assert "3 of 8 requests failed" in (run / "report.html").read_text(encoding="utf-8")


def test_a_server_that_fails_every_request_ends_the_run_early(
    rift: Rift, mock_engine: Callable[..., str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = mock_engine("--ttft-ms", "4", "--gap-ms", "2", "--fail-every", "1")

    code = bench(rift, url, "--concurrency", "2")

    found = document(only_run(home))
    assert code == 1
    assert "every warm-up request failed: error in the stream: mock failure" in (
        capsys.readouterr().err
    )
    assert (found["status"], found["levels"]) == ("interrupted", [])
    assert (only_run(home) / "report.html").is_file()


def test_a_target_that_is_down_is_named(
    rift: Rift, dead_url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(rift, dead_url) == 1
    assert f"cannot load {dead_url}" in capsys.readouterr().err
    assert not (home / "runs").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give either --endpoint URL|NAME or --deploy MODEL"),
        (["--endpoint", "URL", "--deploy", "m"], "give either --endpoint URL|NAME or --deploy"),
        (["--endpoint", "URL", "--profile", "9k9k"], "unknown profile '9k9k'"),
        (["--endpoint", "URL", "--suite", "lmm"], "unknown suite 'lmm': expected one of llm"),
        (["--endpoint", "URL", "--recipe", "r"], "--recipe goes with --deploy"),
        (["--endpoint", "URL", "--model", "gpt"], "--model gpt: the server has mock"),
        (["--endpoint", "URL", "--price-per-hour", "-1"], "--price-per-hour -1.0: expected"),
        (["--endpoint", "URL", "--price-per-hour", "cheap"], "Invalid value for"),
        (["--endpoint", "URL", "--price", "moon"], "--price 'moon': no such entry"),
        (["--endpoint", "URL", "--price", "m", "--price-file", "none"], "price file none: "),
        (["--endpoint", "nowhere"], "--endpoint 'nowhere': neither a URL nor a deployment"),
        (["--endpoint", "ftp://h"], "--endpoint 'ftp://h': expected http://HOST:PORT"),
        (["--endpoint", "http://u:p@h"], "expected http://HOST:PORT (no user"),
        (["--endpoint", "http://h/v1?key=k"], "expected http://HOST:PORT (no user, no query"),
        (["--endpoint", "http://h:port"], "--endpoint 'http://h:port': expected http://HOST:PORT"),
        (["--endpoint", "http://h:99999"], "expected http://HOST:PORT"),
        (["--endpoint", "URL", "--price-per-hour", "1e308"], "up to 1e+09"),
    ],
)
def test_wrong_usage_is_exit_2_and_writes_no_run(
    options: list[str],
    message: str,
    rift: Rift,
    url: str,
    home: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = rift("bench", "--profile", "smoke", *(url if o == "URL" else o for o in options))

    assert code == 2
    assert message in capsys.readouterr().err
    assert not (home / "runs").exists()


def test_a_profile_longer_than_the_context_is_refused_before_anything_is_written(
    rift: Rift, url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = rift("bench", "--endpoint", url, "--profile", "8k8k")

    assert code == 4
    assert f"needs a context of 16384 tokens, {url} serves 4096" in capsys.readouterr().err
    assert not home.exists()


def test_a_dry_run_sends_and_writes_nothing(
    rift: Rift, dead_url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(rift, dead_url, "--concurrency", "1,8", "--dry-run") == 0
    assert "concurrency 8: 8 to warm up, 32 measured" in capsys.readouterr().out
    assert not home.exists()


def test_runs_are_listed_shown_and_not_guessed(
    rift: Rift, url: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(rift, url, "--concurrency", "1")
    run = only_run(home)
    capsys.readouterr()

    assert rift("runs", "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert rift("runs", "list") == 0
    assert run.name in capsys.readouterr().out
    for name in ("latest", run.name, run.name[:8]):
        assert rift("runs", "show", name, "--json") == 0
        assert json.loads(capsys.readouterr().out) == document(run)
    assert rift("runs", "show", "latest") == 0
    assert "mock: 32 in + 6 out tokens a request" in capsys.readouterr().out
    assert rift("runs", "show", "nonsense") == 2
    assert "no run is or begins with 'nonsense'" in capsys.readouterr().err
    assert (listed["id"], listed["directory"], listed["status"]) == (run.name, str(run), "complete")


def test_no_run_at_all(rift: Rift, capsys: pytest.CaptureFixture[str]) -> None:
    assert rift("runs", "list") == 0
    assert rift("runs", "show", "latest") == 2
    assert capsys.readouterr().out == ""


def test_a_key_opens_the_server_and_is_kept_nowhere(
    rift: Rift,
    mock_engine: Callable[..., str],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "sk-rift-c0ffee"
    url = mock_engine("--ttft-ms", "4", "--gap-ms", "2", key=key)
    monkeypatch.setenv("RIFT_API_KEY", key)

    code = bench(rift, url, "--concurrency", "1")

    written = [path for path in home.rglob("*") if path.is_file()]
    assert code == 0
    assert len(written) >= 5
    assert [path for path in written if key.encode() in path.read_bytes()] == []
    shown = capsys.readouterr()
    assert key not in shown.out + shown.err


@pytest.mark.parametrize("key", [None, "wrong"])
def test_a_missing_or_wrong_key_is_told_how_to_give(
    key: str | None,
    rift: Rift,
    mock_engine: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = mock_engine(key="right")
    if key:
        monkeypatch.setenv("RIFT_API_KEY", key)

    assert bench(rift, url) == 1
    assert "--api-key-file FILE or set RIFT_API_KEY" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["pässword", "two words", "a\r\nX-Evil: 1"])
def test_a_key_that_is_no_header_is_wrong_usage(
    key: str, rift: Rift, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIFT_API_KEY", key)

    assert bench(rift, url) == 2


def test_prompts_are_exact_and_share_no_beginning_in_any_run(url: str) -> None:
    with httpx2.Client(base_url=url, trust_env=False) as http:
        pool = workload.token_pool(http, "mock")
    names = [f"{nonce}-measure-c8-{i}" for nonce in ("ab2026", "ac2026") for i in range(64)]

    sent = [json.loads(workload.body("mock", pool, name, 300, 7)) for name in names]

    assert {len(body["prompt"]) for body in sent} == {300}
    assert len({tuple(body["prompt"][:16]) for body in sent}) == len(names)
    assert {token for body in sent for token in body["prompt"]} == set(pool)
    for body in sent:
        assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (7, 7, True)
        assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_the_same_nonce_gives_the_same_prompt() -> None:
    pool = tuple(range(100, 200))

    assert workload.body("m", pool, "n", 9, 2) == workload.body("m", pool, "n", 9, 2)
    assert workload.body("m", pool, "n", 9, 2) != workload.body("m", pool, "o", 9, 2)
