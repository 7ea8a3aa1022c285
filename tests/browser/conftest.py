"""JupyterLab on a copy of the lessons, and a page of Chromium in which a test clicks as a student would."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 240
"""How long a cell may take on a busy machine before a test gives up."""


def pytest_collection_modifyitems(items):
    """These tests run once a week: they need a browser, and minutes."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.weekly)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """Start JupyterLab, as `make lab` sets it up, on a copy of the lessons; yield its address, token and folder."""
    pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    folder = tmp_path_factory.mktemp("lab")
    for name in ("notebooks", "solutions", "docs"):
        shutil.copytree(ROOT / name, folder / name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        f"{name}_DIR": str(folder / name) for name in ("JUPYTER_CONFIG", "JUPYTER_DATA", "JUPYTER_RUNTIME")
    }
    (folder / "JUPYTER_CONFIG" / "custom").mkdir(parents=True)
    shutil.copy(ROOT / "authoring/jupyterlab/jupyter_server_config.py", folder / "JUPYTER_CONFIG")
    shutil.copy(ROOT / "authoring/jupyterlab/custom.css", folder / "JUPYTER_CONFIG" / "custom")
    controls = Path(sys.prefix) / "share/jupyter/labextensions/@jupyter-widgets"
    assert controls.is_dir(), f"JupyterLab of this environment shows no sliders: {controls} is missing"
    environment |= {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder / "ipython"), "VIT_COURSE_WIDGETS": "1"}
    environment |= {"VIT_COURSE_ANSWERS": str(folder / "answers"), "VIT_COURSE_PROFILE": "smoke"}
    environment |= {"VIT_COURSE_DATA": "shapes10"}
    token = secrets.token_hex()
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={folder}"]
    command += [
        "--LabApp.expose_app_in_browser=True",
        f"--LabApp.app_settings_dir={ROOT / 'authoring/jupyterlab'}",
    ]
    with open(folder / "log.txt", "w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/api?token={token}", server)
        yield f"http://127.0.0.1:{port}", token, folder
    finally:
        server.terminate()
        server.wait(timeout=SECONDS)


def wait_for(address, server):
    """Wait until a server answers."""
    for _ in range(SECONDS):
        assert server.poll() is None, "JupyterLab has stopped"
        try:
            return urllib.request.urlopen(address)
        except OSError:
            time.sleep(1)
    raise TimeoutError("JupyterLab does not answer")


@pytest.fixture(scope="session")
def browser():
    """Start Chromium: one that is installed, or else Playwright's own."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install playwright")
    api.expect.set_options(timeout=1000 * SECONDS)
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with api.sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except api.Error as error:
            pytest.skip(f"Chromium is missing: playwright install chromium ({str(error).splitlines()[0]})")
        yield chromium
        chromium.close()


class Desk:
    """A page with JupyterLab, and what a student does there."""

    def __init__(self, page, lab):
        self.page, (self.address, self.token, self.folder) = page, lab

    def open(self, path):
        """Open a notebook in a workspace of its own, and wait until it is shown."""
        place = f"/lab/workspaces/{secrets.token_hex(4)}/tree/{path}?token={self.token}"
        self.page.goto(self.address + place)
        self.wait_for_front(path)

    def open_beside(self, path):
        """Open one more notebook in the same workspace, as a double click on its name does."""
        self.page.evaluate("path => void window.jupyterapp.commands.execute('docmanager:open', {path})", path)
        self.wait_for_front(path)

    def wait_for_front(self, path):
        """Wait until a notebook is the one in front."""
        shown = "path => window.jupyterapp?.shell.currentWidget?.context?.path === path"
        self.page.wait_for_function(shown, arg=path)
        self.front.locator("h1").first.wait_for()

    @property
    def front(self):
        """The notebook in front."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def cell(self, text):
        """Return the cell of the notebook in front that shows a text."""
        return self.front.locator(".jp-Cell").filter(has_text=text).first

    def command(self, name):
        """Carry out a command of JupyterLab's menus, and wait until all cells that it runs have ended."""
        self.begin(name)
        self.page.wait_for_function("() => window.ended")

    def begin(self, name):
        """Begin a command of JupyterLab's menus."""
        self.page.evaluate(
            """name => {
                window.ended = false;
                window.jupyterapp.commands.execute(name).finally(() => { window.ended = true; });
            }""",
            name,
        )

    def choose(self, cell):
        """Make a cell the chosen one, as a click beside it does."""
        cell.scroll_into_view_if_needed()
        cell.locator(".jp-InputPrompt").first.click()

    def run(self, cell):
        """Run a cell."""
        self.choose(cell)
        self.command("notebook:run-cell")

    def wait_for_kernel(self):
        """Wait until the kernel of the notebook in front has nothing to do."""
        status = "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status"
        self.page.wait_for_function(f"() => {status} === 'idle'")

    def save(self):
        """Wait until the kernel has said what it is, save the notebook in front, and return its file."""
        self.wait_for_kernel()
        self.page.evaluate(
            "async () => await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.info"
        )
        self.page.wait_for_timeout(300)  # what a kernel says of itself goes into the notebook a moment later
        self.command("docmanager:save")
        path = self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.path")
        return self.folder / path

    def wait_until_whole(self):
        """Wait until every cell of the notebook in front stands in the page."""
        self.page.wait_for_function(
            """() => {
                const {node, widgets} = window.jupyterapp.shell.currentWidget.content;
                return node.querySelectorAll('.jp-Cell').length === widgets.length;
            }"""
        )

    def wider_than_their_place(self, shown):
        """Return the beginnings of what can only be read by scrolling sideways; code and equations may be wide."""
        return shown.evaluate(
            """top => [top, ...top.querySelectorAll('*')]
                .filter(one => ['auto', 'scroll'].includes(getComputedStyle(one).overflowX))
                .filter(one => one.scrollWidth > one.clientWidth + 1)
                .filter(one => !one.closest('.cm-editor, .jp-RenderedMarkdown'))
                .map(one => one.className + ': ' + one.innerText.slice(0, 80))"""
        )

    def errors(self):
        """Return the errors that the cells of the notebook in front show."""
        return self.page.evaluate(
            """() => window.jupyterapp.shell.currentWidget.content.widgets
                .flatMap(cell => cell.model.sharedModel.outputs ?? [])
                .filter(output => output.output_type === 'error').map(output => output.evalue)"""
        )

    def run_all_before(self, cell):
        """Wait for the kernel, run all cells before one, and let that one be chosen."""
        self.wait_for_kernel()
        self.choose(cell)
        self.command("notebook:run-all-above")
        self.choose(cell)

    def restart(self):
        """Restart the kernel of the notebook in front, say yes to the question, and wait until it is there again."""
        self.begin("notebook:restart-kernel")
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        self.page.wait_for_function("() => window.ended")

    def write(self, cell, old, new):
        """Change the code of a cell."""
        editor = cell.locator(".cm-content")
        self.page.evaluate(
            """([before, after]) => {
                const model = window.jupyterapp.shell.currentWidget.content.activeCell.model.sharedModel;
                if (!model.source.includes(before)) throw new Error(`no ${before} in ${model.source}`);
                model.setSource(model.source.replace(before, after));
            }""",
            [old, new],
        )
        assert new.strip().splitlines()[0].strip() in editor.inner_text()


@pytest.fixture
def desk(browser, lab, request):
    """A page as wide as a small screen, or as wide as a test asks."""
    page = browser.new_page(viewport={"width": getattr(request, "param", 1024), "height": 800})
    page.set_default_timeout(1000 * SECONDS)
    yield Desk(page, lab)
    # A kernel holds a gigabyte.
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    page.close()
