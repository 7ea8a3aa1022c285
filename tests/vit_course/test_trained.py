"""From a run to a model that is used: what `train --out` leaves, and what is done with it from Python."""

import json
from dataclasses import replace

import pytest
import torch
from PIL import Image

from vit_course.data import load_dataset, normalize
from vit_course.extensions.backbone import load_backbone
from vit_course.extensions.train_command import main as train_command
from vit_course.extensions.trained import load_trained, trained_names, write_trained
from vit_course.extensions.transfer import add_low_rank, merge_low_rank, normalised_as, replace_head
from vit_course.recipes import build_model
from vit_course.train import TrainConfig, train
from vit_course.vit import VisionTransformer

KINDS = ("disc", "flat", "stripes")


def draw(kind, number, size, mode="RGB"):
    """Draw a small photo of a kind, each a little different."""
    generator = torch.Generator().manual_seed(number)
    height, width = size
    y, x = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    form = {
        "disc": (x**2 + y**2 < 0.4).float(),
        "flat": torch.zeros_like(x),
        "stripes": (x * 6).sin().gt(0).float(),
    }
    colour = 0.5 + 0.5 * torch.rand(3, 1, 1, generator=generator)
    picture = (
        0.2 + 0.7 * form[kind] * colour + 0.05 * torch.randn(3, height, width, generator=generator)
    ).clamp(0, 1)
    pixels = (255 * picture).byte().permute(1, 2, 0).numpy()
    return Image.fromarray(pixels).convert(mode)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of photos of mixed sizes and kinds of files."""
    folder = tmp_path_factory.mktemp("mine") / "photos"
    for half, count in (("train", 12), ("test", 4)):
        for kind in KINDS:
            (folder / half / kind).mkdir(parents=True)
            for number in range(count):
                size = [(20, 30), (40, 24), (32, 32)][number % 3]
                mode, ending = [("RGB", "jpg"), ("RGBA", "png"), ("L", "JPG"), ("RGB", "png")][number % 4]
                draw(kind, 100 * count + number, size, mode).save(folder / half / kind / f"{number}.{ending}")
    return folder


@pytest.fixture(scope="module")
def run(photos, tmp_path_factory):
    """The folder of a run on the photos."""
    folder = tmp_path_factory.mktemp("run")
    line = f"--data {photos} --image-size 16 --model Nano/4 --pool avg --drop-path 0.1 --recipe adamw"
    line += f" --epochs 15 --batch-size 12 --ema 0.5 --device cpu --seed 3 --out {folder}"
    assert train_command(line.split()) == 0
    return folder


def test_a_run_leaves_the_model_that_was_scored_and_all_that_belongs_to_it(run, photos):
    trained = load_trained(run)
    dataset = load_dataset(photos, image_size=16)
    shares = trained.predict(dataset.test_images)
    right = (shares.argmax(dim=1) == dataset.test_labels).float().mean().item()
    record = json.loads((run / "record.json").read_text())
    assert right == pytest.approx(record["test_accuracy"])  # the averaged weights, as they were scored
    assert trained.classes == KINDS and trained.img_size == (16, 16)
    told = {"recipe": "adamw", "model": "Nano/4", "options": {"drop_path_rate": 0.1, "global_pool": "avg"}}
    assert (
        record.items() >= told.items()
        and record["code"]
        and record["arguments"][:2] == ["--data", str(photos)]
    )
    assert json.loads((run / "config.json").read_text()) == record
    assert torch.allclose(torch.tensor(trained.info["mean"]), dataset.channel_stats()[0])
    assert trained.model.global_pool == "avg" and not trained.model.training
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(len(shares)))


def test_a_photo_is_read_as_the_training_read_it(run, photos):
    trained, dataset = load_trained(run), load_dataset(photos, image_size=16)
    files = sorted((photos / "test" / "disc").iterdir())
    torch.testing.assert_close(trained.predict(files), trained.predict(dataset.test_images[: len(files)]))
    torch.testing.assert_close(trained.predict(files[0]), trained.predict(str(files[0])))
    with pytest.raises(ValueError, match=r"torch.float32 \(1, 3, 16, 16\): give uint8 in 0..255"):
        trained.predict(torch.zeros(1, 3, 16, 16))
    with pytest.raises(ValueError, match="cannot read the picture"):
        trained.predict(run / "record.json")


def test_names_of_classes_may_be_changed_in_the_config_and_nonsense_there_is_named(run, tmp_path):
    trained = load_trained(run)
    write_trained(tmp_path, trained.model, trained.info)
    (tmp_path / "config.json").write_text(json.dumps(trained.info | {"classes": ["a", "b", "c"]}))
    assert load_trained(tmp_path).classes == ("a", "b", "c")
    for damaged in ("{", json.dumps(trained.info | {"classes": ["a"]}), "{}"):
        (tmp_path / "config.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"config\.json does not describe the weights beside it"):
            load_trained(tmp_path)
    with pytest.raises(FileNotFoundError, match="no trained model .* is here; there are: cifar-vit"):
        load_trained(tmp_path / "nothing")
    assert {"cifar-vit", "shapes-vit"} <= set(trained_names())


MODELS = [("Nano/4", {"pos_embed": "2d"}), ("R-Nano/8", {}), ("resnet-small", {"width": 8}), ("linear", {})]
MODELS += [
    ("Nano/4", {"modern": {"rope": True, "registers": 2}, "pos_embed": "none"}),
    ("Nano/8", {"mlp_ratio": 2}),
]


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_every_kind_of_model_comes_back_from_its_file(name, options, photos, tmp_path):
    dataset = load_dataset(photos, image_size=16)
    torch.manual_seed(0)
    model = build_model(name, dataset, **options).eval()
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    mean, std = (values.tolist() for values in dataset.channel_stats())
    info = {
        "model": name,
        "options": options,
        "img_size": [16, 16],
        "classes": KINDS,
        "mean": mean,
        "std": std,
    }
    write_trained(tmp_path, model, info)
    loaded = load_trained(tmp_path)
    x = normalize(dataset.test_images, mean, std)
    torch.testing.assert_close(loaded.model(x), model(x))
    torch.testing.assert_close(loaded.predict(dataset.test_images), model(x).softmax(dim=1))


# -- to another task


def test_pictures_for_trained_weights_are_normalised_by_the_statistics_of_the_weights(photos):
    dataset = load_dataset(photos, image_size=16)
    other = normalised_as(dataset, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    assert [value.tolist() for value in other.channel_stats()] == [
        pytest.approx(v) for v in ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    ]
    one = {half: getattr(dataset, half)[:, :1] for half in ("train_images", "test_images")}
    grey = normalised_as(replace(dataset, **one), (0.5,) * 3, (0.5,) * 3)
    assert grey.train_images.shape[1] == 3 and torch.equal(
        grey.train_images[:, 0], dataset.train_images[:, 0]
    )


def test_low_rank_additions_change_nothing_at_first_learn_alone_and_are_merged_into_a_plain_model(photos):
    dataset = load_dataset(photos, image_size=16)
    torch.manual_seed(0)
    model = replace_head(VisionTransformer(16, 4, 3, 10, 24, 2, 2), 3).eval()
    names, x = list(model.state_dict()), torch.randn(2, 3, 16, 16)
    before, old = model(x), {name: value.clone() for name, value in model.state_dict().items()}
    tokens = model.encode(model.patch_embed(x))
    add_low_rank(model, rank=2)
    torch.testing.assert_close(model.encode(model.patch_embed(x)), tokens)
    learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (
        learning == 2 * (2 * (24 + 72) + 2 * (24 + 24)) + 24 * 3 + 3
    )  # A and B of qkv and proj, and the head
    train(model, dataset, TrainConfig(epochs=2, batch_size=12, lr=1e-2, quiet=True, device="cpu"))
    after = model(x)
    merge_low_rank(model)
    assert sorted(model.state_dict()) == sorted(names)
    torch.testing.assert_close(model(x), after)
    assert not torch.allclose(after, before)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, old[name])}
    assert changed == {f"blocks.{i}.attn.{part}.weight" for i in (0, 1) for part in ("qkv", "proj")} | {
        "head.weight", "head.bias",
    }  # fmt: skip


@pytest.mark.parametrize("tune", [[], ["--tune", "head"], ["--tune", "lora"]])
def test_a_shipped_model_is_tuned_to_photos_and_comes_back_with_its_own_statistics(photos, tmp_path, tune):
    line = f"--from cifar-vit --data {photos} --epochs 1 --batch-size 6 --device cpu --out {tmp_path}"
    assert train_command([*line.split(), *tune]) == 0
    trained, source = load_trained(tmp_path), load_backbone("cifar-vit")
    assert trained.info["mean"] == pytest.approx(source.mean) and trained.classes == KINDS
    assert trained.model.head.weight.shape == (3, 192) and trained.img_size == (32, 32)
    body = {name: value for name, value in source.model.state_dict().items() if not name.startswith("head")}
    same = [name for name, value in body.items() if torch.equal(value, trained.model.state_dict()[name])]
    assert len(same) == {"head": len(body), "lora": len(body) - 16}.get((tune or [""])[-1], 0)
    again = load_backbone(tmp_path)  # and can be the start of the next
    assert again.img_size == (32, 32) and again.model.blocks[0].attn.num_heads == 6
