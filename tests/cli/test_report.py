"""`bench report` writes the page and says what it left out; the page works in a real browser."""

import contextlib
import shutil

import pytest
from click.testing import CliRunner

from bench.cli import main
from tests.planted import config, launches, store
from tests.requirements import require


def run(*words):
    return CliRunner().invoke(main, ["report", *map(str, words)])


ROWS = launches(
    [
        config(1000, micro_batch_size=4),
        config(1300, micro_batch_size=8, amp_mode="bf16", peak_allocated_bytes=200 * 1024**2),
        config(1100, micro_batch_size=16),
        config(None, micro_batch_size=64),
    ]
)


def test_the_page_goes_beside_the_results(tmp_path):
    """Its path is the data on stdout; --out names another place."""
    folder = store(tmp_path / "r", ROWS)
    result = run(folder)
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'report.html'}\n")
    assert run(folder, "--out", tmp_path / "other.html").exit_code == 0
    assert (tmp_path / "other.html").read_bytes() == (folder / "report.html").read_bytes()


def test_results_side_by_side_have_names_of_their_own(tmp_path):
    """Two configurations of three rounds each; pooled, one of six."""
    later = [row | {"started_utc": "2026-12-01T00:00:00Z"} for row in launches([config(1000), config(1300)], seed=1)]
    both = store(tmp_path / "r", ROWS), store(tmp_path / "later", later)
    assert run(*both, "--out", tmp_path / "both.html").exit_code == 0
    page = (tmp_path / "both.html").read_text()
    assert "on 1 rank, in later</h1>" in page
    for words in (", in r", ", 3 rounds<"):
        assert words in page
    assert run(*both, "--pool", "--out", tmp_path / "pool.html").exit_code == 0
    assert ", in later" not in (tmp_path / "pool.html").read_text()


def test_several_results_need_a_place_and_no_rows_are_an_error(tmp_path):
    """Exit 2 with the way out."""
    folder = store(tmp_path / "r", ROWS)
    assert "a file for the page with --out" in run(folder, folder / "results.parquet").stderr
    result = run(folder, "--where", "micro_batch_size == 3")
    assert (result.exit_code, "no row matches --where" in result.stderr) == (2, True)
    assert not (folder / "report.html").exists()


def test_help_is_complete():
    """Imperative line, example, units."""
    text = run("--help").stdout
    assert "Write one HTML page" in text
    assert "Example:\n    bench report results/quickstart" in text
    assert "[hours per T tokens, bytes" in " ".join(text.split())


@contextlib.contextmanager
def browser(width, height):
    """Start headless Chromium; skip with the reason where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    require("chromium", None if program else "there is no Chromium on the PATH")
    helper = shutil.which("chromedriver")
    require("chromium", None if helper else "there is no chromedriver on the PATH")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={width},{height}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(helper))
    try:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        yield driver
    finally:
        driver.quit()


def requests_of(driver):
    import json

    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]


def names(driver):
    script = "return [...document.querySelectorAll('#configurations tbody tr')].map(r => r.cells[0].textContent)"
    return driver.execute_script(script)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_page_sorts_filters_and_shows_details_in_a_browser(tmp_path, width, height):
    """Sort, filter, select in table and chart; no console error, no request, no sideways scrolling."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    folder = store(tmp_path / "r", ROWS)
    assert run(folder).exit_code == 0
    page = (folder / "report.html").as_uri()
    with browser(width, height) as driver:
        driver.get(page)
        WebDriverWait(driver, 60).until(lambda d: d.execute_script("return document.body.dataset.chart") == "ready")
        assert names(driver) == ["bf16 8 x 8", "fp32 16 x 4", "fp32 4 x 16", "fp32 64 x 1"]

        click = "document.querySelector(arguments[0]).click()"
        driver.execute_script(click, "th[data-key=speed] button")
        assert names(driver) == ["bf16 8 x 8", "fp32 16 x 4", "fp32 4 x 16", "fp32 64 x 1"]
        driver.execute_script(click, "th[data-key=speed] button")
        assert names(driver) == ["fp32 4 x 16", "fp32 16 x 4", "bf16 8 x 8", "fp32 64 x 1"], "missing comes last"
        head = driver.find_element(By.CSS_SELECTOR, "th[data-key=speed]")
        assert head.get_attribute("aria-sort") == "ascending"

        driver.find_element(By.ID, "filter").send_keys("fp32 16")
        assert names(driver) == ["fp32 4 x 16", "fp32 16 x 4"]
        assert driver.find_element(By.ID, "count").text == "2 of 4"
        driver.execute_script("document.querySelector('#configurations tbody tr').click()")
        assert driver.find_element(By.CSS_SELECTOR, "#details h3").text == "fp32 4 x 16"
        assert "micro_batch_size" in driver.find_element(By.ID, "details").text

        points = driver.find_elements(By.CSS_SELECTOR, "#chart .mark-symbol.role-mark path")
        assert len(points) == 3
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", points[0])
        from selenium.webdriver import ActionChains

        ActionChains(driver).move_to_element(points[0]).click().perform()
        assert driver.find_element(By.CSS_SELECTOR, "#details h3").text == "bf16 8 x 8"

        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert [entry for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
        assert [url for url in requests_of(driver) if url != page and not url.startswith("data:")] == []
