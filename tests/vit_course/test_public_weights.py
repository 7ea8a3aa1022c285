"""Public weights: every model of timm and each kind of transformers gives its own outputs here, or is refused.

Weights are random, from the constructors of the libraries; nothing is downloaded.
"""

import argparse
import json
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save, save_file
from test_backbone import GIVEN, PICTURES, SMALL, TIMM_SMALL, WIDE, furthest, our_vit, spread

from vit_course.data import normalize
from vit_course.extensions.backbone import build_backbone, load_backbone
from vit_course.extensions.settings import timm_settings

X = normalize(PICTURES, *GIVEN.values())
MODULES = ("vision_transformer", "deit", "eva", "beit", "naflexvit", "vision_transformer_hybrid")
MODULES += ("vision_transformer_relpos", "vision_transformer_sam")
ODD = {"vit_base_mci_224"} | {
    f"vit_{size}_patch16_sapiens2" for size in ("base", "large", "huge", "giant", "5b")
}
"""What timm cannot make small; all are refused by name."""


def write(folder, weights, **configs):
    """Write weights and the config files beside them."""
    save_file({name: w.contiguous().clone() for name, w in weights.items()}, folder / "model.safetensors")
    for name, content in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


# -- timm


@pytest.fixture(scope="module")
def timm():
    return pytest.importorskip("timm")


def timm_names(timm):
    from timm.models._registry import _model_to_module

    return [name for name in timm.list_models() if _model_to_module[name] in MODULES]


def timm_config(name, theirs, **told):
    cfg = {**GIVEN, "input_size": [3, 32, 32]}
    return {
        "architecture": name,
        "global_pool": theirs.global_pool,
        "pretrained_cfg": cfg,
        "model_args": TIMM_SMALL | told,
    }


def distances(ours, theirs):
    """How far tokens, vector and logits are from timm's, at most, in units of their largest number."""
    tokens = ours.tokens(PICTURES)
    pairs = [(tokens, theirs.forward_features(X)), (ours.project(tokens), theirs(X))]
    with torch.no_grad():
        pairs.append((ours.model(X), theirs(X)))
    return max(furthest(a, b) if a.shape == b.shape else 9 for a, b in pairs)


def test_every_vit_of_timm_gives_its_outputs_or_is_refused_with_its_config_and_without(timm, tmp_path):
    equal, wrong = {"config": [], "given": []}, []
    for name in timm_names(timm):
        if name in ODD:
            with pytest.raises(ValueError, match="is not built here"):
                timm_settings({"architecture": name})
            continue
        theirs = small(timm, name)
        weights = theirs.state_dict()
        act = timm_settings({"architecture": name})["act"] if name not in refused(timm) else "gelu"
        told = {"num_heads": 3, "img_size": 32, "act": act, **GIVEN}
        if theirs.global_pool in ("token", "avg"):
            told["global_pool"] = theirs.global_pool
        for way in equal:
            try:
                if way == "config":
                    ours = load_backbone(write(tmp_path, weights, config=timm_config(name, theirs)))
                else:
                    ours = build_backbone(weights, **told)
            except ValueError:
                continue
            equal[way].append(name)
            if not distances(ours, theirs) < 1e-5:
                wrong.append((name, way))
    assert wrong == []
    assert len(equal["config"]) > 140 and len(equal["given"]) > 140
    assert set(equal["config"]).isdisjoint(refused(timm))


def small(timm, name):
    """Make a small model of a name; some have stems of their own, whose patches have a size of their own."""
    options = {
        k: v for k, v in TIMM_SMALL.items() if k != "patch_size" or not re.search(r"_r_|_r\d|resnet", name)
    }
    return spread(timm.create_model(name, **options))


def refused(timm):
    """The models that their names refuse."""
    found = set()
    for name in timm_names(timm):
        try:
            timm_settings({"architecture": name})
        except ValueError:
            found.add(name)
    return found


def test_heads_of_timms_models_are_those_that_timm_builds(timm):
    ours, theirs = {}, {}
    for name in set(timm_names(timm)) - refused(timm):
        with torch.device("meta"):
            model = timm.create_model(name, depth=1)
        theirs[name] = model.blocks[0].attn.num_heads
        ours[name] = timm_settings({"architecture": name})["num_heads"]
    assert ours == theirs and len(ours) > 140


@pytest.mark.parametrize(
    "name", ["rope", "rope_ape", "rope_mixed", "rpn", "xp", "18x2", "radio_v3", "clip_r50"]
)
def test_a_variant_that_weights_do_not_show_is_refused_by_its_name(name):
    with pytest.raises(ValueError, match="is not built here: by its name it is no plain ViT"):
        timm_settings({"architecture": f"vit_base_patch16_{name}_224"})


def test_what_timms_config_changes_is_read_and_what_is_unknown_is_refused(timm, tmp_path):
    theirs = spread(
        timm.create_model("vit_small_patch16_224", **TIMM_SMALL, global_pool="avg", fc_norm=False)
    )
    config = timm_config("vit_small_patch16_224", theirs)
    ours = load_backbone(write(tmp_path, theirs.state_dict(), config=config))
    assert ours.model.global_pool == "avg" and distances(ours, theirs) < 1e-5
    for told, what in (
        ({"qk_norm": True}, "qk_norm"),
        ({"pool_include_prefix": True}, "pool_include_prefix"),
    ):
        write(tmp_path, theirs.state_dict(), config=timm_config("vit_small_patch16_224", theirs, **told))
        with pytest.raises(ValueError, match=rf"config\.json: model_args has {what}, which is not read here"):
            load_backbone(tmp_path)
    write(tmp_path, theirs.state_dict(), config=config | {"global_pool": "max"})
    with pytest.raises(ValueError, match="global_pool 'max' is not built here"):
        load_backbone(tmp_path)


def test_oblong_pictures_are_read_as_their_config_says_though_their_patches_would_fill_a_square(
    timm, tmp_path
):
    theirs = spread(
        timm.create_model("vit_small_patch16_224", **TIMM_SMALL | {"img_size": (16, 72)}, num_classes=4)
    )
    config = timm_config("vit_small_patch16_224", theirs, img_size=[16, 72], num_classes=4)
    ours = load_backbone(write(tmp_path, theirs.state_dict(), config=config))
    large = torch.randint(0, 256, (1, 3, 16, 72), dtype=torch.uint8)
    assert ours.img_size == (16, 72)
    assert furthest(ours.project(ours.tokens(large)), theirs(normalize(large, *GIVEN.values()))) < 1e-5
    with pytest.raises(ValueError, match="img_size is 32x32, .* 4x4, and pos_embed has 19 positions"):
        build_backbone(theirs.state_dict(), **GIVEN, num_heads=3, img_size=32, global_pool="token")


def test_another_size_than_that_of_the_file_interpolates_its_positions_as_timm_does(timm, tmp_path):
    theirs = spread(timm.create_model("vit_small_patch16_224", **TIMM_SMALL, num_classes=4))
    ours = load_backbone(
        write(tmp_path, theirs.state_dict(), config=timm_config("vit_small_patch16_224", theirs)), img_size=48
    )
    theirs.set_input_size((48, 48))
    large = torch.randint(0, 256, (1, 3, 48, 48), dtype=torch.uint8)
    assert furthest(ours.project(ours.tokens(large)), theirs(normalize(large, *GIVEN.values()))) < 1e-5


def test_metas_own_file_of_dinov2_needs_no_word_and_reads_as_timm_converts_it(timm):
    sizes = {"img_size": 28, "patch_size": 14, "depth": 12, "num_heads": 6}
    theirs = spread(timm.create_model("vit_small_patch14_reg4_dinov2", **sizes))
    weights = dict(theirs.state_dict())
    weights |= {"register_tokens": weights.pop("reg_token"), "mask_token": torch.zeros(1, 384)}
    table = torch.cat([torch.zeros(1, 1, 384), weights["pos_embed"]], dim=1)  # Meta's has a row for CLS
    ours = build_backbone(weights | {"pos_embed": table})
    pictures = torch.randint(0, 256, (1, 3, 28, 28), dtype=torch.uint8)
    assert (ours.family, ours.left_out) == ("Meta DINOv2", ("mask_token",))
    assert (
        furthest(ours.tokens(pictures), theirs.forward_features(normalize(pictures, ours.mean, ours.std)))
        < 1e-5
    )


# -- Hugging Face: what is refused, and what a config leaves out

REFUSED = {
    "DeiTModel": ("DeiTConfig", {}, "a model of the type deit is not built here"),
    "BeitModel": ("BeitConfig", {}, "a model of the type beit is not built here"),
    "ViTMSNModel": ("ViTMSNConfig", {}, "a model of the type vit_msn is not built here"),
    "IJepaModel": ("IJepaConfig", {}, "a model of the type ijepa is not built here"),
    "Siglip2VisionModel": (
        "Siglip2VisionConfig",
        {"num_patches": 16},
        "a model of the type siglip2_vision_model",
    ),
    "VideoMAEModel": ("VideoMAEConfig", {"num_frames": 4}, "a model of the type videomae is not built here"),
    "ViTModel": ("ViTConfig", {"hidden_act": "gelu_new"}, "the activation gelu_new is not built here"),
    "DINOv3ViTModel": ("DINOv3ViTConfig", {"rope_theta": 50.0}, "rope_theta is 50.0"),
    "DINOv3ViTModel, gated": ("DINOv3ViTConfig", {"use_gated_mlp": True}, "a gated MLP with gelu"),
    "Dinov2ForImageClassification": (
        "Dinov2Config",
        {},
        "the head of Dinov2ForImageClassification is not built here",
    ),
}


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


def saved(transformers, folder, name, config):
    theirs = spread(getattr(transformers, name.partition(",")[0])(config))
    theirs.save_pretrained(folder)
    stats = {"image_mean": GIVEN["mean"], "image_std": GIVEN["std"]}
    (folder / "preprocessor_config.json").write_text(json.dumps(stats))
    return theirs


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_of_transformers_that_is_not_built_is_refused_by_its_kind(transformers, tmp_path, name):
    config, options, message = REFUSED[name]
    saved(transformers, tmp_path, name, getattr(transformers, config)(**WIDE | options))
    with pytest.raises(ValueError, match=message):
        load_backbone(tmp_path)


def test_without_its_head_a_classifier_gives_the_tokens_of_its_backbone(transformers, tmp_path):
    theirs = saved(transformers, tmp_path, "Dinov2ForImageClassification", transformers.Dinov2Config(**SMALL))
    ours = load_backbone(tmp_path, head=False)
    assert furthest(ours.tokens(PICTURES), theirs.dinov2(pixel_values=X).last_hidden_state) < 1e-5
    assert "classifier.weight" in ours.left_out


def test_what_the_config_of_a_part_leaves_out_has_the_default_of_its_class(transformers, tmp_path):
    text = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
    vision = WIDE | {"num_attention_heads": 12}
    theirs = saved(
        transformers, tmp_path, "CLIPModel", transformers.CLIPConfig(text_config=text, vision_config=vision)
    )
    config = json.loads((tmp_path / "config.json").read_text())
    config["vision_config"].pop("num_attention_heads", None)  # as some files have it: 12 is the default
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = load_backbone(tmp_path)
    want = theirs.get_image_features(pixel_values=X)
    assert ours.model.blocks[0].attn.num_heads == 12
    assert furthest(ours.project(ours.tokens(PICTURES)), getattr(want, "pooler_output", want)) < 1e-5


def test_pictures_that_are_not_normalised_or_not_in_0_to_1_are_read_as_their_file_says(
    transformers, tmp_path
):
    saved(transformers, tmp_path, "ViTModel", transformers.ViTConfig(**WIDE))
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({"do_normalize": False, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    assert (load_backbone(tmp_path).mean, load_backbone(tmp_path).std) == ((0.0,) * 3, (1.0,) * 3)
    path.write_text(json.dumps({"rescale_factor": 1.0}))
    with pytest.raises(ValueError, match=r"preprocessor_config\.json: pictures are not brought to 0\.\.1"):
        load_backbone(tmp_path)


# -- what the file cannot say is asked for


def test_all_that_a_file_cannot_say_is_asked_for_at_once():
    weights = our_vit().state_dict()
    with pytest.raises(ValueError) as error:
        build_backbone(weights)
    asked = str(error.value).partition("or give ")[2].split("; ")
    given = {"num_heads": 3, "img_size": 32, **GIVEN, "global_pool": "token"}
    assert [re.match(r"\w+", question)[0] for question in asked] == list(given)
    for name in given:
        with pytest.raises(ValueError, match=f"or give .*{name}"):
            build_backbone(weights, **{key: value for key, value in given.items() if key != name})
    assert build_backbone(weights, **given).family == "timm ViT"
    with pytest.raises(TypeError, match="num_head is nothing that can be given: use num_heads"):
        build_backbone(weights, **given, num_head=3)


@pytest.mark.parametrize("width", [192, 384, 768, 1152, 1280, 1408, 1664])
def test_no_width_of_timms_names_tells_the_number_of_heads(width):
    weights = {name: torch.zeros(1) for name in our_vit().state_dict()}
    weights["patch_embed.proj.weight"] = torch.zeros(width, 3, 8, 8)
    with pytest.raises(ValueError, match="give num_heads"):
        build_backbone(weights, **GIVEN, img_size=32)


def test_clip_and_siglip_of_timm_ask_for_the_activation():
    norm = {"norm_pre.weight": torch.ones(48), "norm_pre.bias": torch.zeros(48)}
    given = GIVEN | {"num_heads": 3, "img_size": 32, "global_pool": "token"}
    with pytest.raises(ValueError, match="or give act='gelu', 'quick_gelu'"):
        build_backbone(our_vit().state_dict() | norm, **given)
    found = build_backbone(our_vit().state_dict() | norm, **given, act="quick_gelu")
    assert (found.family, type(found.model.blocks[0].mlp.act).__name__) == ("timm CLIP", "QuickGELU")


def test_our_own_weights_say_themselves_what_belongs_to_them():
    found = load_backbone("cifar-vit")
    assert found.model.blocks[0].attn.num_heads == 6 and found.family == "this course"
    with pytest.raises(ValueError, match="num_heads: the file of a model of this course says that itself"):
        load_backbone("cifar-vit", num_heads=3)


# -- wrappers

WRAPPED = {
    "model": lambda w: {"model": w},
    "state_dict": lambda w: {"state_dict": w, "epoch": 3, "args": argparse.Namespace(lr=0.1)},
    "state_dict_ema": lambda w: {"state_dict_ema": w},
    "module.": lambda w: {f"module.{name}": value for name, value in w.items()},
    "_orig_mod.": lambda w: {f"_orig_mod.{name}": value for name, value in w.items()},
    "backbone. and a head": lambda w: (
        {f"backbone.{name}": v for name, v in w.items()} | {"decode.weight": torch.ones(2)}
    ),
    "module._orig_mod. in model": lambda w: {"model": {f"module._orig_mod.{n}": v for n, v in w.items()}},
    "an optimiser beside it": lambda w: {
        "model": w,
        "optimizer": {"state": {0: {"m": torch.ones(2)}}, "groups": [1]},
    },
    "visual.trunk.": lambda w: (
        {f"visual.trunk.{name}": v for name, v in w.items()} | {"text.weight": torch.ones(2)}
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_weights_are_taken_out_of_what_is_around_them(tmp_path, name):
    model = our_vit()
    torch.save(WRAPPED[name](model.state_dict()), tmp_path / "weights.pth")
    found = load_backbone(tmp_path / "weights.pth", **GIVEN, num_heads=3, img_size=32, global_pool="token")
    torch.testing.assert_close(found.model(X), model(X))
    assert found.left_out == {"b": ("decode.weight",), "v": ("text.weight",)}.get(name[0], ())


def test_of_several_sets_of_weights_one_has_to_be_named(tmp_path):
    model, average = our_vit(), spread(our_vit())
    torch.save(
        {"state_dict": model.state_dict(), "state_dict_ema": average.state_dict()}, tmp_path / "two.pth"
    )
    given = GIVEN | {"num_heads": 3, "img_size": 32, "global_pool": "token"}
    with pytest.raises(
        ValueError,
        match=r"several sets of weights: state_dict, state_dict_ema\. Say which: part='state_dict'",
    ):
        load_backbone(tmp_path / "two.pth", **given)
    found = load_backbone(tmp_path / "two.pth", part="state_dict_ema", **given)
    torch.testing.assert_close(found.model(X), average(X))
    towers = {
        f"module.{tower}_encoder.{n}": v
        for tower in ("base", "momentum")
        for n, v in model.state_dict().items()
    }
    with pytest.raises(ValueError, match="several sets of weights: base_encoder, momentum_encoder"):
        build_backbone(towers, **given)
    assert len(build_backbone(towers, part="base_encoder", **given).left_out) == len(model.state_dict())


# -- files that are no weights

BAD_FILES = {
    "an empty file": (b"", "is empty: fetch it again"),
    "a web page": (b"\n<!DOCTYPE html><html>", "is a web page, not weights"),
    "an LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "is a Git LFS pointer"),
    "a message of a server": (b'{"error": "Repository not found"}', "is JSON, not weights"),
    "a checkpoint of a run": (b"vit_course checkpoint 1\n0000", "is the checkpoint of a run"),
    "an array of NumPy": (b"\x93NUMPY\x01\x00", "is in a format that is not read here"),
    "something else": (b"hello, these are my weights", "is neither a safetensors file nor one of torch.save"),
    "half a safetensors file": (
        save({"a": torch.ones(999)})[:1000],
        "is damaged, or only the first part of a file",
    ),
    "a pickle of Python": (pickle.dumps({"model": print}, protocol=2), "holds more than weights"),
}


@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_weights_is_refused_in_our_words_whatever_its_ending(tmp_path, name, ending):
    content, message = BAD_FILES[name]
    path = tmp_path / f"weights{ending}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(f"weights{ending} {message}")) as error:
        load_backbone(path)
    assert "weights_only" not in str(error.value)


def test_half_a_file_of_torch_an_archive_of_numpy_and_a_whole_model_are_told_apart(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(our_vit().state_dict(), path)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(ValueError, match="only the first part of a file"):
        load_backbone(path)
    np.savez(tmp_path / "weights.npz", a=np.ones(3))
    with pytest.raises(ValueError, match=r"weights\.npz is an archive of NumPy \(JAX\)"):
        load_backbone(tmp_path / "weights.npz")
    torch.save(our_vit(), path)
    with pytest.raises(ValueError, match=r"holds more than weights \(vit_course\.vit\.VisionTransformer\)"):
        load_backbone(path)
    torch.save([torch.ones(3)], path)
    with pytest.raises(ValueError, match="they begin with list"):
        load_backbone(path)


@pytest.mark.parametrize(
    ("text", "message"), [("{", "it is not JSON"), ("[1]", "no object"), ('{"a": 1}', "neither timm's")]
)
def test_a_config_that_cannot_be_read_is_named(tmp_path, text, message):
    write(tmp_path, our_vit().state_dict())
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=rf"config\.json: {message}"):
        load_backbone(tmp_path)


@pytest.mark.parametrize(("axes", "what"), [(2, "pictures of any shape"), (5, "videos")])
def test_patches_of_other_than_pictures_are_refused(axes, what):
    weights = our_vit().state_dict() | {"patch_embed.proj.weight": torch.zeros(*[2] * axes)}
    with pytest.raises(ValueError, match=f"patch_embed.proj.weight has {axes} axes: it is for {what}"):
        build_backbone(weights, **GIVEN, num_heads=3, img_size=32)
