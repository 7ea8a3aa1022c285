"""The page "See it think" in a browser: what is drawn, dropped, clicked and typed does what the page promises."""

import functools
import http.server
import itertools
import math
import re
import threading
from pathlib import Path

import pytest

from authoring.notebooks.course import read_course
from authoring.site import book

expect = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is missing: pip install playwright"
).expect

ROOT = Path(__file__).resolve().parents[2]
ANSWERED = "count => document.getElementById('play')?.play?.times.length > count"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that writes nothing down."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The page without the book around it, and its address."""
    folder = tmp_path_factory.mktemp("site")
    book.write_play_alone(read_course(ROOT), folder)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()


class Visitor:
    """A page with the model in it, and what somebody does there."""

    def __init__(self, page, address, hash_=""):
        self.page, self.errors = page, []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(address + hash_)
        page.wait_for_function(ANSWERED, arg=0)
        self.picture, self.looks = (page.locator(f".{card} .over") for card in ("picture", "looks"))

    def settled(self):
        """Wait until nothing is asked any more; return the probability of each class."""
        classes, chances = self.page.evaluate(
            """async () => {
                const play = document.getElementById('play').play;
                await play.shown;
                await play.run();
                const { classes, probabilities } = play.answer();
                return [classes, probabilities];
            }"""
        )
        return dict(zip(classes, chances, strict=True))

    def says(self):
        chances = self.settled()
        return max(chances, key=chances.get)

    def draw(self, *lines):
        """Draw lines with the mouse; points are in -1..1, y upwards."""
        box = self.picture.bounding_box()
        for line in lines:
            for start, end in itertools.pairwise([line[0], *line]):
                for part in range(1, 5):
                    x, y = (a + (b - a) * part / 4 for a, b in zip(start, end, strict=True))
                    place = box["x"] + box["width"] * (1 + x) / 2, box["y"] + box["height"] * (1 - y) / 2
                    self.page.mouse.move(*place)
                    if start is end and part == 1:
                        self.page.mouse.down()
            self.page.mouse.up()

    def click_patch(self, canvas, row, column):
        box = canvas.bounding_box()
        place = {"x": box["width"] * (column - 0.5) / 8, "y": box["height"] * (row - 0.5) / 8}
        canvas.click(position=place)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def shown(self, text):
        return expect(self.page.get_by_text(text).first)


@pytest.fixture
def visit(browser, site, request):
    """A visitor on a screen of some width."""
    page = browser.new_page(viewport={"width": getattr(request, "param", 1280), "height": 900})
    yield Visitor(page, site)
    page.close()


def circle(radius, centre=(0, 0), start=0, end=360):
    angles = [math.radians(start + (end - start) * part / 30) for part in range(31)]
    return [(centre[0] + radius * math.cos(a), centre[1] + radius * math.sin(a)) for a in angles]


def star(count=5):
    tips = [math.radians(90 + 180 * part / count) for part in range(2 * count + 1)]
    return [
        (r * math.cos(a), r * math.sin(a)) for a, r in zip(tips, itertools.cycle((0.6, 0.25)), strict=False)
    ]


SQUARE = [(-0.4, 0.4), (0.4, 0.4), (0.4, -0.4), (-0.4, -0.4), (-0.4, 0.4)]
DRAWN = {
    "arrow": [[(-0.55, 0), (0.3, 0)], [(0.05, 0.42), (0.55, 0), (0.05, -0.42), (0.05, 0.42)]],
    "circle": [circle(0.5)],
    "crescent": [circle(0.52, start=54, end=306) + circle(0.44, (0.27, 0), start=283, end=77)],
    "cross": [[(-0.5, 0), (0.5, 0)], [(0, 0.5), (0, -0.5)]],
    "diamond": [[(0, 0.55), (0.4, 0), (0, -0.55), (-0.4, 0), (0, 0.55)]],
    "heart": [
        [(0, 0.3), *circle(0.28, (0.26, 0.22), 140, -40), (0, -0.52), *circle(0.28, (-0.26, 0.22), 220, 40)]
    ],
    "ring": [circle(0.5), circle(0.22)],
    "square": [SQUARE],
    "star": [star()],
    "triangle": [[(0, 0.5), (0.52, -0.42), (-0.52, -0.42), (0, 0.5)]],
}


def test_at_least_seven_of_ten_drawn_shapes_are_recognised_and_the_star_is_one(visit):
    said = {}
    for name, lines in DRAWN.items():
        visit.button("New").click()
        visit.draw(*lines)
        said[name] = visit.says()
    assert said["star"] == "star" and sum(name == answer for name, answer in said.items()) >= 7, said
    assert visit.errors == []


def test_a_ring_is_drawn_with_a_thick_line_and_its_hole_can_be_undone(visit):
    visit.page.get_by_text("Thick line").click()
    visit.draw(circle(0.45))
    visit.shown("It says ring")
    visit.page.get_by_text("Solid shape").click()
    visit.button("New").click()
    visit.draw(circle(0.5), circle(0.22))
    visit.shown("It says ring")
    visit.button("Undo").click()
    visit.shown("It says circle")


def test_a_dropped_photo_is_answered_by_the_other_model_and_goes_nowhere(browser, site):
    page, asked = browser.new_page(), []
    page.on("request", lambda request: asked.append((request.method, request.url)))
    visitor = Visitor(page, site)
    page.evaluate(
        """async () => {
            const canvas = Object.assign(document.createElement('canvas'), {width: 300, height: 200});
            const pen = canvas.getContext('2d');
            pen.fillStyle = '#88bbee'; pen.fillRect(0, 0, 300, 200);
            pen.fillStyle = '#335577'; pen.fillRect(0, 130, 300, 70);
            const blob = await new Promise(done => canvas.toBlob(done, 'image/png'));
            const given = new DataTransfer();
            given.items.add(new File([blob], 'sea.png', {type: 'image/png'}));
            const stage = document.getElementById('play').shadowRoot.querySelector('.stage');
            stage.dispatchEvent(new DragEvent('drop', {dataTransfer: given, bubbles: true, cancelable: true}));
        }"""
    )
    expect(page.locator(".bar").filter(has_text="airplane")).to_be_visible()
    assert set(visitor.settled()) >= {"ship", "truck"}
    expect(page.locator("#tab-walk")).to_be_enabled()
    of_the_photo = visitor.settled()
    page.get_by_text("✎ Draw").click()  # a drawing takes its place
    visitor.draw(*DRAWN["star"])
    assert visitor.says() == "star"
    visitor.button("your photo").click()
    expect(page.locator(".bar").filter(has_text="airplane")).to_be_visible()
    assert visitor.settled() == pytest.approx(of_the_photo, abs=1e-5)
    assert visitor.button("your photo").get_attribute("aria-pressed") == "true"
    assert {method for method, _ in asked} == {"GET"}
    assert {url.split("/")[2] for _, url in asked if "//" in url} == {site.split("/")[2]}
    assert [url for _, url in asked if url.endswith("cifar-vit.safetensors")] != []
    page.close()


def test_the_large_model_is_not_loaded_before_a_photo_is_chosen(visit):
    loaded = visit.page.evaluate("() => performance.getEntriesByType('resource').map(one => one.name)")
    assert not any("cifar-vit" in name for name in loaded)


def test_a_click_asks_a_patch_and_cls_can_be_asked_again(visit):
    visit.page.locator("select").nth(1).select_option("mean")
    visit.click_patch(visit.looks, 3, 5)
    visit.shown("The patch in row 3, column 5 looks most at")
    visit.page.locator("select").nth(0).select_option("2")
    visit.page.locator("select").nth(1).select_option("1")
    visit.shown("CLS gets")
    visit.button("CLS").click()
    visit.shown("CLS looks most at")


def test_each_what_if_moves_the_bars_is_named_and_can_be_undone(visit):
    whole = visit.settled()
    visit.page.get_by_role("tab", name="What if?").click()
    for act, named in (
        ("Hide the 8 it looks at most", "8 patches hidden"),
        ("Shuffle the patches", "patches shuffled"),
        ("Positions off", "positions off"),
        ("switch off layer 5, head 2", "1 head off"),
    ):
        visit.button(act).click()
        visit.shown(named)
        assert max(abs(x - whole[name]) for name, x in visit.settled().items()) > 0.001, act
        visit.page.get_by_role("button", name=f"{named}: undo").click()
        assert visit.settled() == pytest.approx(whole, abs=1e-6)
    visit.page.get_by_text("▨ Hide patches").click()
    visit.click_patch(visit.picture, 4, 4)
    visit.shown("1 patch hidden")


def test_hiding_each_patch_alone_finds_one_that_the_answer_needs(visit):
    visit.page.get_by_role("tab", name="What if?").click()
    visit.button("Which patch does it need? Hide each alone").click()
    visit.shown("Yellow is the largest fall")
    text = visit.page.get_by_text("Yellow is the largest fall").inner_text()
    row, column = map(int, re.search(r"row (\d), column (\d)", text).groups())
    before, after = map(int, re.search(r"from (\d+)\s% to (\d+)\s%", text).groups())
    assert round(100 * visit.settled()["star"]) == before > after
    visit.page.get_by_text("▨ Hide patches").click()
    visit.click_patch(visit.picture, row, column)
    visit.shown("1 patch hidden")
    assert round(100 * visit.settled()["star"]) == after


def test_what_an_image_needs_is_not_said_of_another_one_but_stays_while_its_patches_are_hidden(visit):
    visit.page.get_by_role("tab", name="What if?").click()
    visit.button("Which patch does it need? Hide each alone").click()
    visit.shown("Yellow is the largest fall")
    visit.page.get_by_text("▨ Hide patches").click()
    visit.click_patch(visit.picture, 4, 4)
    visit.shown("1 patch hidden")
    visit.shown("Yellow is the largest fall")
    visit.button("sample: arrow").click()
    visit.shown("It says arrow")
    assert visit.page.get_by_text("Yellow is the largest fall").count() == 0


def test_undo_keeps_a_sample_and_an_answer_comes_back_after_an_error(visit):
    visit.button("Undo").click()
    visit.shown("It says star")
    visit.page.evaluate("() => document.getElementById('play').play.load(new Blob(['no image']))")
    visit.shown("This file is not an image")
    visit.settled()
    visit.shown("It says star")


def test_a_selected_control_shows_the_focus_too(visit):
    look = """() => {
        const one = document.getElementById('play').shadowRoot.activeElement, style = getComputedStyle(one);
        return [one.ariaLabel ?? '', one.ariaPressed, style.outlineStyle, style.outlineWidth];
    }"""
    visit.page.get_by_role("tab", name="All layers and heads").click()
    seen = []
    visit.picture.focus()
    for _ in range(70):
        visit.page.keyboard.press("Tab")
        if not visit.page.evaluate("() => document.getElementById('play').shadowRoot.activeElement !== null"):
            break
        name, pressed, *outline = visit.page.evaluate(look)
        if pressed == "true":
            seen.append(name)
            assert outline == ["solid", "3px"], name
    assert {"sample: star", "layer 6, rollout"} <= set(seen)


def test_without_positions_the_order_of_the_patches_makes_no_difference(visit):
    visit.page.get_by_role("tab", name="What if?").click()
    visit.button("Positions off").click()
    ordered = visit.settled()
    visit.button("Shuffle the patches").click()
    assert visit.settled() == pytest.approx(ordered, abs=1e-5)


def test_the_walk_has_seven_steps_of_at_most_sixty_words_with_a_figure_a_lesson_and_the_engine_s_lines(visit):
    for step in range(1, 8):
        visit.page.get_by_role("button", name=re.compile(f"^step {step}:")).click()
        words = visit.page.locator(".words > p").first.inner_text()
        assert 20 <= len(words.split()) <= 60, words
        expect(visit.page.locator(".shown").locator("canvas, table").first).to_be_visible()
        link = visit.page.locator(".words a").get_attribute("href")
        assert (ROOT / link.replace(".html", ".ipynb")).is_file()
        assert f"// step {step}:" in visit.page.locator("pre").text_content()


def test_everything_can_be_done_with_the_keyboard_alone(visit):
    page, seen = visit.page, []
    active = """() => {
        const found = document.getElementById('play').shadowRoot.activeElement;
        return found && (found.ariaLabel || found.textContent || found.value || found.id);
    }"""
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(active)
        seen.append(name)
        if name == "sample: heart":
            page.keyboard.press("Enter")
            visit.shown("It says heart")
        if name and name.startswith("Where the model looks"):
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowDown")
            visit.shown("the patch in row 2, column 1")
        if name == "Step by step":
            page.keyboard.press("ArrowRight")
            expect(page.get_by_role("tab", name="All layers and heads")).to_be_focused()
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            break
    assert page.evaluate("() => document.getElementById('play').play.state.layer") == 1
    page.get_by_text("▨ Hide patches").click()
    visit.picture.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press(" ")
    visit.shown("1 patch hidden")
    first = [
        next(i for i, name in enumerate(seen) if name and start in name)
        for start in ("The image.", "sample:", "Where the", "Step by")
    ]
    assert first == sorted(first)  # a screen reader meets image, samples, map and panels in this order


@pytest.mark.parametrize("visit", [390, 768, 1440], indirect=True)
def test_no_panel_is_wider_than_the_page(visit):
    for sample, answer in (("star", "star"), ("painted ship", "ship")):  # the model for photos has more heads
        visit.button(f"sample: {sample}").click()
        visit.shown(f"It says {answer}")
        for tab in ("Step by step", "All layers and heads", "What if?", "Block by block"):
            visit.page.get_by_role("tab", name=tab).click()
            visit.settled()
            wide, screen = visit.page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
            assert wide <= screen, (sample, tab)
            boards = visit.page.locator(".grid")
            cut = "boards => boards.some(one => one.scrollWidth > one.clientWidth)"
            assert not boards.evaluate_all(cut), (sample, tab)


def test_a_finger_draws_too(browser, site):
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    visitor = Visitor(context.new_page(), site)
    visitor.draw(SQUARE)
    visitor.shown("It says square")
    visitor.looks.tap()
    visitor.shown("The patch in row 5, column 5")
    context.close()


def test_the_address_brings_the_same_picture_and_the_same_changes(visit, browser, site):
    visit.draw(star())
    visit.page.get_by_role("tab", name="What if?").click()
    visit.button("Hide the 8 it looks at least").click()
    visit.button("switch off layer 2, head 1").click()
    visit.page.locator("select").nth(0).select_option("3")
    chances = visit.settled()
    address = visit.page.evaluate("() => document.getElementById('play').play.address()")
    other = browser.new_page()
    again = Visitor(other, site, address)
    assert again.settled() == pytest.approx(chances, abs=1e-6)
    assert again.page.evaluate("() => document.getElementById('play').play.address()") == address
    again.shown("8 patches hidden")
    other.close()


def contrast(first, second):
    """The contrast of two colours [r, g, b] by WCAG 2."""

    def light(colour):
        parts = [x / 255 for x in colour]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(first), light(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_a_contrast_of_at_least_four_and_a_half(browser, site, scheme):
    page = browser.new_page(color_scheme=scheme)
    visitor = Visitor(page, site)
    for tab in ("Step by step", "All layers and heads", "What if?", "Block by block"):
        page.get_by_role("tab", name=tab).click()
        visitor.settled()
        page.wait_for_timeout(300)
        found = page.evaluate(
            """() => {
                const pen = Object.assign(document.createElement('canvas'), {width: 1, height: 1})
                    .getContext('2d', {willReadFrequently: true});
                const rgb = (colours) => {
                    pen.fillStyle = matchMedia('(prefers-color-scheme: dark)').matches ? '#121212' : '#fff';
                    pen.fillRect(0, 0, 1, 1);
                    for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
                    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
                };
                const root = document.getElementById('play').shadowRoot;
                return [...root.querySelectorAll('*')]
                    .filter((one) => [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
                    .filter((one) => one.checkVisibility() && one.tagName !== 'STYLE')
                    .filter((one) => !one.closest(':disabled, .hint'))
                    .map((one) => {
                        const grounds = [];
                        for (let up = one; up; up = up.parentElement)
                            grounds.unshift(getComputedStyle(up).backgroundColor);
                        const text = rgb([...grounds, getComputedStyle(one).color]);
                        return [one.textContent.slice(0, 30), text, rgb(grounds)];
                    });
            }"""
        )
        faint = {text: contrast(*colours) for text, *colours in found if contrast(*colours) < 4.5}
        assert len(found) > 40 and faint == {}
    page.close()
