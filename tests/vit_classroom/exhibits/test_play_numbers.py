"""The model of "See it think" computes what PyTorch computes, in JavaScript and in the notebook, what-ifs included."""

import base64
import copy
import json
import shutil
import subprocess
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from vit_classroom.exhibits.mini_vit import MiniViT
from vit_classroom.exhibits.play.look import abilities, look
from vit_course.attention import MultiHeadAttention, merge_heads, scaled_dot_product_attention, split_heads
from vit_course.data import normalize
from vit_course.extensions.hybrid import create_hybrid
from vit_course.extensions.trained import load_trained
from vit_course.training.paths import CHECKPOINTS
from vit_course.vit import create_vit

IMAGES = {"shapes-vit": 13, "cifar-vit": 7}
"""Twenty in all, each asked as it is and with a change."""
EVERYTHING = {"keep": [1] * 64, "positions": 1, "heads": None}


def what_ifs(depth, heads):
    """Changes: patches hidden, heads off, positions off, several at once, and so on anew."""
    random = np.random.default_rng(0)
    while True:
        keep, gates = random.integers(0, 2, 64).tolist(), random.integers(0, 2, (depth, heads)).tolist()
        yield EVERYTHING | {"keep": keep}
        yield EVERYTHING | {"heads": gates}
        yield EVERYTHING | {"positions": 0}
        yield {"keep": keep, "heads": gates, "positions": 0}
        yield EVERYTHING | {"keep": [0] * 63 + [1]}


@torch.no_grad()
def expected(model, image, keep, positions, heads):
    """The same by other means: hidden tokens are left out, a head's columns of W_O and the table of positions are 0."""
    model = copy.deepcopy(model)
    model.pos_embed *= positions
    each = model.norm.normalized_shape[0] // model.blocks[0].attn.num_heads
    for block, gates in zip(model.blocks, heads or [], strict=bool(heads)):
        block.attn.proj.weight *= torch.tensor(gates).repeat_interleave(each)
    z = model.embed(image[None])[:, [0, *(n + 1 for n, kept in enumerate(keep) if kept)]]
    layers, attentions = [z], []
    for block in model.blocks:
        z, weights = block(z, return_attention=True)
        layers.append(z)
        attentions.append(weights[0])
    said = torch.stack([model.head(model.norm(z)[0, 0]) for z in layers])
    return said, torch.stack(attentions)


@pytest.fixture(scope="module", params=IMAGES)
def asked(request, drawn):
    """A trained model, images as they are and once more with a change, and what is asked of each."""
    model, info = load_trained(request.param)
    count = IMAGES[request.param]
    images = drawn.test_images[:count].repeat(2, 1, 1, 1)
    changes = islice(what_ifs(len(model.blocks), model.blocks[0].attn.num_heads), count)
    questions = [EVERYTHING] * count + list(changes)
    return request.param, model, normalize(images, info["mean"], info["std"]), images, questions


@pytest.fixture(scope="module")
def answers(asked, tmp_path_factory):
    """What the engine answers in node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is missing")
    name, model, _, images, questions = asked
    all_on = [[1] * model.blocks[0].attn.num_heads] * len(model.blocks)
    lines = [
        question
        | {"heads": np.array(question["heads"] or all_on).flatten().tolist()}
        | {"pixels": base64.b64encode(image.permute(1, 2, 0).contiguous().numpy().tobytes()).decode()}
        for image, question in zip(images, questions, strict=True)
    ]
    path = tmp_path_factory.mktemp("asked") / "asked.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    program = Path(__file__).with_name("run_engine.mjs")
    weights = CHECKPOINTS / f"{name}.safetensors"
    run = subprocess.run([node, program, weights, path], capture_output=True, text=True, check=True)
    return [
        {
            key: torch.from_numpy(np.frombuffer(base64.b64decode(text), np.float32).copy())
            for key, text in json.loads(line).items()
        }
        for line in run.stdout.splitlines()
    ]


def test_the_engine_gives_the_logits_of_pytorch_for_pictures_and_for_what_ifs(asked, answers):
    _, model, inputs, _, questions = asked
    for answer, image, question in zip(answers, inputs, questions, strict=True):
        said, _ = expected(model, image, **question)
        torch.testing.assert_close(answer["logits"], said[-1], rtol=0, atol=1e-4)
        torch.testing.assert_close(answer["layers"].view_as(said), said, rtol=0, atol=1e-4)


def test_the_engine_gives_the_attention_of_pytorch_and_its_rows_sum_to_one(asked, answers):
    _, model, inputs, _, questions = asked
    for answer, image, question in zip(answers, inputs, questions, strict=True):
        _, weights = expected(model, image, **question)
        kept = torch.tensor([True, *map(bool, question["keep"])])
        table = answer["attention"].view(*weights.shape[:2], 65, 65)
        torch.testing.assert_close(table[:, :, kept][..., kept], weights, rtol=0, atol=1e-5)
        sums = table.sum(dim=-1)
        torch.testing.assert_close(sums, kept.float().expand_as(sums), rtol=0, atol=1e-5)


def test_the_notebook_gives_what_the_engine_gives_inside_too(asked, answers):
    _, model, inputs, _, questions = asked
    for answer, image, question in zip(answers, inputs, questions, strict=True):
        gates = None if question["heads"] is None else torch.tensor(question["heads"])
        found = look(model, image, torch.tensor(question["keep"]).bool(), bool(question["positions"]), gates)
        assert found.keys() == answer.keys()
        for key, value in found.items():
            torch.testing.assert_close(answer[key].view_as(value), value, rtol=0, atol=2e-4, msg=key)


def test_looking_leaves_a_model_as_it_was():
    model = MiniViT(patch_size=8).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    look(model, torch.rand(3, 32, 32), torch.arange(16) < 9, False, torch.zeros(3, 3))
    assert model.training and all(part.training for part in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    hooks = [part._forward_hooks or part._forward_pre_hooks for part in model.modules()]
    assert not any(hooks)


@pytest.mark.parametrize(
    ("model", "patches", "lacks"),
    [
        (MiniViT(patch_size=8), 16, set()),
        (create_vit("Nano/4", class_token=False, global_pool="avg"), 64, set()),
        (create_vit("Nano/4", pos_embed="none", representation_size=8), 64, {"positions"}),
        (create_hybrid("R-Nano/4"), 64, set()),
    ],
)
def test_all_of_the_course_s_own_models_can_be_looked_into(model, patches, lacks):
    torch.nn.init.normal_(getattr(model, "vit", model).head.weight)
    can = abilities(model, torch.rand(3, 32, 32), patches)
    assert {name for name, able in can.items() if not able} == lacks


class Sharper(MultiHeadAttention):
    """Attention with scores of twice the size."""

    def forward(self, x, return_attention=False):
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(x).chunk(3, dim=-1))
        found, weights = scaled_dot_product_attention(2 * q, k, v)
        out = self.proj(merge_heads(found))
        return (out, weights) if return_attention else out


def test_attention_that_computes_in_another_way_is_not_shown():
    model = MiniViT(patch_size=8)
    for block in model.blocks:
        torch.nn.init.normal_(block.attn.qkv.weight)
    assert all(abilities(model, torch.rand(3, 32, 32), 16).values())
    own = Sharper(96, 3)
    own.load_state_dict(model.blocks[1].attn.state_dict())
    model.blocks[1].attn = own
    can = abilities(model, torch.rand(3, 32, 32), 16)
    assert {name for name, able in can.items() if not able} == {"attention", "heads", "detail"}
    assert look(model, torch.rand(3, 32, 32), torch.ones(16).bool(), can=can).keys() == {"logits", "layers"}
