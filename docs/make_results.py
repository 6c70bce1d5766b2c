"""The tables and figures of `docs/results.md`, from stored records."""

from __future__ import annotations

import json

from blocks import HERE, RECORDS, fill, markdown, picture, runs, terminal

PAGE = HERE / "results.md"
BENCH = {
    "idle_ms_per_client_inline": "the engine's own cost per client, in this process (ms)",
    "idle_ms_per_client_2_workers": "the same with two workers (ms)",
    "lenet_samples_per_second": "LeNet, 30 clients a round, two workers (samples a second)",
    "lenet_ratio_to_raw": "the same over the raw loop",
    "lenet_ratio_to_raw_keeping_its_heap": "the same over the raw loop with the engine's memory settings",
}


def main() -> None:
    """Fill the page."""
    fashion = runs("fashion-mnist-dirichlet")
    fill(PAGE, "fashion", f"```text\n{terminal(fashion)}\n```")
    picture(fashion, "accuracy", "fashion-mnist-dirichlet.png")
    baselines = runs("baselines-fmnist-label-skew")
    fill(PAGE, "baselines", f"```text\n{terminal(baselines)}\n```")
    picture(baselines, "accuracy", "baselines-accuracy.png")
    picture(baselines, "clients", "baselines-clients.png")
    picture(baselines, "effective_clients", "baselines-effective.png")
    figures = json.loads((RECORDS / "bench.json").read_text(encoding="utf-8"))
    fill(PAGE, "bench", markdown(["what", "figure"], [[BENCH[name], str(figures[name])] for name in BENCH]))


if __name__ == "__main__":
    main()
