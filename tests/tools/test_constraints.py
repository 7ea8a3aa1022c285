"""What several Pythons got becomes one file that pip can read."""

import constraints


def test_a_version_that_every_python_got_is_pinned_once_without_a_marker():
    assert constraints.lines({"3.10": {"a": "1"}, "3.13": {"a": "1"}}) == ["a==1"]


def test_a_version_holds_up_to_the_next_python_that_got_another():
    got = {"3.9": {"a": "1"}, "3.10": {"a": "2"}, "3.11": {"a": "2"}, "3.13": {"a": "3"}}
    assert constraints.lines(got) == [
        'a==1 ; python_version < "3.10"',
        'a==2 ; python_version >= "3.10" and python_version < "3.13"',
        'a==3 ; python_version >= "3.13"',
    ]


def test_a_package_that_one_python_alone_needs_is_pinned():
    assert constraints.lines({"3.10": {"tomli": "2"}, "3.13": {}}) == ["tomli==2"]


def test_names_are_compared_as_pip_compares_them():
    assert constraints.common_name("Jupyter_Client.core") == "jupyter-client-core"
