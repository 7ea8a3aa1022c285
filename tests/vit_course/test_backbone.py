"""Weights of other libraries: the same outputs as theirs, and in plain words what does not fit. No network."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vit_course.data import normalize
from vit_course.extensions.backbone import Backbone, build_backbone, load_backbone
from vit_course.extensions.weights import FAMILIES, IMAGENET, load_weights
from vit_course.vit import VisionTransformer

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3}
SMALL |= {"patch_size": 8, "image_size": 32}
TIMM_SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3}
WIDE = SMALL | {"intermediate_size": 80}
REGISTERS = WIDE | {"num_register_tokens": 4}
GIVEN = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
TOLD = GIVEN | {"num_heads": 3, "img_size": 32, "global_pool": "token"}
PICTURES = torch.randint(
    0, 256, (2, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
)


def spread(model):
    """Give every weight a value of its own: new ones are zero or one in places, which would hide mistakes."""
    torch.manual_seed(0)
    for weight in model.requires_grad_(False).parameters():
        weight.copy_(0.3 * torch.randn_like(weight) + (0.5 if weight.ndim == 1 else 0))
    return model.eval()


def our_vit(**options):
    torch.manual_seed(0)
    return VisionTransformer(**TIMM_SMALL, **options).eval()


def furthest(a, b):
    """The largest difference, in units of the largest number."""
    return ((a - b).abs().max() / b.abs().max()).item()


# -- Hugging Face: files as `save_pretrained` writes them

HUGGING_FACE = {
    "ViTModel": ("ViTConfig", WIDE | {"qkv_bias": True}),
    "ViTForImageClassification": ("ViTConfig", WIDE),
    "Dinov2Model": ("Dinov2Config", SMALL),
    "Dinov2Model, gated": ("Dinov2Config", SMALL | {"use_swiglu_ffn": True}),
    "Dinov2WithRegistersModel": ("Dinov2WithRegistersConfig", SMALL),
    "DINOv3ViTModel": ("DINOv3ViTConfig", REGISTERS),
    "DINOv3ViTModel, gated": ("DINOv3ViTConfig", REGISTERS | {"use_gated_mlp": True, "hidden_act": "silu"}),
    "CLIPVisionModel": ("CLIPVisionConfig", WIDE),
    "CLIPVisionModelWithProjection": ("CLIPVisionConfig", WIDE | {"projection_dim": 24}),
    "SiglipVisionModel": ("SiglipVisionConfig", WIDE),
}


def saved(tmp_path, name):
    """Build a model of transformers with random weights and save it, with the config of its pictures beside it."""
    transformers = pytest.importorskip("transformers")
    config, options = HUGGING_FACE[name]
    model = spread(getattr(transformers, name.partition(",")[0])(getattr(transformers, config)(**options)))
    model.save_pretrained(tmp_path)
    stats = {"image_mean": GIVEN["mean"], "image_std": GIVEN["std"]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(stats))
    return model


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_a_file_of_hugging_face_gives_the_outputs_of_transformers(tmp_path, name):
    theirs = saved(tmp_path, name)
    ours = load_backbone(tmp_path)
    assert (ours.mean, ours.std) == (GIVEN["mean"], GIVEN["std"])
    want = theirs(pixel_values=normalize(PICTURES, *GIVEN.values()))
    tokens = ours.tokens(PICTURES)
    if "last_hidden_state" in want:
        hidden = want.last_hidden_state
        if name.startswith("CLIP"):  # theirs leaves the patches without the last norm
            hidden = ours.model.norm(hidden).detach()
        assert furthest(tokens, hidden) < 1e-5
    if name.startswith(("CLIPVisionModel", "Siglip")) and "pooler_output" in want:
        assert furthest(ours.read(tokens), want.pooler_output) < 1e-5
    for key in ("logits", "image_embeds"):
        if key in want:
            assert furthest(ours.project(tokens), want[key]) < 1e-5


def test_a_whole_clip_gives_its_picture_tower_and_says_what_is_left_out(tmp_path):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    config = transformers.CLIPConfig(text_config=sizes, vision_config=WIDE, projection_dim=24)
    theirs = spread(transformers.CLIPModel(config))
    theirs.save_pretrained(tmp_path)
    ours = load_backbone(tmp_path, **GIVEN)
    want = theirs.get_image_features(pixel_values=normalize(PICTURES, *GIVEN.values()))
    want = getattr(want, "pooler_output", want)
    assert furthest(ours.project(ours.tokens(PICTURES)), want) < 1e-5
    assert ours.left_out and all(re.match("text_|logit_scale", name) for name in ours.left_out)


# -- timm: what its config says is read in `test_public_weights`


def test_dinov3_reads_larger_and_oblong_pictures_as_timm_does():
    timm = pytest.importorskip("timm")
    theirs = spread(timm.create_model("vit_small_patch16_dinov3", **TIMM_SMALL, dynamic_img_size=True))
    ours = build_backbone(theirs.state_dict(), **TOLD).at((40, 64))
    large = torch.randint(0, 256, (1, 3, 40, 64), dtype=torch.uint8)
    assert furthest(ours.tokens(large), theirs.forward_features(normalize(large, *GIVEN.values()))) < 1e-5


# -- torchvision: always here


@pytest.fixture(scope="module")
def theirs():
    from torchvision.models import VisionTransformer as Torchvision

    return spread(Torchvision(32, 8, 2, 3, 48, 96, num_classes=5))


def test_weights_of_torchvision_give_its_outputs_with_imagenets_normalisation(theirs):
    ours = build_backbone(theirs.state_dict(), num_heads=3, img_size=32)
    want = theirs(normalize(PICTURES, *IMAGENET))
    assert ours.family == "torchvision ViT"
    assert furthest(ours.project(ours.tokens(PICTURES)), want) < 1e-5


# -- damaged files, each with its message


def file_with(tmp_path, weights):
    path = tmp_path / "weights.safetensors"
    save_file({name: value.contiguous().clone() for name, value in weights.items()}, path)
    return path


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("encoder.layers.encoder_layer_1.ln_2.weight", None, "do not fit: {} is missing$"),
        ("encoder.ln.bias", 47, r"{} is \(47,\), the model's is \(48,\)"),
        ("encoder.extra", 3, "{} has no place in the model"),
    ],
)
def test_a_weight_that_does_not_fit_is_named_as_the_file_names_it(tmp_path, theirs, name, size, message):
    weights = theirs.state_dict()
    weights.pop(name, None)
    if size:
        weights[name] = torch.zeros(size)
    with pytest.raises(ValueError, match=message.format(re.escape(name))):
        load_backbone(file_with(tmp_path, weights), num_heads=3)


def test_weights_of_another_kind_of_model_are_refused_with_what_is_known(tmp_path):
    from torchvision.models import resnet18

    with pytest.raises(ValueError) as error:
        load_backbone(file_with(tmp_path, resnet18().state_dict()))
    assert "weights.safetensors: these are not weights of a ViT that is known here: they begin with" in str(
        error.value
    )
    assert all(family.name in str(error.value) for family in FAMILIES)
    turned = our_vit(pos_embed="none").state_dict()  # the rotations are not in the file
    with pytest.raises(ValueError, match="these are not weights of a ViT that is known here"):
        load_backbone(file_with(tmp_path, turned), **TOLD)


def test_a_file_that_is_cut_off_is_refused(tmp_path, theirs):
    path = file_with(tmp_path, theirs.state_dict())
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(
        ValueError, match=r"weights\.safetensors is damaged, or only the first part of a file"
    ):
        load_backbone(path)
    with pytest.raises(FileNotFoundError, match="is not a file of weights"):
        load_backbone(tmp_path / "nothing.safetensors")


@pytest.mark.parametrize(
    ("name", "part"),
    [("dist_token", "a distillation token"), ("embeds.proj.weight", "patches of any number"),
     ("blocks.0.attn.relative_position_bias_table", "relative positions"), ("blocks.0.attn.q_norm.weight", "QK-norm")],
)  # fmt: skip
def test_parts_that_are_not_built_here_are_refused_by_name(name, part):
    weights = our_vit().state_dict() | {name: torch.zeros(48)}
    with pytest.raises(ValueError, match=f"^{re.escape(name)} needs {part}"):
        build_backbone(weights, **TOLD)


def test_a_pickle_that_is_no_tensor_is_never_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    torch.save({"weights": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(ValueError, match=r"trap\.pth holds more than weights \(io\.open\).*could run code"):
        load_weights(tmp_path / "trap.pth")
    assert not (tmp_path / "executed").exists()


# -- what goes with the weights


def test_a_config_with_another_depth_than_the_file_is_refused():
    with pytest.raises(ValueError, match="the file holds 2 blocks, its config says 12"):
        build_backbone(our_vit().state_dict(), {"depth": 12}, **TOLD)


@pytest.fixture
def small():
    return Backbone(our_vit(), *GIVEN.values())


def test_pictures_of_another_size_are_refused_with_both_sizes(small):
    large = torch.zeros(1, 3, 48, 64, dtype=torch.uint8)
    with pytest.raises(ValueError, match="pictures are 48x64 pixels, these weights read 32x32"):
        small.tokens(large)
    assert small.at((48, 64)).tokens(large).shape == (1, 1 + 6 * 8, 48)


def test_pictures_that_may_be_normalised_already_are_refused(small):
    with pytest.raises(ValueError, match=r"pictures are torch\.float32: give uint8"):
        small.tokens(torch.zeros(1, 3, 32, 32))


def test_tokens_do_not_depend_on_the_batches_they_were_computed_in(small):
    pictures = PICTURES.repeat(3, 1, 1, 1)
    torch.testing.assert_close(small.tokens(pictures, batch_size=4), small.tokens(pictures))
    assert small.read(small.tokens(pictures)).shape == (6, 48)


def test_half_precision_is_read_as_float32(theirs):
    half = {name: value.half() for name, value in theirs.state_dict().items()}
    assert {p.dtype for p in build_backbone(half, num_heads=3).model.parameters()} == {torch.float32}


def test_a_backbone_without_a_head_projects_to_its_own_vector():
    weights = {name: w for name, w in our_vit().state_dict().items() if not name.startswith("head")}
    found = build_backbone(weights, **TOLD)
    assert isinstance(found.model.head, nn.Identity)
    tokens = found.tokens(PICTURES)
    torch.testing.assert_close(found.project(tokens), found.read(tokens))
