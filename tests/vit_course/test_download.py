"""The download of CIFAR-10 and its faults, against a server on the loopback address and with real kills."""

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock

import pytest
from torchvision.datasets import CIFAR10

from vit_course.data import cifar10 as download
from vit_course.data.cifar10 import MIRRORS, download_cifar10, main
from vit_course.data.locate import ARCHIVE
from vit_course.training import locks
from vit_course.training.paths import ROOT

CONTENT = random.Random(0).randbytes(1_000_000)  # stands for the archive
OTHER = random.Random(1).randbytes(1_000_000)  # of the same size, and wrong
EXPECTED = {"size": len(CONTENT), "md5": hashlib.md5(CONTENT).hexdigest(), "timeout": 0.5}
HALF = len(CONTENT) // 2


class Mirror(BaseHTTPRequestHandler):
    """A server whose first folder in the address says how it behaves."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        """Answer, well or badly."""
        kind = self.path.split("/")[1]
        asked = self.headers.get("Range")
        self.server.requests.append((kind, asked))
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        content = OTHER if kind == "wrong" else CONTENT
        if kind == "missing" or (kind == "no_such_range" and asked):
            return self.answer(404 if kind == "missing" else 416, b"no")
        if kind == "portal":
            return self.answer(200, b"<html>Please log in</html>")
        if kind == "nothing":
            return self.answer(204, b"", length=None)
        if kind == "packed":
            return self.answer(200, content, {"Content-Encoding": "gzip", "Connection": "close"}, length=None)
        if kind == "bad_length":
            return self.answer(200, content, {"Content-Length": "many"}, length=None)
        if kind == "endless_page":
            return self.answer(200, b"<p>Log in</p>" * 30_000, {"Connection": "close"}, length=None)
        if kind == "redirect":
            return self.answer(302, b"", {"Location": "/good/" + ARCHIVE})
        if kind == "longer":
            return self.answer(200, content * 20, {"Connection": "close"}, length=None)
        if kind == "no_ranges":
            start, asked = 0, None
        total = len(content) + (10 if kind == "changed" else 0)
        headers = {"Content-Range": f"bytes {start}-{total - 1}/{total}"} if asked else {}
        self.answer(206 if asked else 200, content[start:], headers, kind)

    def answer(self, status, body, headers=None, kind="good", length=True):
        """Send status, headers and as much of the body as this kind of server does."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        share = {"cut": 0.5, "hanging": 0.5, "dripping": 0.01}.get(kind, 1)
        sent = body[: int(share * len(body))]
        for i in range(0, len(sent), 50_000):
            self.wfile.write(sent[i : i + 50_000])
            if kind == "slow":
                time.sleep(0.05)
        while kind == "dripping" and not self.server.closing.wait(0.01):
            self.wfile.write(body[len(sent) : len(sent) + 1])
            sent = body[: len(sent) + 1]
        if kind == "hanging":
            self.wfile.flush()
            self.server.closing.wait(20)
        self.close_connection = True

    def log_message(self, *args):
        """Say nothing."""

    def handle(self):
        """Serve until the client goes away, which some tests make it do."""
        with suppress(ConnectionError):
            super().handle()


@pytest.fixture
def server():
    """A mirror on the loopback address; `requests` lists what was asked of it: (kind, Range header)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Mirror)
    server.daemon_threads = True
    server.requests, server.closing = [], threading.Event()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    server.url = lambda kind: f"http://127.0.0.1:{server.server_port}/{kind}/{ARCHIVE}"
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


def fetch(server, root, *kinds):
    """Download from servers of these kinds, in this order."""
    limit = {} if "hanging" in kinds else {"timeout": 20}
    return download_cifar10(root, urls=[server.url(kind) for kind in kinds], **EXPECTED | limit)


def part_of(root, content=None):
    """Return the path of the unfinished download; write it if its content is given."""
    part = Path(root) / (ARCHIVE + ".part")
    if content is not None:
        part.write_bytes(content)
    return part


def assert_it_goes_on_from(kept, server, root):
    """Download again: what was kept is not asked for."""
    fetch(server, root, "good")
    assert server.requests[-1] == ("good", f"bytes={kept}-")
    assert_only_the_archive_is_there(root)


def assert_only_the_archive_is_there(root):
    assert (root / ARCHIVE).read_bytes() == CONTENT
    assert {path.name for path in root.iterdir()} <= {ARCHIVE, ARCHIVE + ".lock"}


# --- what goes well


@pytest.mark.parametrize("kind", ["good", "redirect", "no_ranges"])
def test_whole_file_arrives_under_its_final_name(server, tmp_path, kind):
    assert fetch(server, tmp_path / "new" / "data", kind) == tmp_path / "new" / "data" / ARCHIVE
    assert_only_the_archive_is_there(tmp_path / "new" / "data")


def test_damaged_archive_is_replaced_and_one_that_is_intact_is_not_downloaded_again(server, tmp_path, capsys):
    (tmp_path / ARCHIVE).write_bytes(OTHER)
    fetch(server, tmp_path, "good")
    assert_only_the_archive_is_there(tmp_path)
    assert "downloading it again" in capsys.readouterr().out
    fetch(server, tmp_path, "good")
    assert len(server.requests) == 1


def test_environment_variable_overrides_the_mirrors(server, tmp_path, monkeypatch):
    monkeypatch.setenv("VIT_COURSE_CIFAR10_URL", f"{server.url('missing')} {server.url('good')}")
    download_cifar10(tmp_path, **EXPECTED)
    assert [kind for kind, _ in server.requests] == ["missing", "good"]


def test_address_of_a_file_on_a_usb_stick_works_too(tmp_path):
    (tmp_path / "stick").mkdir()
    (tmp_path / "stick" / ARCHIVE).write_bytes(CONTENT)
    download_cifar10(tmp_path / "data", urls=[(tmp_path / "stick" / ARCHIVE).as_uri()], **EXPECTED)
    assert_only_the_archive_is_there(tmp_path / "data")


def test_default_mirrors_use_https_and_the_slow_official_host_comes_last():
    assert all(url.startswith("https://") for url in MIRRORS)
    assert MIRRORS[-1] == CIFAR10.url and "toronto.edu" not in "".join(MIRRORS[:-1])


def test_https_address_that_leads_to_plain_http_is_refused(tmp_path, monkeypatch, server, capsys):
    real_urlopen = download.urlopen
    monkeypatch.setattr(download, "urlopen", lambda request, timeout: real_urlopen(server.url("good")))
    with pytest.raises(ConnectionError):
        download_cifar10(tmp_path, urls=["https://127.0.0.1/x"], **EXPECTED)
    assert "which is not HTTPS" in capsys.readouterr().out
    assert not part_of(tmp_path).exists()


# --- resuming


def test_next_mirror_goes_on_where_the_last_one_was_cut_off(server, tmp_path, capsys):
    fetch(server, tmp_path, "cut", "good")
    assert server.requests == [("cut", None), ("good", f"bytes={HALF}-")]
    assert_only_the_archive_is_there(tmp_path)
    assert "it stopped after 500,000 of 1,000,000 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "asked_again"), [("no_ranges", []), ("no_such_range", [None])])
def test_server_that_ignores_ranges_sends_all_of_it_and_one_that_answers_416_is_asked_for_it(
    server, tmp_path, kind, asked_again
):
    part_of(tmp_path, CONTENT[:HALF])
    fetch(server, tmp_path, kind)
    assert server.requests == [(kind, asked) for asked in (f"bytes={HALF}-", *asked_again)]
    assert_only_the_archive_is_there(tmp_path)


@pytest.mark.parametrize("kept", [OTHER[:HALF], OTHER, CONTENT + b"more"])
def test_wrong_bytes_kept_from_an_earlier_attempt_are_dropped_and_fetched_anew(server, tmp_path, kept):
    part_of(tmp_path, kept)
    fetch(server, tmp_path, "good")
    assert server.requests[-1] == ("good", None)
    assert_only_the_archive_is_there(tmp_path)


def test_complete_part_of_a_killed_download_needs_no_server(tmp_path):
    part_of(tmp_path, CONTENT)
    download_cifar10(tmp_path, urls=["http://127.0.0.1:9/nobody-listens"], **EXPECTED)
    assert_only_the_archive_is_there(tmp_path)


@pytest.mark.parametrize(
    "kind", ["portal", "changed", "missing", "nothing", "packed", "bad_length", "endless_page", "longer"]
)
def test_server_with_another_file_does_not_spoil_what_has_arrived(server, tmp_path, kind):
    part_of(tmp_path, CONTENT[:HALF])
    fetch(server, tmp_path, kind, "good")
    assert server.requests == [(kind, f"bytes={HALF}-"), ("good", f"bytes={HALF}-")]
    assert_only_the_archive_is_there(tmp_path)


# --- what goes wrong


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("wrong", "has md5"),
        ("missing", "404"),
        ("hanging", "timed out"),
        ("portal", "its file has 26 bytes, the real one has 1,000,000"),
        ("longer", "bytes, the real one has 1,000,000"),
        ("nothing", "it answers 204, without the file"),
        ("packed", "packed once more (gzip)"),
        ("bad_length", "its file has many bytes, the real one has 1,000,000"),
    ],
)
def test_failing_mirror_says_one_line_and_the_next_is_used(server, tmp_path, capsys, kind, reason):
    fetch(server, tmp_path, kind, "good")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 and server.url(kind) in lines[0] and reason in lines[0]
    assert_only_the_archive_is_there(tmp_path)


def test_server_that_sends_without_end_is_left_as_soon_as_it_sent_too_much(server, tmp_path, capsys):
    fetch(server, tmp_path, "longer", "good")
    sent = int(capsys.readouterr().out.split(" bytes, the real one")[0].split()[-1].replace(",", ""))
    assert len(CONTENT) < sent <= len(CONTENT) + 2 * download.BLOCK


@pytest.mark.parametrize("kind", ["wrong", "longer"])
def test_wrong_file_leaves_nothing_behind(server, tmp_path, kind):
    with pytest.raises(ConnectionError):
        fetch(server, tmp_path, kind)
    assert not (tmp_path / ARCHIVE).exists() and not part_of(tmp_path).exists()


@pytest.fixture
def impatient(monkeypatch):
    """Judge the speed of a mirror after a quarter of a second."""
    monkeypatch.setattr(download, "WINDOW", 0.25)


def test_dripping_server_is_left_for_the_next_one_which_goes_on(server, tmp_path, capsys, impatient):
    fetch(server, tmp_path, "dripping", "good")
    assert "it sends " in capsys.readouterr().out
    kept = int(server.requests[-1][1].removeprefix("bytes=").rstrip("-"))
    assert 10_000 <= kept < 20_000
    assert_only_the_archive_is_there(tmp_path)


def test_the_last_server_may_be_slow(server, tmp_path, impatient, monkeypatch):
    monkeypatch.setattr(download, "FLOOR", 1e12)
    fetch(server, tmp_path, "missing", "slow")
    assert_only_the_archive_is_there(tmp_path)


def test_a_malformed_address_does_not_cost_what_has_arrived(server, tmp_path, capsys):
    part_of(tmp_path, CONTENT[:HALF])
    download_cifar10(tmp_path, urls=["htp:nowhere", "http://[::1", server.url("good")], **EXPECTED)
    assert server.requests == [("good", f"bytes={HALF}-")]
    assert capsys.readouterr().out.count("No luck with") == 2


def test_an_intact_archive_in_a_folder_that_cannot_be_written_is_found(tmp_path, monkeypatch):
    (tmp_path / ARCHIVE).write_bytes(CONTENT)
    monkeypatch.setattr(locks, "FileLock", lambda path: pytest.fail("nothing needs a lock here"))
    assert download_cifar10(tmp_path, urls=["http://127.0.0.1:9/"], **EXPECTED) == tmp_path / ARCHIVE


def test_a_file_system_without_locks_is_no_obstacle(server, tmp_path, monkeypatch):
    no_lock = Mock(side_effect=NotImplementedError("FileSystem does not appear to support flock"))
    monkeypatch.setattr(locks.FileLock, "acquire", no_lock)
    fetch(server, tmp_path, "good")
    assert_only_the_archive_is_there(tmp_path)


def test_last_message_names_file_size_md5_addresses_and_folder(server, tmp_path):
    with pytest.raises(ConnectionError) as error:
        fetch(server, tmp_path, "missing", "portal")
    for part in (ARCHIVE, "1,000,000 bytes", EXPECTED["md5"], server.url("portal"), str(tmp_path), "USB"):
        assert part in str(error.value)
    assert "What has arrived is kept" in str(error.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_is_not_blamed_on_the_mirror_and_says_what_is_needed_where(server, tmp_path, capsys):
    part_of(tmp_path).symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"disk full: .* needs 1,000,000 bytes") as error:
        fetch(server, tmp_path, "good", "good")
    assert str(tmp_path) in str(error.value)
    assert len(server.requests) == 1 and capsys.readouterr().out == ""


def test_download_goes_on_after_the_full_disk_was_cleared(server, tmp_path):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(OSError, match="disk full"):
            fetch(server, tmp_path, "good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    kept = part_of(tmp_path).stat().st_size
    assert 0 < kept <= 300_000
    assert_it_goes_on_from(kept, server, tmp_path)


def test_ctrl_c_leaves_a_part_that_can_be_gone_on_with_and_nothing_else(server, tmp_path, monkeypatch):
    class Impatient(download.tqdm):
        def update(self, n=1):
            if self.n > 300_000:
                raise KeyboardInterrupt
            return super().update(n)

    with monkeypatch.context() as patch:
        patch.setattr(download, "tqdm", Impatient)
        with pytest.raises(KeyboardInterrupt):
            fetch(server, tmp_path, "good")
    kept = part_of(tmp_path).read_bytes()
    assert kept and CONTENT.startswith(kept) and not (tmp_path / ARCHIVE).exists()
    assert_it_goes_on_from(len(kept), server, tmp_path)


def start_process(server, root, kind):
    """Start a download in a process of its own."""
    call = f"download_cifar10({str(root)!r}, urls=[{server.url(kind)!r}], **{EXPECTED | {'timeout': 20}!r})"
    code = f"from vit_course.data.cifar10 import download_cifar10; {call}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)


def test_killed_process_leaves_nothing_trusted_and_the_next_goes_on(server, tmp_path):
    process = start_process(server, tmp_path, "hanging")
    deadline = time.monotonic() + 60
    while not (part_of(tmp_path).exists() and part_of(tmp_path).stat().st_size > 200_000):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    kept = part_of(tmp_path).stat().st_size
    assert not (tmp_path / ARCHIVE).exists() and kept < len(CONTENT)
    assert_it_goes_on_from(kept, server, tmp_path)


def test_two_processes_at_once_download_once_and_both_end_well(server, tmp_path):
    processes = [start_process(server, tmp_path, "slow") for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert server.requests == [("slow", None)]
    assert_only_the_archive_is_there(tmp_path)


# --- python -m vit_course data


def test_command_says_where_the_verified_archive_is(server, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download, "download_cifar10", lambda root: fetch(server, root, "good"))
    assert main(["--root", str(tmp_path)]) == 0
    assert str(tmp_path / ARCHIVE) in capsys.readouterr().out


def test_command_stopped_with_ctrl_c_says_that_it_can_go_on(monkeypatch, capsys):
    monkeypatch.setattr(download, "download_cifar10", Mock(side_effect=KeyboardInterrupt))
    assert main([]) == 130
    assert "continues from here" in capsys.readouterr().out


def test_failing_command_ends_with_status_1_a_message_and_no_traceback(server, tmp_path):
    command = [sys.executable, "-m", "vit_course", "data", "--root", str(tmp_path)]
    environment = os.environ | {"VIT_COURSE_CIFAR10_URL": server.url("missing")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "404" in done.stdout and "USB" in done.stdout and download.ARCHIVE_MD5 in done.stdout
