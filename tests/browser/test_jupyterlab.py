"""The course in JupyterLab, as a class sees it: what is clicked, typed and moved does what the text promises."""

import re

import pytest

expect = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is missing: pip install playwright"
).expect

small_screen = pytest.mark.parametrize("desk", [1024], indirect=True)


def test_a_click_on_an_option_of_a_quiz_opens_its_reason_and_no_other(desk):
    desk.open("notebooks/04_attention.ipynb")
    question = desk.cell("Your table of weights has columns that sum to 1")
    options = question.locator("details")
    options.nth(1).locator("summary").click()
    expect(options.nth(1)).to_contain_text("Right.")
    expect(options.nth(1).locator("strong")).to_be_visible()
    for closed in (0, 2):
        expect(options.nth(closed).locator("strong")).not_to_be_visible()


def test_hints_are_closed_until_they_are_asked_for(desk):
    desk.open("notebooks/04_attention.ipynb")
    hint = desk.cell("Exercise 4.1").locator("details").first
    expect(hint.locator("summary")).to_have_text("Hint 1")
    expect(hint.locator("p")).not_to_be_visible()
    hint.locator("summary").click()
    expect(hint.locator("p")).to_be_visible()


@small_screen
def test_the_solution_of_an_exercise_is_two_clicks_away(desk):
    desk.open("notebooks/04_attention.ipynb")
    fold = desk.cell("Exercise 4.2").locator("details", has_text="Solution")
    fold.locator("summary").click()
    fold.get_by_role("link").click()
    desk.wait_for_front("solutions/04_attention.ipynb")  # at its top: JupyterLab jumps only in what is open
    heading = desk.front.locator("h3", has_text="Exercise 4.2")
    heading.wait_for(state="attached")
    desk.front.get_by_role("link", name="4.2: ").click()
    expect(heading).to_be_in_viewport()


@small_screen
def test_a_solved_notebook_that_is_open_is_shown_at_the_exercise_that_links_to_it(desk):
    desk.open("solutions/04_attention.ipynb")
    desk.front.locator("h3", has_text="Exercise 4.2").wait_for(state="attached")
    desk.open_beside("notebooks/04_attention.ipynb")
    fold = desk.cell("Exercise 4.2").locator("details", has_text="Solution")
    fold.locator("summary").click()
    fold.get_by_role("link").click()
    desk.wait_for_front("solutions/04_attention.ipynb")
    expect(desk.front.locator("h3", has_text="Exercise 4.2")).to_be_in_viewport()


@small_screen
def test_nothing_is_asked_before_the_first_cell(desk):
    desk.open("notebooks/00_start_here.ipynb")
    desk.page.wait_for_timeout(3000)
    expect(desk.page.get_by_text("notified about official")).to_have_count(0)


@small_screen
def test_a_wrong_answer_is_told_and_a_right_one_goes_on_as_ones_own(desk):
    desk.open("notebooks/01_patches.ipynb")
    exercise = desk.cell("def count_patches")
    desk.run_all_before(exercise)
    verdict = exercise.locator(".jp-OutputArea")
    desk.run(exercise)
    expect(verdict).to_contain_text("[not written yet]")
    desk.write(exercise, "raise NotImplementedError", "return img_size // patch_size")
    desk.run(exercise)
    expect(verdict).to_contain_text("[not right yet]")
    desk.write(exercise, "return img_size // patch_size", "raise KeyError('forgotten')")
    desk.run(exercise)
    expect(verdict).to_contain_text("forgotten")
    rows = "rows, columns = grid_size(img_size, patch_size)\n    return rows * columns"
    desk.write(exercise, "raise KeyError('forgotten')", rows)
    desk.run(exercise)
    expect(verdict).to_contain_text("[right]")


@small_screen
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


@small_screen
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


@small_screen
def test_every_column_of_patches_in_the_explorer_can_be_clicked_on_a_small_screen(desk):
    desk.open("notebooks/09_look_inside.ipynb")
    explorer = desk.cell("explore(trained")
    desk.run_all_before(explorer)
    desk.run(explorer)
    shown = explorer.locator(".jp-OutputArea")
    patches = shown.locator("button[title^='patch']")
    columns = {}
    for patch in patches.all():
        if row_and_column := re.search(r"row (\d+), column (\d+)", patch.get_attribute("title")):
            columns.setdefault(int(row_and_column[2]), patch)
    assert len(columns) == 8
    for column, patch in columns.items():
        patch.click()
        expect(shown).to_contain_text(f"column {column}) gives")
