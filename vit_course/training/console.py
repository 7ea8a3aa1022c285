"""What `train` shows and writes down of a run: a line before it, a bar, a log, a sentence at its end."""

import json
from pathlib import Path
from textwrap import fill
from typing import Any

from tqdm.auto import tqdm

from vit_course.training.kernel import kernel, somebody_looks
from vit_course.training.signals import Stopped

WIDTH = 90
"""Longer lines break inside words on a notebook's page."""
SHORT = 3 / 60
"""Minutes that need no bar, where a run is to show nothing else."""


def progress_bar(*given: Any, **options: Any) -> tqdm:
    """Return a bar of tqdm that goes when it is full, and is not there for nobody."""
    return tqdm(*given, **{"leave": False, "disable": not somebody_looks()} | options)


def earlier_lines(log: Path, epochs: int) -> list[str]:
    """Return the lines of a log up to the last epoch that is done, `epochs`; what a killed run wrote after it goes.

    Raises:
        ValueError: if one of them is missing or is not what was written.
    """
    kept: list[str] = []
    expected = None
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if epochs else ():
        try:
            epoch = json.loads(line)["epoch"]
        except (LookupError, TypeError, ValueError):
            break
        if expected not in (None, epoch):
            break
        kept.append(line)
        if epoch == epochs:
            return kept
        expected = epoch + 1
    if epochs:
        damaged = f"{log} is damaged at line {len(kept) + 1}, and {epochs} epochs are done"
        raise ValueError(f"{damaged}: delete it to go on without them")
    return kept


class Console:
    """Shows one run, and writes a JSON line an epoch to `log.jsonl`.

    Args:
        total_steps: steps of the whole run.
        folder: where the log is written; None writes none.
        epochs: epochs that are done already; later lines of an older log, of epochs that will run again, go.
        quiet: print nothing; in a notebook somebody who waits still sees a bar.
    """

    def __init__(self, total_steps: int, folder: Path | None, epochs: int, quiet: bool):
        self.folder, self.quiet, self.total_steps = folder, quiet, total_steps
        self.log = folder and folder / "log.jsonl"
        if self.log and self.log.exists():
            self.log.write_text("".join(earlier_lines(self.log, epochs)), encoding="utf-8")
        self.bar = tqdm(disable=True)

    @property
    def is_watched(self) -> bool:
        """Whether this run shows anything before its end."""
        return not self.quiet or bool(kernel() and somebody_looks())

    def announce(self, what: str, minutes: float, step: int) -> None:
        """Say what is about to run and how long that will take, and begin the bar below it, at a step."""
        time = f"about {minutes:.1f} minutes" if minutes >= 1 else f"about {max(1, round(60 * minutes))} s"
        options = {"total": self.total_steps, "initial": step, "unit": "step"}
        if not self.quiet:
            print(f"{what}, {time}")
            self.bar = progress_bar(**options)
        elif minutes > SHORT:
            self.bar = progress_bar(desc=time, **options)

    def advance(self) -> None:
        """Move the bar by a step."""
        self.bar.update()

    def end_epoch(self, line: dict[str, float]) -> None:
        """Show loss and accuracy of an epoch, and write its line to the log."""
        self.bar.set_postfix({name: f"{line[name]:.3f}" for name in ("loss", "accuracy")})
        if self.log:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Take the bar away."""
        self.bar.close()

    def conclude(self, history: Any, step: int, test_pictures: int) -> None:
        """Say in a sentence how the run ended.

        Raises:
            Stopped: if it did not come to its end.
        """
        if history.interrupted:
            again = f"go on with resume=True, folder={str(self.folder)!r}" if self.folder else "run it again"
            raise Stopped(f"after step {step} of {self.total_steps}: nothing is measured; {again}.")
        if self.quiet:
            return
        accuracy = f"test accuracy {100 * history.test_accuracy:.1f} % on {test_pictures:,} pictures"
        run = f"{history.config['epochs']:g} epochs in {history.seconds:.0f} s"
        print(f"{run}: training loss {history.train_loss[-1]:.3f}, {accuracy}")
        print(fill(f"({history.provenance})", WIDTH, subsequent_indent=" "))
