"""The page's section on clusters of clients: the figure as a picture inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from potluck.report.markup import section
from potluck.report.plot_clusters import clusters
from potluck.report.read import Run


def clustering(runs: Sequence[Run]) -> str:
    """Return the section, or nothing when no run sorted its clients."""
    drawn = clusters(runs)
    if drawn is None:
        return ""
    held = io.BytesIO()
    drawn.savefig(held, format="png", dpi=110, metadata={"Software": "potluck"})
    picture = base64.b64encode(held.getvalue()).decode()
    lead = (
        "Above: clients by the second and third eigenvector of their affinities, one colour a cluster, one shape a "
        "group of clients where the data know groups. Below: the rows that the clusters hold. First seed."
    )
    words = "Scatter plot of clients by cluster, and bars of rows of each class by cluster"
    image = f'<img src="data:image/png;base64,{picture}" alt="{words}" style="max-width: 100%">'
    return section("clusters", "Clusters of clients", lead, image)
