"""`make docs`: rebuild every figure and every table of the documentation from the stored records.

Each `make_*.py` beside this file owns one page (or one part of a page) and has a `main()`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Run all makers, in order of their names."""
    sys.path.insert(0, str(HERE))
    for maker in sorted(HERE.glob("make_*.py")):
        importlib.import_module(maker.stem).main()
        print(f"{maker.name}: done")


if __name__ == "__main__":
    main()
