"""Weights from files: what was written comes back, and nothing but tensors is ever read."""

import pytest
import torch
from safetensors.torch import save_file

from vit_course.beyond.weights import load_weights
from vit_course.vit import VisionTransformer

SMALL = {"img_size": 16, "patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3}


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_saved_weights_come_back(tmp_path, suffix):
    model = VisionTransformer(**SMALL)
    path = tmp_path / f"weights{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(model.state_dict(), path)
    loaded = load_weights(path)
    assert all(torch.equal(loaded[name], value) for name, value in model.state_dict().items())


def test_a_pickle_that_is_no_tensor_is_never_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"weights": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(Exception, match="weights_only|Weights only"):
        load_weights(tmp_path / "trap.pth")
    assert not (tmp_path / "executed").exists()
