"""Make the pictures of the documentation from the reference results: `python docs/images/make.py`.

Needs Chromium and chromedriver for the pictures of the page; without them these are left as they are, which is said.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from bench.page.build import build_page
from bench.plots.draw import draw_plots
from bench.report.select import select_table, select_updates

HERE = Path(__file__).parent
REFERENCE = HERE.parents[1] / "results/reference"
RESULTS = REFERENCE / "cpu-quickstart"
KINDS = {RESULTS: ("memory-throughput", "heat-map", "update-times"), REFERENCE / "cpu-scaling": ("scaling",)}
"""Results to the kinds of figures that are drawn of them."""
SCREENS = {"report": (1280, 1500), "report_narrow": (400, 1100)}
"""Name to width and height of the window [CSS pixels]."""
COLORS = 256
"""A palette of so many colours keeps a picture small; none of ours has more that matter."""


def draw(folder: Path) -> None:
    """Draw the figures as `bench plot results/reference/...` does, into the documentation."""
    for results, kinds in KINDS.items():
        updates = select_updates(results)
        rows = [] if updates is None else updates.to_pylist()
        paths, _ = draw_plots(select_table([results]), rows, folder, kinds)
        for path in paths:
            if path.suffix == ".png":
                shrink(path, HERE / path.name)


def photograph(folder: Path) -> None:
    """Photograph the page of `bench report results/reference/cpu-quickstart`, wide and narrow."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        sys.stdout.write("no Chromium and chromedriver on the PATH: the pictures of the page are left as they are\n")
        return
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    page = folder / "report.html"
    page.write_text(build_page(select_table([RESULTS])).text)
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    with webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))) as driver:
        for name, (width, height) in SCREENS.items():
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            driver.get(page.as_uri())
            WebDriverWait(driver, 60).until(lambda d: d.execute_script("return document.body.dataset.chart") == "ready")
            driver.save_screenshot(str(folder / f"{name}.png"))
            shrink(folder / f"{name}.png", HERE / f"{name}.png")


def shrink(source: Path, target: Path) -> None:
    """Store a picture with a palette."""
    Image.open(source).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(target, optimize=True)
    sys.stdout.write(f"{target.relative_to(HERE.parents[1])}  {target.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        draw(Path(name))
        photograph(Path(name))
