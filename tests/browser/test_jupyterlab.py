"""The course in JupyterLab, as a class sees it: what is clicked, typed and moved does what the text promises."""

import re
from pathlib import Path

import pytest

expect = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is missing: pip install playwright"
).expect

ROOT = Path(__file__).resolve().parents[2]

small_and_usual_screen = pytest.mark.parametrize("desk", [1024, 1440], indirect=True)


@small_and_usual_screen
def test_a_click_on_an_option_of_a_quiz_opens_its_reason_alone_and_hints_stay_closed_until_asked_for(desk):
    desk.open("notebooks/04_attention.ipynb")
    question = desk.cell("Your table of weights has columns that sum to 1")
    options = question.locator("details")
    options.nth(1).locator("summary").click()
    expect(options.nth(1)).to_contain_text("Right.")
    expect(options.nth(1).locator("strong")).to_be_visible()
    for closed in (0, 2):
        expect(options.nth(closed).locator("strong")).not_to_be_visible()
    hint = desk.cell("Exercise 4.1").locator("details").first
    expect(hint.locator("summary")).to_have_text("Hint 1")
    expect(hint.locator("p")).not_to_be_visible()
    hint.locator("summary").click()
    expect(hint.locator("p")).to_be_visible()


LOOKS = """() => {
  const style = (node, name) => getComputedStyle(node).getPropertyValue(name);
  const stub = [...document.querySelectorAll(".jp-CodeCell")].find(c => c.innerText.includes("Args:"));
  const text = [...stub.querySelectorAll(".cm-line span")].find(s => s.innerText.includes("Args:"));
  const widths = [...document.querySelectorAll(".jp-RenderedMarkdown > p")].map(p => p.clientWidth);
  return {docstring: style(text, "color"), widest: Math.max(...widths)};
}"""


@pytest.mark.parametrize("desk", [1600], indirect=True)
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_prose_has_lines_that_the_eye_can_follow_and_a_docstring_is_not_red(desk, theme):
    desk.open("notebooks/04_attention.ipynb")
    change = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
    desk.page.evaluate(change, f"JupyterLab {theme}")
    expect(desk.page.locator(f"body[data-jp-theme-light={str(theme == 'Light').lower()!r}]")).to_have_count(1)
    stub = desk.cell("def scaled_dot_product_attention")
    stub.scroll_into_view_if_needed()
    expect(stub.locator(".cm-line span", has_text="Args:").first).to_be_visible()
    looks = desk.page.evaluate(LOOKS)
    red, green, _ = map(int, re.findall(r"\d+", looks["docstring"])[:3])
    assert green > red and looks["widest"] < 760


@pytest.mark.parametrize("slug, exercise", [("04_attention", "4.3"), ("09_look_inside", "9.1")])
def test_the_solution_of_an_exercise_is_two_clicks_away(desk, slug, exercise):
    """The solved notebook opens where the exercise is, not at its top, and does so again when it is open already."""
    desk.open(f"notebooks/{slug}.ipynb")
    fold = desk.cell(f"Exercise {exercise}: ").locator("details", has_text="Solution")
    fold.locator("summary").click()
    for _ in ("not open yet", "open"):
        fold.get_by_role("link").click()
        desk.wait_for_front(f"solutions/{slug}.ipynb")
        heading = desk.front.locator("h3", has_text=f"Exercise {exercise}: ")
        expect(heading).to_be_in_viewport()
        desk.wait_until_whole()
        expect(heading).to_be_in_viewport()  # cells above that come later do not push it away
        desk.front.locator("h1").first.scroll_into_view_if_needed()
        expect(heading).not_to_be_in_viewport()
        desk.front.get_by_role("link", name=f"{exercise}: ").click()  # from the line of exercises at its top
        expect(heading).to_be_in_viewport()
        desk.open_beside(f"notebooks/{slug}.ipynb")


def test_a_wrong_answer_is_told_and_a_right_one_goes_on_as_ones_own(desk):
    desk.open("notebooks/01_patches.ipynb")
    exercise = desk.cell("def count_patches")
    desk.run_all_before(exercise)
    verdict = exercise.locator(".jp-OutputArea")
    desk.run(exercise)
    expect(verdict).to_contain_text("✎ not written yet")
    wrong = "print('so far:', patch_size)\n    return img_size // patch_size"
    desk.write(exercise, "raise NotImplementedError", wrong)
    desk.run(exercise)
    expect(verdict).to_contain_text("✗ not right yet")
    expect(verdict).to_contain_text("Your code printed:so far:")
    desk.write(exercise, wrong, "raise KeyError('forgotten')")
    desk.run(exercise)
    expect(verdict).to_contain_text("forgotten")
    rows = "rows, columns = grid_size(img_size, patch_size)\n    return rows * columns"
    desk.write(exercise, "raise KeyError('forgotten')", rows)
    desk.run(exercise)
    expect(verdict).to_contain_text("✓ right")


def test_the_table_of_attention_follows_the_numbers_that_are_typed(desk):
    desk.open("notebooks/04_attention.ipynb")
    table = desk.cell("edit_attention(queries, keys, values, names)")
    desk.run_all_before(table)
    desk.run(table)
    shown = table.locator(".jp-OutputArea")
    expect(shown).to_contain_text("q = (2, 2, 0, 0)")
    field = shown.locator("input[type=number]").first
    field.fill("7")
    field.press("Enter")
    expect(shown).to_contain_text("q = (7, 2, 0, 0)")
    shown.get_by_role("button", name="numbers of the lesson").click()
    expect(shown).to_contain_text("q = (2, 2, 0, 0)")
    shown.get_by_role("button", name="4. sum").click()
    expect(shown).to_contain_text("0.40 · (10, 0)")
    assert desk.wider_than_their_place(desk.front) == []


def test_a_slider_draws_at_both_of_its_ends(desk):
    desk.open("notebooks/05_encoder.ipynb")
    slider = desk.cell("plots.slider(draw_survivors")
    desk.run_all_before(slider)
    desk.run(slider)
    handle = slider.locator(".noUi-handle")
    expect(handle).to_have_count(1)  # for what the text names, and for no default of the drawing
    figure = slider.locator("img")
    first = figure.get_attribute("src")
    handle.press("End")
    expect(figure).not_to_have_attribute("src", first)
    handle.press("Home")
    expect(figure).to_have_attribute("src", first)
    expect(slider).not_to_contain_text("Error")


@small_and_usual_screen
def test_the_model_of_lesson_09_answers_what_is_clicked_hidden_and_drawn_and_keys_make_no_cells(desk):
    desk.open("notebooks/09_look_inside.ipynb")
    desk.run_all_before(desk.cell("Which patches reach CLS through all layers?"))  # its cell is folded
    shown = desk.front.locator(".jp-OutputArea", has=desk.page.locator(".picture .over"))
    expect(shown.locator(".says")).to_contain_text("It says")
    looks, picture = (shown.locator(f".{card} .over") for card in ("looks", "picture"))
    shown.locator("select").nth(1).select_option("mean")
    box = looks.bounding_box()
    for column in (1, 8):
        looks.click(position={"x": box["width"] * (column - 0.5) / 8, "y": 0.56 * box["height"]})
        expect(shown.get_by_text(f"The patch in row 5, column {column} looks most at")).to_be_visible()
    shown.get_by_text("▨ Hide patches").click()
    picture.click(position={"x": 5, "y": 5})
    expect(shown.get_by_text("1 patch hidden")).to_be_visible()
    cells = desk.front.locator(".jp-Cell").count()
    picture.press("b")
    assert desk.front.locator(".jp-Cell").count() == cells
    shown.get_by_text("✎ Draw").click()
    box = picture.bounding_box()
    desk.page.mouse.move(box["x"] + 60, box["y"] + 60)
    desk.page.mouse.down()
    for x, y in ((160, 60), (160, 160), (60, 160), (60, 60)):
        desk.page.mouse.move(box["x"] + x, box["y"] + y, steps=5)
    desk.page.mouse.up()
    expect(shown.locator(".says")).to_contain_text("It says square")
    shown.get_by_role("tab", name="Step by step").click()
    shown.get_by_role("button", name="step 4: Ask with q, k and v").click()
    expect(shown.get_by_text("q · k, the sum of the products")).to_be_visible()
    assert desk.wider_than_their_place(shown) == []


def test_the_first_lesson_asks_nothing_before_its_first_cell_and_runs_whole_with_nothing_written(desk):
    desk.open("notebooks/00_start_here.ipynb")
    desk.page.wait_for_timeout(3000)
    expect(desk.page.get_by_text("notified about official")).to_have_count(0)
    desk.wait_for_kernel()
    desk.command("notebook:run-all-cells")
    desk.wait_until_whole()
    for name in ("image_grid", "normalize"):
        verdict = desk.cell(f"def {name}(").locator(".jp-OutputArea")
        expect(verdict).to_contain_text("✎ not written yet")
    last = desk.cell("print(load_dataset().provenance)").locator(".jp-OutputArea")
    expect(last).to_contain_text("Shapes-10")
    assert desk.errors() == []
    assert desk.wider_than_their_place(desk.front) == []


def test_a_training_that_is_stopped_says_so_and_no_cell_below_runs(desk):
    """A quiet one, which shows its estimate and a bar while it runs; the bar stays where it was stopped."""
    desk.open("notebooks/07_train_cifar10.ipynb")
    training = desk.cell("repeated = TrainConfig(")
    desk.run_all_before(training)
    desk.write(training, "pick(smoke=2, cpu=60, gpu=60)", "pick(smoke=3000, cpu=3000, gpu=3000)")
    shown = training.locator(".jp-OutputArea")
    desk.begin("notebook:run-all-below")
    expect(shown).to_contain_text("about")
    expect(shown).to_contain_text("/12000")
    desk.command("notebook:interrupt-kernel")
    expect(shown).to_contain_text("STOPPED after step")
    expect(shown).not_to_contain_text("Traceback")
    desk.wait_for_kernel()
    below = desk.page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets
            .filter(cell => cell.model.type === 'code').map(cell => cell.model.sharedModel.execution_count)"""
    )
    assert below[below.index(None) :] == [None] * below.count(None) and below.count(None) > 10
    assert len(desk.errors()) == 1


def test_the_last_lesson_of_the_first_part_ends_in_a_gallery_of_what_the_model_says(desk):
    desk.open("notebooks/06_vision_transformer.ipynb")
    photo = desk.cell("my_photo = Path(")
    desk.run_all_before(photo)
    desk.run(photo)
    for words in ("Twelve test pictures", "The photo with"):
        picture = desk.front.locator(f"img[alt^='{words}']")
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("image => image.complete && image.naturalWidth > 200")
    assert desk.errors() == []
    assert desk.wider_than_their_place(desk.front) == []


def test_a_right_answer_is_kept_when_kernels_restart_and_becomes_a_part_of_the_model(desk):
    desk.open("notebooks/02_cls_token.ipynb")
    exercise = desk.cell("def prepend_cls_token")
    desk.run_all_before(exercise)
    desk.write(
        exercise,
        "raise NotImplementedError",
        """if tokens.shape[-1] != cls_token.shape[-1]:
        raise ValueError("the widths differ")
    return torch.cat([cls_token.expand(len(tokens), -1, -1), tokens], dim=1)""",
    )
    desk.run(exercise)
    expect(exercise.locator(".jp-OutputArea")).to_contain_text("✓ right")
    desk.open_beside("notebooks/06_vision_transformer.ipynb")
    parts = desk.cell("my_parts = use_my_answers()")
    for _ in range(2):
        desk.run_all_before(parts)
        desk.run(parts)
        # other tests of this server may have kept answers, too
        own = re.compile(r"own parts: [^.]*\bprepend_cls_token\b")
        expect(parts.locator(".jp-OutputArea")).to_contain_text(own)
        desk.restart()
        desk.command("notebook:clear-all-cell-outputs")
        expect(parts.locator(".jp-OutputArea")).not_to_contain_text("own parts")


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
def test_a_notebook_that_is_opened_and_saved_without_an_edit_keeps_every_byte(desk, folder):
    """Else an opened notebook would be saved by itself, and stand in the way of `git pull`."""
    first, *others = sorted(path.relative_to(ROOT) for path in (ROOT / folder).glob("*.ipynb"))
    desk.open(first.as_posix())
    for path in (first, *others):
        if path != first:
            desk.open_beside(path.as_posix())
        assert desk.save().read_bytes() == (ROOT / path).read_bytes(), path
        desk.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
