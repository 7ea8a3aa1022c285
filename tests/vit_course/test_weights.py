"""Weights from files: nothing but tensors is ever read."""

import pytest
import torch

from vit_course.beyond.weights import load_weights


def test_a_pickle_that_is_no_tensor_is_never_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"weights": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(Exception, match="weights_only|Weights only"):
        load_weights(tmp_path / "trap.pth")
    assert not (tmp_path / "executed").exists()
