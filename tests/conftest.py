"""What all tests share: small generated data, one thread a process, no picture windows, and no network."""

import os
import socket

# Libraries read these when they are first imported, so they come before any such import.
for name in ("STRICT", "CHECK_SECONDS"):  # settings of whoever runs the tests
    os.environ.pop(f"VIT_COURSE_{name}", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("VIT_COURSE_PROFILE", "smoke")
os.environ.setdefault("VIT_COURSE_DATA", "shapes10")
os.environ.setdefault("VIT_COURSE_PRECISION", "float32")
for proxy in ("http_proxy", "https_proxy", "all_proxy"):  # a proxy on this machine would be a way out
    os.environ.pop(proxy, None)
    os.environ.pop(proxy.upper(), None)
for name in [name for name in os.environ if name.startswith("GIT_")]:  # a hook's: they lead elsewhere
    del os.environ[name]
os.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "commit.gpgsign", "GIT_CONFIG_VALUE_0": "false"}

import pytest  # noqa: E402


def pytest_collection_modifyitems(items):
    """Skip tests marked real_data where there are no real pictures."""
    if not os.environ.get("VIT_COURSE_REAL_DATA"):
        for item in items:
            if item.get_closest_marker("real_data"):
                item.add_marker(pytest.mark.skip(reason="VIT_COURSE_REAL_DATA is not set"))


@pytest.fixture(autouse=True, scope="session")
def answers_go_to_a_temporary_folder(tmp_path_factory):
    """Keep what the checks write away from the answers of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIT_COURSE_ANSWERS", str(tmp_path_factory.mktemp("answers")))
        yield


def is_loopback(host):
    """Tell whether a host name or address is this machine itself (None is, to getaddrinfo)."""
    host = host.decode() if isinstance(host, bytes) else host
    return host in (None, "", "localhost", "::1") or host.startswith("127.")


@pytest.fixture(scope="session")
def drawn():
    """Shapes-10, kept as long as the session: nobody who asks for it draws it again."""
    from vit_course.data import shapes10

    return shapes10()


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Fail a test that looks up or connects to another machine.

    What `pytest.fail` raises is no Exception, so code that handles failed downloads cannot hide it.
    """
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def guarded(method):
        def guarded_method(self, address):
            if self.family in (socket.AF_INET, socket.AF_INET6) and not is_loopback(address[0]):
                pytest.fail(f"a test may not use the network, but this one connects to {address}")
            return method(self, address)

        return guarded_method

    def guarded_getaddrinfo(host, *args, **kwargs):
        if not is_loopback(host):
            pytest.fail(f"a test may not use the network, but this one looks up {host!r}")
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded(connect))
        patch.setattr(socket.socket, "connect_ex", guarded(connect_ex))
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield
