"""The commands that use a trained model: `python -m vit_course predict | evaluate | export`."""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from torch import Tensor

from vit_course.data import load_dataset
from vit_course.data.locate import PICTURES
from vit_course.extensions.shipping import export_onnx
from vit_course.extensions.trained import Trained, load_trained
from vit_course.inference import share_interval


def command(do: Callable[[argparse.Namespace, Trained], int]) -> Callable[[Sequence[str] | None], int]:
    """Turn a function of options and model into a command that reads the command line and returns the exit status."""

    def run(arguments: Sequence[str] | None = None) -> int:
        parser = argparse.ArgumentParser(f"python -m vit_course {do.__name__}", description=do.__doc__)
        parser.add_argument("model", help="the folder of a run, or a model of the course such as cifar-vit")
        for name, option in OPTIONS[do.__name__].items():
            parser.add_argument(name, **option)
        options = parser.parse_args(arguments)
        try:
            return do(options, load_trained(options.model))
        except (ValueError, OSError, ImportError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1

    return run


PICTURE_FILES = {"nargs": "+", "type": Path, "metavar": "IMAGE", "help": "image files, or folders of images"}
AS_CSV = {"action": "store_true", "help": "print the shares of all classes as a table in CSV"}
OPTIONS = {
    "predict": {"pictures": PICTURE_FILES, "--csv": AS_CSV},
    "evaluate": {"--data": {"default": "auto", "help": "auto, cifar10, shapes10 or a folder"}},
    "export": {"file": {"type": Path, "help": "for example model.onnx"}},
}


@command
def predict(options: argparse.Namespace, trained: Trained) -> int:
    """Classify images, and print the class of each with its share, and the next two classes."""
    paths = [path for given in options.pictures for path in files_in(given)]
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    if options.csv:
        write(["file", *trained.classes])
    unread = 0
    for path in paths:
        try:
            if not (path.exists() or path.is_symlink()):
                raise FileNotFoundError(f"there is no file {path}")
            (shares,) = trained.predict(path)
        except (ValueError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            unread = 1
            continue
        if options.csv:
            write([path, *(f"{share:.4f}" for share in shares.tolist())])
        else:
            print(f"{str(path):{max(len(str(one)) for one in paths)}}  {in_words(trained, shares)}")
    return unread


def files_in(given: Path) -> list[Path]:
    """Return a file, or all images in a folder and in the folders inside it, sorted; a line counts other files.

    Raises:
        FileNotFoundError: if there is no image in the folder.
    """
    if not given.is_dir():
        return [given]
    paths = [p for p in given.rglob("*") if not any(part[0] == "." for part in p.relative_to(given).parts)]
    found = sorted(path for path in paths if path.name.lower().endswith(PICTURES))
    others = Counter(p.suffix.lower() or "nameless" for p in {*paths} - {*found} if p.is_file())
    if files := ", ".join(f"{n} {kind} file{'s' * (n > 1)}" for kind, n in sorted(others.items())):
        print(f"Not read in {given}: {files}. Images are {', '.join(PICTURES)} files.", file=sys.stderr)
    if not found:
        raise FileNotFoundError(f"{given} contains no images ({', '.join(PICTURES)})")
    return found


def in_words(trained: Trained, shares: Tensor) -> str:
    """Write the three most probable classes with their shares."""
    pairs = sorted(zip(shares.tolist(), trained.classes, strict=True), reverse=True)
    return "   ".join(f"{name} {100 * share:.1f} %" for share, name in pairs[:3])


@command
def evaluate(options: argparse.Namespace, trained: Trained) -> int:
    """Classify the test images of a data set, and print how many are right in all and in each class."""
    dataset = load_dataset(options.data, image_size=trained.img_size)
    if dataset.classes != trained.classes:
        known, other = (", ".join(names) for names in (trained.classes, dataset.classes))
        raise ValueError(f"the model knows {known}, but the data set has {other}")
    images = dataset.test_images
    if images.shape[1] == 1:
        images = images.expand(-1, len(trained.info["mean"]), -1, -1)
    hits = trained.predict(images).argmax(dim=1) == dataset.test_labels
    low, high = share_interval(right := int(hits.sum()), len(hits))
    of = f"{right:,} of {len(hits):,} images (95 % interval {100 * low:.1f} to {100 * high:.1f} %)"
    print(f"test accuracy {100 * right / len(hits):.1f} %: {of}")
    for label, name in enumerate(trained.classes):
        own = hits[dataset.test_labels == label]
        print(f"  {name}: {int(own.sum())} of {len(own)}")
    return 0


@command
def export(options: argparse.Namespace, trained: Trained) -> int:
    """Write a model as ONNX, from uint8 images to shares of the classes, and compare its answers with torch."""
    if options.file.suffix.lower() != ".onnx":
        raise ValueError(f"{options.file} should end in .onnx, because export writes ONNX")
    difference = export_onnx(trained, options.file)
    shape = f"(N, {len(trained.info['mean'])}, {trained.img_size[0]}, {trained.img_size[1]})"
    size = f"{options.file.stat().st_size / 1e6:.1f} MB"
    print(f"{options.file}: {size}, `pictures` uint8 {shape} to `shares` (N, K)")
    told = f"onnxruntime and torch differ by {difference or 0:.1e} at most"
    print("not compared: pip install onnxruntime, and export again" if difference is None else told)
    return 0
