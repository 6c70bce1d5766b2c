"""The tables and pictures of `docs/feddisco-vae-results.md`.

    python docs/make_vae.py

Everything is read from docs/records/feddisco-vae-* and bench-latent.json. A record is made by the command on the page,
then `python docs/store.py RUN NAME`; where one is missing, the page says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from blocks import HERE, PICTURES, RECORDS, fill, markdown, picture
from vae_published import BASELINE, CLASSIFIER, POSTER, Comparison
from vae_tables import accuracy_table, at, course, ends, loss_table, pick, reading

from potluck.report import Run, open_runs
from potluck.report.canvas import axes, figure, legend
from potluck.report.palette import pen
from potluck.report.plot_pictures import images
from potluck.report.statistics import fallback_sentence

PAGE = HERE / "feddisco-vae-results.md"
BENCH = {
    "w1_seconds": "W1 of 60,000 rows in 32 dimensions, median (s of one core)",
    "w1_seconds_best": "the same, best (s of one core)",
    "encoding_rows_per_second": "encoding, rows of 28 x 28 a second of one core",
    "encoding_ratio_to_bare": "encoding over a bare forward loop",
}


def main() -> None:
    """Fill the page."""
    fill(PAGE, "losses", section(POSTER, poster))
    fill(PAGE, "classifiers", section(CLASSIFIER, classifier))
    figures = json.loads((RECORDS / "bench-latent.json").read_text(encoding="utf-8"))
    fill(
        PAGE,
        "bench",
        markdown(["what", "figure"], [[words, str(figures[name])] for name, words in BENCH.items()]),
    )


def section(comparisons: Sequence[Comparison], told: Callable[[Comparison], str]) -> str:
    """Return what is known of each comparison under its heading, and last how to make the records that are missing."""
    texts = [(one, told(one)) for one in comparisons]
    parts = [f"### {one.title}\n\n{text}" for one, text in texts if text]
    missing = [
        f"- {one.title}: `potluck compare experiments/{run_of(one)}.toml`" for one, text in texts if not text
    ]
    if missing:
        parts.append("### Not run\n\n" + "\n".join(missing))
    return "\n\n".join(parts)


def run_of(one: Comparison) -> str:
    """Return the name of a comparison's experiment and of its record."""
    return f"feddisco-vae-{one.name}"


def stored(one: Comparison) -> Sequence[Run]:
    """Return the finished runs of a comparison in its order, the baseline first; none where it was not stored."""
    folder = RECORDS / run_of(one)
    runs = open_runs([folder]) if folder.is_dir() and any(folder.iterdir()) else ()
    return [run for run in runs if run.finished]


def about(runs: Sequence[Run]) -> str:
    """Say how a comparison was made."""
    seeds = ", ".join(str(seed) for seed in runs[0].seeds)
    many = "seeds" if len(runs[0].seeds) > 1 else "seed"
    clients = runs[0].mapping("clients").get(str(runs[0].seeds[0]))
    return f"`{runs[0].text('command')}`: {clients} clients, {many} {seeds}."


def poster(one: Comparison) -> str:
    """Return everything about one comparison of the poster, or nothing if it was not stored."""
    runs = stored(one)
    if len(runs) < 2 or runs[0].label != BASELINE:
        return ""
    parts = [about(runs), loss_table(runs, one), *warned(runs), reading(runs, one)]
    parts.append(f"![Loss over the rounds of the last stage]({curves(runs, one)})")
    drawn = picture([runs[-1].path], "latent", f"{run_of(one)}-latent.png")
    parts.append(f"![Latent codes of the clients, first seed]({drawn})")
    shown = [run.path for run in (runs[0], runs[-1]) if images(run, run.seeds[0])]
    if shown:
        drawn = picture(shown, "pictures", f"{run_of(one)}-pictures.png")
        parts.append(f"![Reconstructions and samples, first seed]({drawn})")
    return "\n\n".join(parts)


def warned(runs: Sequence[Run]) -> list[str]:
    """Say which methods fell back on the clients' rows as weights, because all of their own came out as zero."""
    return [sentence for sentence in map(fallback_sentence, runs) if sentence]


def curves(runs: Sequence[Run], one: Comparison) -> str:
    """Draw the mean loss of each method over the rounds of its last stage, with the published losses as marks."""
    canvas = figure()
    area = axes(canvas, one.title, "round of the last stage", "loss on the test set")
    for place, run in enumerate(runs):
        rounds, values = course(run, "global/loss")
        style = pen(place)
        area.plot(rounds, values.mean(axis=0), color=style.colour, lw=1.8)
        if len(run.seeds) > 1:
            area.fill_between(
                rounds, values.min(axis=0), values.max(axis=0), color=style.colour, alpha=0.15, lw=0
            )
        for round, told in one.published.items():
            if run.label in told and run.label != "a 0":
                area.plot(
                    round, told[run.label], style.marker, color=style.colour, ms=7, mec="white", clip_on=False
                )
    low = min(at(run, ends(run)[1]).min() for run in runs)
    high = max(at(run, ends(run)[0]).max() for run in runs)
    heights = [told[label] for told in one.published.values() for label in told]
    area.set_ylim(min([low, *heights]) - 10, max([high, *heights]) + 10)
    legend(canvas, runs, [run.label for run in runs])
    PICTURES.mkdir(exist_ok=True)
    name = f"{run_of(one)}-loss.png"
    canvas.savefig(PICTURES / name, dpi=130, metadata={"Software": ""})
    return f"pictures/{name}"


def classifier(one: Comparison) -> str:
    """Return everything about one comparison of classifiers, or nothing if it was not stored."""
    runs = stored(one)
    if len(runs) < 2:
        return ""
    drawn = picture([run.path for run in runs], "accuracy", f"{run_of(one)}-accuracy.png")
    return "\n\n".join(
        [
            about(runs),
            accuracy_table(runs),
            *warned(runs),
            pick(runs),
            f"![Accuracy over the rounds]({drawn})",
        ]
    )


if __name__ == "__main__":
    main()
