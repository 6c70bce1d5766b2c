"""The page: well-formed, self-contained, escaped, repeatable, with the figures of the records."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from potluck.report import open_runs, write
from potluck.report.notes import notes

Writer = Callable[..., Path]
EMPTY = {"meta", "input", "br"}
BROWSER = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=4000",
]
PROBE = """<script>
const click = (one) => one.dispatchEvent(new MouseEvent("click", {bubbles: true}));
const facts = document.documentElement.dataset;
const select = document.getElementById("metric");
facts.paths = document.querySelectorAll("#curves path.mean").length;
click(document.querySelector(".legend button"));
facts.fewer = document.querySelectorAll("#curves path.mean").length;
click(document.querySelector(".legend button"));
for (const option of [...select.options]) {
  select.value = option.value;
  select.dispatchEvent(new Event("change"));
}
facts.options = select.options.length;
const chart = document.querySelector("#curves svg");
chart.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowLeft"}));
facts.reading = document.querySelector("#curves .tip").textContent;
click(document.querySelectorAll("table[data-sortable] thead button")[2]);
facts.first = document.querySelector("table[data-sortable] tbody th").textContent;
facts.wider = String(document.documentElement.scrollWidth > document.documentElement.clientWidth);
</script>"""


class Page(HTMLParser):
    """Collects what a test asks of a page, and checks that tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.rows: list[list[str]] = []
        self.values: list[list[str | None]] = []
        self.inside: dict[str, str] = {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.ids += [own["id"] or ""] if "id" in own else []
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
            self.values.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.values[-1].append(own.get("data-value"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.inside[tag] = self.inside.get(tag, "") + data
        if self.open and ("td" in self.open or "th" in self.open):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def page(comparison: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("report"), comparison)


@pytest.fixture
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed")
    return found


def data_of(path: Path) -> dict[str, object]:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.S
    )
    assert found is not None
    data: dict[str, object] = json.loads(found.group(1))
    return data


def test_the_page_is_well_formed_and_needs_no_network(page: Path) -> None:
    text = page.read_text("utf-8")
    parsed = Page(text)
    assert parsed.open == []
    assert len(parsed.ids) == len(set(parsed.ids))
    assert parsed.links == []
    outside = set(re.findall(r"https?://[^\s\"']+", text)) - {"http://www.w3.org/2000/svg"}
    assert outside == set()
    assert "default-src 'none'" in text


def test_the_table_shows_the_figures_of_the_result(page: Path, comparison: list[Path]) -> None:
    parsed = Page(page.read_text("utf-8"))
    column = parsed.rows[0].index("Accuracy")
    rows = {row[0]: (row, values) for row, values in zip(parsed.rows[1:4], parsed.values[1:4], strict=True)}
    for path, label in zip(comparison[:2], ("FedAvg", "FedEP"), strict=True):
        seeds = json.loads((path / "result.json").read_text())["seeds"]
        figures = [seeds[seed]["accuracy"] for seed in seeds]
        row, values = rows[label]
        assert float(values[column] or "nan") == pytest.approx(np.mean(figures))
        assert row[column] == f"{100 * np.mean(figures):.2f}± {100 * np.std(figures, ddof=1):.2f}"
    assert rows["FedBN"][0][column] == "\u2013"


def test_the_curves_are_those_of_the_records(page: Path, comparison: list[Path]) -> None:
    data = data_of(page)
    metrics = data["metrics"]
    assert isinstance(metrics, list)
    metric = next(one for one in metrics if one["what"] == "global/accuracy")
    assert metric["series"][2] is None
    rows = map(json.loads, (comparison[1] / "records.jsonl").read_text().splitlines())
    own = [row["value"] for row in rows if row["what"] == "global/accuracy" and row["seed"] == 1]
    assert metric["series"][1]["x"] == list(range(21))
    assert metric["series"][1]["seeds"]["1"] == pytest.approx(own, rel=1e-5)


def test_partition_boxes_and_weights_are_those_of_the_records(page: Path, comparison: list[Path]) -> None:
    data = data_of(page)
    rows = [json.loads(line) for line in (comparison[0] / "records.jsonl").read_text().splitlines()]
    counts = [row["value"] for row in rows if row["what"] == "histogram" and row["seed"] == 0]
    last = [r["value"] for r in rows if r["what"] == "test/accuracy" and r["round"] == 20 and r["seed"] == 2]
    partitions, boxes, weights = data["partitions"], data["boxes"], data["weights"]
    assert isinstance(partitions, list)
    assert isinstance(boxes, list)
    assert isinstance(weights, list)
    assert len(partitions) == 3
    assert partitions[0]["counts"] == counts
    assert boxes[0]["seeds"][2][2] == pytest.approx(last, rel=1e-5)
    shares = np.array(counts).sum(axis=1) / np.sum(counts)
    assert list(weights[0]["0"].values()) == pytest.approx(shares.tolist(), rel=1e-5)


def test_notes_commands_and_provenance_are_there(page: Path) -> None:
    text = Page(page.read_text("utf-8")).inside["body"]
    for part in (
        "FedEP was in its fallback in 20 % of its client-rounds",
        "No global accuracy for FedBN",
        "With 3 seeds every difference is at most indicative",
        "zero_weights",
        "20.0 % (120 of 600)",
        "potluck run experiments/demo.toml --set algorithm.name=fedep",
        "2.13.0",
        "Example CPU @ 2.4 GHz",
        "fashion-mnist.sha256",
        'algorithm = { name = "FedBN" }',
    ):
        assert part in text


def test_a_note_names_the_runs_that_say_it_unless_all_do(make: Writer) -> None:
    one, two = make("One"), make("Two")
    for run, said in ((one, ["rows are a subset"]), (two, ["rows are a subset", "rows are pooled"])):
        manifest = json.loads((run / "manifest.json").read_text())
        (run / "manifest.json").write_text(json.dumps({**manifest, "notes": said}))
    told = notes(open_runs([one, two]))
    assert told[-2:] == ["rows are a subset", "Two: rows are pooled"]


def test_unequal_partitions_and_versions_are_noted(make: Writer, tmp_path: Path) -> None:
    one, two = make("One"), make("Two", seeds=2, finished=False)
    manifest = json.loads((two / "manifest.json").read_text())
    manifest["partition_digest"]["0"] = "other"
    manifest["versions"]["torch"] = "2.5.0"
    (two / "manifest.json").write_text(json.dumps(manifest))
    text = Page(write(tmp_path / "out", [one, two]).read_text("utf-8")).inside["body"]
    assert "Not on the partition of One, so not paired with it: Two." in text
    assert "different partitions: not paired" in text
    assert "Two and One ran with different versions of torch" in text
    assert "Not with the seeds of One; only common seeds are paired: Two." in text
    assert "Two has not finished" in text


def test_no_text_becomes_markup(make: Writer, tmp_path: Path) -> None:
    path = make("<script>alert(1)<!--", classes=3)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["command"] = 'potluck run "</script><b>" & more'
    manifest["class_names"] = ["</script>", "<i>", "&amp;"]
    (path / "manifest.json").write_text(json.dumps(manifest))
    written = write(tmp_path / "out", [path], title="A <b>title</b> & more")
    text = written.read_text("utf-8")
    parsed = Page(text)
    assert text.count("<script") == 2
    assert parsed.open == []
    assert "<b>title</b>" in parsed.inside["h1"]
    assert 'potluck run "</script><b>" & more' in parsed.inside["pre"]
    assert data_of(written)["labels"] == ["<script>alert(1)<!--"]


def test_equal_records_give_equal_bytes(page: Path, comparison: list[Path], tmp_path: Path) -> None:
    again = write(tmp_path / "elsewhere", comparison)
    assert again.read_bytes() == page.read_bytes()
    assert not list(again.parent.glob(".*"))


def test_a_run_without_any_row_still_has_a_page(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text(
        '{"label": "FedAvg", "command": ["potluck", "run", "a.toml"]}'
    )
    text = Page(write(tmp_path / "out", [tmp_path / "run"]).read_text("utf-8")).inside["body"]
    assert "FedAvg has not finished" in text
    assert "potluck run a.toml" in text


def browse(
    chromium: str, page: Path, folder: Path, size: str = "1280,900", probe: str = PROBE
) -> dict[str, str]:
    """Open a page with the probe in it, and return the facts that the scripts left on the root."""
    catch = "(event) => { document.documentElement.dataset.error = event.message; }"
    guard = f'<script>addEventListener("error", {catch});</script>'
    text = page.read_text("utf-8").replace("<title>", guard + "<title>").replace("</body>", probe + "</body>")
    copy = folder / "probe.html"
    copy.write_text(text, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [chromium, *BROWSER, profile, f"--window-size={size}", "--dump-dom", copy.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    root = re.search(r"<html[^>]*>", done.stdout)
    assert root is not None
    return dict(re.findall(r'data-(\w+)="([^"]*)"', root.group(0)))


@pytest.mark.chromium
@pytest.mark.parametrize("size", ["1280,900", "390,900"])
def test_the_scripts_run_in_a_browser(chromium: str, page: Path, tmp_path: Path, size: str) -> None:
    facts = browse(chromium, page, tmp_path, size)
    assert "error" not in facts
    assert facts["ready"] == "yes"
    assert (facts["paths"], facts["fewer"]) == ("2", "1")
    assert int(facts["options"]) >= 10
    assert facts["reading"].startswith("round 20")
    assert facts["first"] == "FedEP"
    assert facts["wider"] == "false"


@pytest.mark.chromium
def test_the_page_of_a_mesh_runs_in_a_browser(chromium: str, make: Writer, tmp_path: Path) -> None:
    runs = [
        make("Ring", mesh=True, clients=50, seeds=1, rounds=4),
        make("Star", seeds=1, rounds=1, clients=50),
    ]
    facts = browse(chromium, write(tmp_path / "out", runs), tmp_path)
    assert "error" not in facts
    assert facts["ready"] == "yes"


@pytest.mark.chromium
def test_an_empty_run_runs_in_a_browser(chromium: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "records.jsonl").write_text("")
    facts = browse(chromium, write(tmp_path / "out", [tmp_path / "run"]), tmp_path, probe="")
    assert "error" not in facts
    assert facts["ready"] == "yes"
