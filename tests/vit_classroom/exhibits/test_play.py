"""`play` in a notebook: the widget answers with the live model; where nobody looks there is one figure."""

import numpy as np
import pytest
import torch

from vit_classroom.exhibits.mini_vit import MiniViT
from vit_classroom.exhibits.play import play, show
from vit_course.extensions.trained import load_trained


@pytest.fixture
def shown(monkeypatch):
    """Pretend that a notebook is there that somebody looks at, and collect what it would display."""
    pytest.importorskip("anywidget")
    displayed = []
    monkeypatch.setattr("IPython.display.display", lambda *what, **_: displayed.extend(what))
    monkeypatch.setattr(show, "in_notebook", lambda: True)
    monkeypatch.delenv("VIT_COURSE_WIDGETS", raising=False)
    return displayed


class Asked:
    """A widget with the answers that it sends to the view."""

    def __init__(self, widget):
        self.widget, self.sent = widget, []
        widget.send = lambda content, buffers=(): self.sent.append((content, buffers))

    def logits(self, image, keep=None, heads=None, positions=1):
        info = self.widget.info
        patches, gates = info["grid"][0] * info["grid"][1], info["depth"] * info["heads"]
        pixels = image.permute(1, 2, 0).contiguous().numpy().tobytes()
        buffers = [pixels, bytes(keep or [1] * patches), bytes(heads or [1] * gates)]
        self.widget.answer(None, {"id": "1", "positions": positions, "detail": False}, buffers)
        content, answers = self.sent[-1]
        return torch.from_numpy(
            np.frombuffer(dict(zip(content["names"], answers, strict=True))["logits"], np.float32).copy()
        )


def test_the_widget_shows_the_test_images_of_the_data_set_and_knows_the_model(shown, drawn):
    play(MiniViT(patch_size=8), drawn)
    (widget,) = shown
    assert [sample["name"] for sample in widget.samples] == [f"image {i}" for i in range(1, 9)]
    assert len(widget.samples[0]["pixels"]) == 32 * 32 * 3
    info = widget.info
    assert (info["grid"], info["depth"], info["heads"], info["prefix"]) == ([4, 4], 3, 3, 1)
    assert info["classes"] == list(drawn.classes) and info["draws"] and all(info["can"].values())
    assert {"logits", "attention", "layers", "tokens"} <= widget.first.keys()


def test_the_answers_are_those_of_the_model_as_it_is_now(shown, drawn):
    model, info = load_trained("shapes-vit")
    play(model, info, drawn.test_images[:2], ["one", "two"])
    asked, image = Asked(shown[0]), drawn.test_images[1]
    mean, std = (torch.tensor(info[name]).view(3, 1, 1) for name in ("mean", "std"))
    with torch.no_grad():
        expected = model(((image / 255 - mean) / std)[None])[0]
        torch.testing.assert_close(asked.logits(image), expected, rtol=0, atol=1e-4)
        model.head.bias += 1
    torch.testing.assert_close(asked.logits(image), expected + 1, rtol=0, atol=1e-4)


def test_a_hidden_patch_a_head_that_is_off_and_missing_positions_change_the_answer(shown, drawn):
    model, info = load_trained("shapes-vit")
    play(model, info)
    asked, image = Asked(shown[0]), drawn.test_images[0]
    whole = asked.logits(image)
    for change in ({"keep": [0] * 32 + [1] * 32}, {"heads": [0] + [1] * 17}, {"positions": 0}):
        assert (asked.logits(image, **change) - whole).abs().max() > 0.01
    torch.testing.assert_close(asked.logits(image), whole)


def test_an_error_of_a_student_s_part_is_sent_to_the_view(shown, drawn):
    model = MiniViT(patch_size=8)
    play(model, drawn)
    asked = Asked(shown[0])
    model.head = torch.nn.Linear(7, 10)
    with pytest.raises(KeyError):
        asked.logits(drawn.test_images[0])
    error = asked.sent[-1][0]["error"]
    assert error.startswith("RuntimeError") and "mat1 and mat2" in error


def test_where_nobody_looks_there_is_one_figure(capsys, drawn):
    play(MiniViT(patch_size=8), drawn)
    assert capsys.readouterr().out.startswith("[figure] 8 images with the model's answer")


def test_a_model_without_attention_that_can_be_followed_still_has_a_figure(capsys, drawn):
    model = MiniViT(patch_size=8)
    model.blocks[0].attn.qkv.register_forward_hook(lambda layer, given, made: made[..., :0])
    model.blocks[0].attn.forward = lambda x, *more: x
    play(model, drawn)
    assert capsys.readouterr().out.startswith("[figure]")


def test_titles_of_another_number_than_images_are_an_error(drawn):
    with pytest.raises(ValueError, match="1 titles for 2 images"):
        play(MiniViT(patch_size=8), drawn, drawn.test_images[:2], ["one"])
