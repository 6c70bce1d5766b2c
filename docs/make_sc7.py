"""The page `docs/fedep-sc7.md`: FedEP in the thesis' mixed scenarios, from whatever settings are stored.

The settings are runs of `experiments/fedep-sc7.toml`; the page says how to make and how to store them. What the
thesis claims is decided from the records by `sc7_claims.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from blocks import HERE, PICTURES, RECORDS, fill, markdown, picture, runs
from sc7_claims import BLOCKS, Setting, Verdict, as_fedavg, read, verdicts

from potluck.report.canvas import INK, PALE, dress, figure
from potluck.report.palette import pen
from potluck.report.statistics import Difference, Summary

PAGE = HERE / "fedep-sc7.md"
FOLDER = "fedep-sc7"
ALL = tuple(f"{even}-{10 - even}-beta-{beta}" for even in (2, 5, 8) for beta in ("5", "1", "0.5"))
SEEDS = 3
SHOWN = "5-5-beta-0.5"
NOTHING = "Nothing is stored yet."


def stored() -> list[Setting]:
    """Return the settings that are there, in the order of the thesis."""
    there = [name for name in ALL if (RECORDS / FOLDER / name).is_dir()]
    return [read(name, runs(f"{FOLDER}/{name}")) for name in there]


def state(settings: Sequence[Setting]) -> str:
    """Return what is stored, with seeds, rounds and rows, and what is missing."""
    rows = [
        [one.name, str(len(one.outcomes)), ", ".join(map(str, one.seeds)), one.rounds, one.data]
        for one in settings
    ] or [["none", "", "", "", ""]]
    missing = [name for name in ALL if name not in {one.name for one in settings}]
    few = any(len(one.seeds) < SEEDS for one in settings)
    told = f"Not run: {', '.join(missing)}." if missing else "All nine settings are there."
    if missing or few:
        told = f"**This is a part of the experiment**, which asks for nine settings and {SEEDS} seeds. {told}"
    heads = ["setting", "methods", "seeds", "rounds", "data, training rows"]
    return f"{markdown(heads, rows)}\n\n{told}"


def percent(figure: Summary, digits: int = 1) -> str:
    """Return mean and standard deviation over seeds, in %."""
    if figure.mean is None:
        return "-"
    spread = "" if figure.std is None else f" ± {100 * figure.std:.{digits}f}"
    return f"{100 * figure.mean:.{digits}f}{spread}"


def results(settings: Sequence[Setting]) -> str:
    """Return one table a setting: accuracy, spread over nodes, rounds to the target, unrest."""
    heads = [
        "method",
        "accuracy (%)",
        "last five rounds (%)",
        "best minus worst node",
        "rounds to target",
        "unrest (points)",
    ]
    parts = []
    for one in settings:
        rows = [
            [
                label,
                percent(own.accuracy),
                percent(own.late),
                percent(own.apart),
                "-" if own.rounds_to.mean is None else f"{own.rounds_to.mean:.1f} ({own.rounds_to.seeds})",
                percent(own.unrest, 2),
            ]
            for label, own in one.outcomes.items()
        ]
        parts.append(f"### {one.title}\n\n{markdown(heads, rows)}")
    return "\n\n".join(parts) or NOTHING


def claims(settings: Sequence[Setting]) -> str:
    """Return the count of settings in which each claim holds, and a sentence about each claim."""
    found = verdicts(settings)
    if not found:
        return NOTHING
    heads = [
        "variant",
        "where",
        "higher",
        "higher in the last five rounds",
        "clearly higher",
        "clearly lower",
        "mean difference (points)",
        "steadier",
        "faster",
    ]
    rows = [
        [
            one.variant,
            one.where,
            f"{one.higher} of {one.settings}",
            f"{one.higher_late} of {one.settings}",
            str(one.clearly_higher),
            str(one.clearly_lower),
            difference(one.difference),
            f"{one.steadier} of {one.settings}",
            f"{one.faster} of {one.settings}",
        ]
        for one in found
    ]
    return f"{markdown(heads, rows)}\n\n{sentences(found)}\n{alike(settings)}"


def difference(found: Difference) -> str:
    """Return a mean over settings with its interval, in points."""
    told = f"{100 * (found.mean or 0):+.1f}"
    if found.low is None or found.high is None:
        return told
    return f"{told} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def sentences(found: Sequence[Verdict]) -> str:
    """Say plainly in how many settings each variant is higher, steadier and faster than FedAvg."""
    lines = []
    for claim, words in CLAIMS.items():
        for variant in dict.fromkeys(one.variant for one in found):
            own = [one for one in found if one.variant == variant]
            yes, of = sum(getattr(one, claim) for one in own), sum(one.settings for one in own)
            holds = "holds in most cases" if 2 * yes > of else "does not hold"
            lines.append(f"* {variant}: {words} in {yes} of {of} cases; the claim {holds}.")
    return "\n".join(lines)


def alike(settings: Sequence[Setting]) -> str:
    """Say in how many settings the listing is FedAvg under another name."""
    within, of = as_fedavg(settings)
    if not of:
        return "* Whether the listing is FedAvg under another name takes two seeds or more to tell."
    return f"* The listing differs from FedAvg by less than FedAvg does from seed to seed: in {within} of {of} cases."


def differences(settings: Sequence[Setting]) -> None:
    """Draw every variant's difference to its FedAvg by setting, one panel a block, one dot a seed."""
    canvas = figure(9.6, 1.2 + 0.42 * max(len(settings), 3) * 2)
    areas = canvas.subplots(2, 2, sharex=True, sharey=True).reshape(-1)
    places = {one.name: len(settings) - number for number, one in enumerate(settings)}
    variants = list(dict.fromkeys(label for block in BLOCKS for label in block.variants.values()))
    for block, area in zip(BLOCKS, areas, strict=True):
        dress(area, block.where, "", "")
        area.axvline(0, color=PALE, lw=1)
        for label, variant in block.variants.items():
            style = pen(variants.index(variant))
            up = 0.2 * (1 - variants.index(variant))
            for one in settings:
                gaps = [100 * gap for gap in one.gaps(label, block.base).values()]
                across = [places[one.name] + up] * len(gaps)
                area.plot(gaps, across, ls="", marker=style.marker, color=style.colour, ms=5, alpha=0.8)
        area.set_ylim(0.4, len(settings) + 0.6)
        area.set_yticks(list(places.values()), list(places), fontsize=8, color=INK)
    for area in areas[2:]:
        area.set_xlabel("accuracy minus FedAvg's (points)", color=PALE, fontsize=9.5)
    for number, variant in enumerate(variants):
        areas[0].plot([], [], ls="", marker=pen(number).marker, color=pen(number).colour, label=variant)
    canvas.legend(loc="outside lower center", ncols=len(variants), frameon=False, fontsize=9)
    PICTURES.mkdir(exist_ok=True)
    canvas.savefig(PICTURES / "fedep-sc7-differences.png", dpi=130, metadata={"Software": ""})


def pictures(settings: Sequence[Setting]) -> str:
    """Draw the differences, and the curves and nodes of one setting."""
    if not settings:
        return NOTHING
    differences(settings)
    chosen = next((one for one in settings if one.name == SHOWN), settings[-1])
    paths = runs(f"{FOLDER}/{chosen.name}")
    star = [path for path in paths if path.name.startswith("star")]
    ring = [path for path in paths if path.name.startswith("ring")]
    shown = ["![Each variant minus its FedAvg; a mark is a seed](pictures/fedep-sc7-differences.png)"]
    for name, where, what in (("star", star, "accuracy"), ("nodes", ring, "sites"), ("graph", ring, "graph")):
        if where:
            drawn = picture(where, what, f"fedep-sc7-{name}.png")
            shown.append(f"![{chosen.title}: {TOLD[name]}]({drawn})")
    return "\n\n".join(shown)


CLAIMS = {
    "higher": "higher in the last round",
    "higher_late": "higher over the last five rounds",
    "steadier": "steadier",
    "faster": "faster",
}
TOLD = {
    "star": "with a server, thin lines are seeds",
    "nodes": "on the ring, one line a node, mean over seeds",
    "graph": "the ring of the first seed, coloured by last accuracy",
}


def main() -> None:
    """Fill in the page."""
    settings = stored()
    fill(PAGE, "state", state(settings))
    fill(PAGE, "claims", claims(settings))
    fill(PAGE, "pictures", pictures(settings))
    fill(PAGE, "results", results(settings))


if __name__ == "__main__":
    main()
