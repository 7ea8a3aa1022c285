"""The commands that use a trained model: `python -m vit_course predict | evaluate | export`."""

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from vit_course.beyond.shipping import export_onnx
from vit_course.beyond.trained import Trained, load_trained
from vit_course.beyond.use import share_interval
from vit_course.data import load_dataset
from vit_course.data.locate import PICTURES

ERRORS = (ValueError, OSError, ImportError)


def parser(name: str, what: str) -> argparse.ArgumentParser:
    """Make the parser of a command, which begins with a model."""
    made = argparse.ArgumentParser(prog=f"python -m vit_course {name}", description=what)
    made.add_argument("model", help="the folder of a run, or a model of the course such as cifar-vit")
    return made


def predict(arguments: Sequence[str] | None = None) -> int:
    """Say what is in pictures; return the exit status: 1 if one of them cannot be read."""
    made = parser("predict", "Say which class a model sees in pictures, with its share and the next two.")
    made.add_argument("pictures", nargs="+", type=Path, help="files, or folders with all that lies in them")
    made.add_argument("--csv", action="store_true", help="all classes, as values with commas between them")
    options = made.parse_args(arguments)
    try:
        trained = load_trained(options.model)
        paths = [path for given in options.pictures for path in files_in(given)]
    except ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    width = max(len(str(path)) for path in paths)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if options.csv:
        writer.writerow(["file", *trained.classes])
    unread = 0
    for path in paths:
        try:
            shares = trained.predict(path)[0]
        except ERRORS as error:
            print(f"error: {error}", file=sys.stderr)
            unread += 1
            continue
        if options.csv:
            writer.writerow([path, *(f"{share:.4f}" for share in shares.tolist())])
        else:
            print(f"{str(path):{width}}  {in_words(trained, shares)}")
    return int(unread > 0)


def files_in(given: Path) -> list[Path]:
    """Return a file, or all pictures in a folder and in the folders inside it, sorted.

    Raises:
        FileNotFoundError: if there is no such file, or no picture in the folder.
    """
    if not given.is_dir():
        if not given.exists():
            raise FileNotFoundError(f"{given} is not there")
        return [given]
    hidden = len(given.parts)
    found = sorted(
        path
        for path in given.rglob("*")
        if path.name.lower().endswith(PICTURES) and not any(part[0] == "." for part in path.parts[hidden:])
    )
    if not found:
        raise FileNotFoundError(f"{given} holds no pictures ({', '.join(PICTURES)})")
    return found


def in_words(trained: Trained, shares: torch.Tensor) -> str:
    """Name the three largest classes with their shares."""
    best = shares.topk(min(3, len(shares)))
    return "   ".join(
        f"{trained.classes[i]} {100 * share:.1f} %"
        for share, i in zip(best.values.tolist(), best.indices, strict=True)
    )


def evaluate(arguments: Sequence[str] | None = None) -> int:
    """Score a model on the test pictures of a data set; return the exit status."""
    made = parser("evaluate", "Score a model on the test pictures of a data set, class by class.")
    made.add_argument("--data", default="auto", help="auto, cifar10, shapes10 or a folder")
    options = made.parse_args(arguments)
    try:
        trained = load_trained(options.model)
        dataset = load_dataset(options.data, image_size=trained.img_size)
        if dataset.classes != trained.classes:
            raise ValueError(
                f"the model knows {', '.join(trained.classes)}; the data set has {', '.join(dataset.classes)}"
            )
        images = dataset.test_images
        if images.shape[1] == 1:
            images = images.expand(-1, len(trained.info["mean"]), -1, -1)
        hits = trained.predict(images).argmax(dim=1) == dataset.test_labels
    except ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    low, high = share_interval(int(hits.sum()), len(hits))
    print(
        f"test accuracy {100 * hits.float().mean():.1f} %: {int(hits.sum()):,} of {len(hits):,} pictures "
        f"(95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    )
    for label, name in enumerate(trained.classes):
        own = hits[dataset.test_labels == label]
        print(f"  {name}: {int(own.sum())} of {len(own)}")
    return 0


def export(arguments: Sequence[str] | None = None) -> int:
    """Write a model as ONNX and compare the two; return the exit status."""
    made = parser("export", "Write a model as ONNX: uint8 pictures in, shares of the classes out.")
    made.add_argument("file", type=Path, help="for example model.onnx")
    options = made.parse_args(arguments)
    try:
        trained = load_trained(options.model)
        difference = export_onnx(trained, options.file)
    except ERRORS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    height, width = trained.img_size
    print(
        f"{options.file}: {options.file.stat().st_size / 1e6:.1f} MB, reads `pictures`, uint8 "
        f"(N, {len(trained.info['mean'])}, {height}, {width}), returns `shares`, float32 (N, {len(trained.classes)})"
    )
    if difference is None:
        print("not compared: pip install onnxruntime, and export again")
    else:
        print(f"onnxruntime and torch differ by {difference:.1e} at most")
    return 0
