"""The laws of the house: what imports what, what the core holds, what is there once. Each is a test that can fail."""

import ast
import graphlib
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from vit_course import attention
from vit_course.vit import VisionTransformer

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "vit_course"
HOUSE = ("vit_course", "vit_classroom", "experiments", "authoring")
"""The top-level packages: each may import those before it, and nothing imports the last one."""
MODEL = ("patches", "embeddings", "attention", "encoder", "vit")
LIMIT_OF_CODE = 4_500
"""Lines of code of `vit_course`, which a student reads."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def python_files(*folders: str) -> list[Path]:
    """The Python files of folders, caches left out."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if path.parent.name != ".ipynb_checkpoints")


# -- law 1: arrows one way, between files, all imports counted


def imported_names(text: str) -> set[str]:
    """The full names of what a file imports, wherever the import stands, `import_module("name")` included."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in line {node.lineno}: write the full name"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return names


def module_name(path: Path) -> str:
    """The name of a module; that of a folder's `__init__.py` is the folder's."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def arrows() -> dict[str, set[str]]:
    """Each module of the house with the modules of the house that it imports."""
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in python_files(*HOUSE)}
    graph = {}
    for module, text in texts.items():
        found = set()
        for name in imported_names(text):
            while name and name not in texts:
                name = name.rpartition(".")[0]
            found |= {name} - {"", module}
        graph[module] = found
    return graph


def room(module: str) -> str:
    """The top-level package of a module."""
    return module.partition(".")[0]


def test_imports_are_counted_wherever_they_stand():
    text = (
        "import a.b\nfrom c import d\nif True:\n    import e\ndef f():\n    from g import h\n"
        'if __name__ == "__main__":\n    import i\n    import_module("j.k")\n'
    )
    assert imported_names(text) == {"a.b", "c.d", "e", "g.h", "i", "j.k"}
    with pytest.raises(AssertionError, match="relative import in line 1"):
        imported_names("from . import a")


def test_the_graph_knows_every_package():
    assert {room(module) for module in arrows()} == set(HOUSE)
    assert arrows()[f"{PACKAGE}.vit"] >= {f"{PACKAGE}.encoder", f"{PACKAGE}.patches"}


def wrong_arrows(wrong) -> list[str]:
    """The imports from one module of the house to another that a law forbids."""
    pairs = [(module, other) for module, others in arrows().items() for other in sorted(others)]
    return [f"{module} imports {other}" for module, other in pairs if wrong(module, other)]


def test_a_package_imports_only_those_before_it():
    assert wrong_arrows(lambda module, other: HOUSE.index(room(other)) > HOUSE.index(room(module))) == []


def test_the_library_knows_the_other_packages_by_no_name():
    others = re.compile(rf"^(?:from|import) (?:{'|'.join(HOUSE[1:])})\b", re.MULTILINE)
    texts = {module_name(path): path.read_text(encoding="utf-8") for path in python_files(PACKAGE)}
    assert len(texts) > 40 and [name for name, text in texts.items() if others.search(text)] == []


def test_no_module_but_an_exhibit_and_what_records_their_runs_imports_an_exhibit():
    may = ("vit_classroom.exhibits", "vit_classroom.evidence", "experiments")
    exhibits = "vit_classroom.exhibits."
    assert wrong_arrows(lambda module, other: other.startswith(exhibits) and not module.startswith(may)) == []


def test_the_packages_name_no_folder_of_a_lesson():
    folders = [path.name for path in (ROOT / "lessons").iterdir() if path.is_dir()]
    named = [
        f"{module_name(path)} names {folder}"
        for path in python_files("vit_classroom", "experiments")
        for folder in folders
        if folder in path.read_text(encoding="utf-8")
    ]
    assert folders and named == []


def test_no_lesson_and_no_package_imports_a_lesson_or_what_authors_use():
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in python_files("vit_course", "vit_classroom", "experiments", "lessons")
        for name in sorted(imported_names(path.read_text(encoding="utf-8")))
        if room(name) in ("authoring", "lessons", "tests")
    ]
    assert wrong == []


def test_files_import_each_other_in_no_circle():
    list(graphlib.TopologicalSorter(arrows()).static_order())


def test_the_atoms_of_the_model_know_nothing_of_each_other():
    assert {atom: arrows()[f"{PACKAGE}.{atom}"] for atom in ("patches", "embeddings", "attention")} == {
        "patches": set(),
        "embeddings": set(),
        "attention": set(),
    }


def test_the_model_stands_on_nothing_but_its_own_parts():
    assert arrows()[f"{PACKAGE}.encoder"] <= {f"{PACKAGE}.attention"}
    assert arrows()[f"{PACKAGE}.vit"] <= {f"{PACKAGE}.{part}" for part in MODEL}


def test_the_explainer_reads_no_source():
    paths = python_files("vit_classroom/checks/explain")
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert len(texts) > 5
    assert not [text for text in texts if re.search(r"\bast\b|getsource|linecache", text)]


def test_training_looks_nowhere_upward():
    """What a run is made of knows no lesson's trick, no recipe and no command: these are given to it."""
    below = {f"{PACKAGE}.{name}" for name in ("augment", "data", "encoder", "optim")}
    others = {
        other
        for module, found in arrows().items()
        if module.startswith(f"{PACKAGE}.training.")
        for other in found
        if not other.startswith((f"{PACKAGE}.training.", f"{PACKAGE}.data."))
    }
    assert others - {PACKAGE} <= below
    assert f"{PACKAGE}.optim" in others


def test_data_knows_no_model():
    models = {f"{PACKAGE}.{name}" for name in (*MODEL, "train", "interpret")}
    data = {module for module in arrows() if module.startswith(f"{PACKAGE}.data")} | {f"{PACKAGE}.augment"}
    assert {module: arrows()[module] & models for module in data if arrows()[module] & models} == {}


# -- law 2: the core stays the core


def lines_of_code(text: str) -> int:
    """Count lines that hold code: no blank lines, comments or docstrings."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE}
    silent |= {tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = {n for t in tokens if t.type not in silent for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def test_lines_of_code_are_counted_without_blanks_comments_and_docstrings():
    text = (
        '"""One\ntwo."""\n\n# three\nx = [\n    1,  # here\n]\n\n\ndef f():\n    """Four."""\n    return x\n'
    )
    assert lines_of_code(text) == 5


def test_the_five_files_of_the_model_hold_at_most_400_lines_of_code():
    texts = [(ROOT / PACKAGE / f"{name}.py").read_text(encoding="utf-8") for name in MODEL]
    assert sum(map(lines_of_code, texts)) <= 400


def test_the_library_is_small():
    counts = [lines_of_code(path.read_text(encoding="utf-8")) for path in python_files(PACKAGE)]
    assert 2_000 < sum(counts) <= LIMIT_OF_CODE
    top = [lines_of_code(path.read_text(encoding="utf-8")) for path in (ROOT / PACKAGE).glob("*.py")]
    assert len(top) <= 14 and sum(top) <= 1_400


def test_checks_whose_mistakes_are_data_are_readable_in_one_sitting():
    files = [path.with_name("checks.py") for path in (ROOT / "lessons").glob("*/mistakes.yaml")]
    lines = {path.parent.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert len(lines) >= 7 and {name: count for name, count in lines.items() if count > 600} == {}


def test_every_file_is_readable_in_one_sitting():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(*HOUSE)}
    assert {module_name(path): count for path, count in lines.items() if count > 500} == {}


def test_the_training_loop_fits_into_300_lines_and_calls_at_most_twelve_names_of_ours():
    text = (ROOT / PACKAGE / "train.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    (loop,) = (node for node in ast.parse(text).body if getattr(node, "name", "") == "train")
    called = {ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)}
    ours = {name for name in called if name.startswith("run.") or name in ("start_run", "evaluate")}
    assert 5 < len(ours) <= 12


@pytest.mark.parametrize("word", ["rel_pos", "entry_positions", "layer_pos", "pos_embed_at"])
def test_the_model_and_the_lessons_that_build_it_know_only_the_papers_positions(word):
    paths = [ROOT / PACKAGE / f"{name}.py" for name in MODEL]
    paths += [path for number in ("04", "05") for path in (ROOT / "lessons").glob(f"{number}_*/*.*")]
    assert len(paths) >= len(MODEL) + 6
    assert [path.name for path in paths if word in path.read_text(encoding="utf-8")] == []


# -- law 3: one pass


@pytest.fixture
def small_model():
    torch.manual_seed(0)
    model = VisionTransformer(16, 4, 3, 5, embed_dim=24, depth=3, num_heads=2, attn_drop_rate=0.5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # the head of a new model is zero, and hides all before it
    return model


@pytest.mark.parametrize("training", [False, True])
def test_to_return_the_attention_costs_one_attention_a_block(small_model, training, monkeypatch):
    calls = []

    def counted(name, function):
        return lambda *arguments, **options: (calls.append(name), function(*arguments, **options))[1]

    for block in small_model.blocks:
        block.attn.register_forward_hook(lambda module, inputs, output: calls.append("module"))
    for owner in (attention, F):
        name = "scaled_dot_product_attention"
        monkeypatch.setattr(owner, name, counted("attention", getattr(owner, name)))
    _, attentions = small_model.train(training)(torch.randn(2, 3, 16, 16), return_attention=True)
    assert sorted(calls) == ["attention"] * 3 + ["module"] * 3
    assert len(attentions) == 3


def test_in_evaluation_the_result_is_the_same_with_the_attention_and_without(small_model):
    images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    logits, _ = small_model.double().eval()(images, return_attention=True)
    torch.testing.assert_close(logits, small_model(images), rtol=0, atol=1e-12)


def test_in_training_the_attention_is_that_before_dropout(small_model):
    _, attentions = small_model.train()(torch.randn(2, 3, 16, 16), return_attention=True)
    for weights in attentions:
        assert (weights > 0).all()
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 17))


# -- law 5: what a lesson's first cell loads

FIRST_CELL = """
import json, sys
import matplotlib, torch
def settings():
    switches = (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)
    precision = torch.get_float32_matmul_precision()
    modes = torch.is_grad_enabled(), torch.are_deterministic_algorithms_enabled(), torch.get_default_dtype()
    random = torch.initial_seed(), torch.get_rng_state().tolist()
    return repr((switches, precision, modes, torch.get_num_threads(), random))
before = dict(matplotlib.rcParams), settings()
from vit_classroom import check, plots
plots.show
after = dict(matplotlib.rcParams), settings()
changed = sorted(key for key in after[0] if after[0][key] != before[0].get(key))
changed += ["torch"] * (before[1] != after[1])
facts = {"home": sys.modules["vit_classroom"].__file__, "changed": changed}
from vit_course.patches import count_patches
check(count_patches)
print(json.dumps(facts | {"after": sorted(name for name in sys.modules if name.startswith("lessons"))}))
"""


@pytest.fixture(scope="module")
def first_cell(tmp_path_factory):
    """What the first cell of a lesson loads and changes, in a process of its own, and what one check loads then."""
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "VIT_COURSE_ANSWERS": str(tmp_path_factory.mktemp("answers")),
    }
    run = subprocess.run([sys.executable, "-c", FIRST_CELL], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout.splitlines()[-1])
    assert Path(facts["home"]).is_relative_to(ROOT)
    return facts


def test_the_first_cell_of_a_lesson_changes_no_setting_of_matplotlib_or_torch(first_cell):
    assert first_cell["changed"] == []


def test_a_check_loads_the_checks_of_its_own_lesson_alone(first_cell):
    assert first_cell["after"] == ["lessons.01_patches.checks"]


# -- law 6: one of each


def test_there_is_one_function_that_reads_records_one_that_writes_captions_and_one_that_locates_data():
    defined = [
        node.name
        for path in python_files(*HOUSE, "lessons")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, DEFINITIONS)
    ]
    assert [defined.count(name) for name in ("load_records", "caption", "locate")] == [1, 1, 1]


# -- an exhibit is one lesson's, and the classroom is what several share


EXHIBITS = "vit_classroom.exhibits."


@cache
def used_by_lessons() -> dict[str, set[str]]:
    """Each module of the package with the numbers of the lessons whose text imports it."""
    users = {module: set() for module in arrows()}
    for path in python_files("lessons"):
        for name in imported_names(path.read_text(encoding="utf-8")):
            while name and name not in users:
                name = name.rpartition(".")[0]
            if name:
                users[name].add(path.parent.name[:2])
    return users


def exhibit(module: str) -> str:
    """The exhibit that a module belongs to: a file of `exhibits`, or a folder."""
    return ".".join(module.split(".")[:3])


def test_an_exhibit_is_used_by_one_lesson():
    users = {}
    for module, lessons in used_by_lessons().items():
        if module.startswith(EXHIBITS):
            users.setdefault(exhibit(module), set()).update(lessons)
    assert users.pop(f"{EXHIBITS}play") <= {"06", "09"}  # one view, first of the student's model, then of any
    assert users and {name: sorted(lessons) for name, lessons in users.items() if len(lessons) != 1} == {}


def test_an_exhibit_knows_no_other():
    def strangers(module, other):
        both = module.startswith(EXHIBITS) and other.startswith(EXHIBITS)
        return both and exhibit(module) != exhibit(other)

    assert wrong_arrows(strangers) == []


# -- law 7: functions that can be read


def long_functions(text: str, limit: int) -> dict[str, int]:
    """The functions of a file with more lines of code than the limit, docstrings not counted."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
            if len(lines) > limit:
                count = lines_of_code("\n".join(line[node.col_offset :] for line in lines))
                found |= {node.name: count} if count > limit else {}
    return found


def test_a_long_function_is_found_by_its_lines_of_code():
    text = (
        'class A:\n    def f(self):\n        """Two\n        lines."""\n\n        x = 1\n        return x\n'
    )
    assert long_functions(text, 2) == {"f": 3} and long_functions(text, 3) == {}


def test_no_function_has_more_than_60_lines_of_code():
    long = {
        f"{path.relative_to(ROOT)}: {name}": lines
        for path in python_files(*HOUSE, "lessons", "tests")
        if path.name != "answers.py"
        for name, lines in long_functions(path.read_text(encoding="utf-8"), 60).items()
    }
    assert long == {}
