"""What nbval should not compare: warnings and progress on stderr, and drawings whose bytes differ by version."""


def pytest_itemcollected(item):
    """Tell the notebook of a collected cell what to leave out when it compares outputs."""
    if hasattr(item.parent, "skip_compare"):
        item.parent.skip_compare = {*item.parent.skip_compare, "stderr", "image/svg+xml"}
