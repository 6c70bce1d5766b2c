"""The page's sections on clusters of clients and on their experts: figures as pictures inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from matplotlib.figure import Figure

from potluck.report.markup import section
from potluck.report.plot_clusters import clusters
from potluck.report.plot_experts import experts
from potluck.report.read import Run

CLUSTERS = (
    "Above: clients by the second and third eigenvector of their affinities, one colour a cluster; then the same by "
    "the clients' group, or by the class they hold most of. Below: the rows that the clusters hold. First seed."
)
EXPERTS = (
    "Above: how the online gate's weights move along the test rows. Below: every expert by itself on the global test "
    "rows, and all of them together behind each gate; the oracle looks at the test labels. First seed."
)


def clustering(runs: Sequence[Run]) -> str:
    """Return the sections, or nothing when no run sorted its clients."""
    words = "Scatter plots of clients by cluster and by truth, and bars of rows of each class by cluster"
    found = _section("clusters", "Clusters of clients", CLUSTERS, clusters(runs), words)
    words = "Curves of the weights of each expert, and bars of accuracy by expert and by gate"
    return found + _section("experts", "Experts and gates", EXPERTS, experts(runs), words)


def _section(name: str, title: str, lead: str, drawn: Figure | None, words: str) -> str:
    if drawn is None:
        return ""
    held = io.BytesIO()
    drawn.savefig(held, format="png", dpi=110, metadata={"Software": "potluck"})
    picture = base64.b64encode(held.getvalue()).decode()
    image = f'<img src="data:image/png;base64,{picture}" alt="{words}" style="max-width: 100%">'
    return section(name, title, lead, image)
