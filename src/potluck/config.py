"""Experiment files: TOML to typed calls, and back to the resolved configuration that is written with a run."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from potluck.algorithms import ALGORITHMS, ARCHITECTURES, OBJECTIVES, RATIOS, SERVERS, SHARES, WEIGHS
from potluck.call import Maker, Roles, sentence, verify
from potluck.core import Algorithm
from potluck.data import DATASETS
from potluck.data.dataset import Dataset
from potluck.data.places import Places
from potluck.errors import BadInputError, unknown
from potluck.federation import Federation, Partition, Shift, Split, build, labels_of
from potluck.key import Key
from potluck.model import Model
from potluck.models import MODELS
from potluck.partition import PARTITIONS
from potluck.partition.manifest import manifest
from potluck.parts.ratio import Ratio
from potluck.roles import Architecture, Objective, Server, Share, Weigh
from potluck.shift import SHIFTS
from potluck.topologies import TOPOLOGIES
from potluck.topology import Topology
from potluck.tree import Params
from potluck.world import Faults, Stragglers, World

ROLES: Roles = {
    Weigh: ("weigh", WEIGHS),
    Objective: ("objective", OBJECTIVES),
    Server: ("server", SERVERS),
    Share: ("share", SHARES),
    Architecture: ("architecture", ARCHITECTURES),
    Ratio: ("ratio", RATIOS),
}
MAKER = Maker(ROLES)
LABEL = re.compile(r"[\w(][^/\\:*?\"<>|\x00-\x1f]*")
Spec = dict[str, Any]


class Evaluate(BaseModel):
    """When and on whom models are scored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Annotated[int, Field(ge=1)] = 1
    who: Literal["all", "none"] = "all"
    tests: list[str] | None = None


class Checkpoint(BaseModel):
    """How often a run is saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Annotated[int, Field(ge=1)] = 1


@dataclass(frozen=True)
class Given:
    """Objects given from Python in place of what a configuration would name."""

    dataset: Dataset | None = None
    model: Callable[[], nn.Module] | None = None
    algorithm: Algorithm | None = None

    def names(self) -> dict[str, Spec]:
        """Return what the resolved configuration says of them: enough to see that two runs differ."""
        out: dict[str, Spec] = {}
        if self.dataset is not None:
            out["data"] = {
                "name": "given",
                "of": self.dataset.name,
                "checksums": dict(self.dataset.checksums),
            }
        if self.model is not None:
            out["model"] = {"name": "given", "of": str(self.model()).replace("\n", " ")}
        if self.algorithm is not None:
            out["algorithm"] = {"name": self.algorithm.name, "of": repr(self.algorithm.stages)}
        return out


class Experiment(BaseModel):
    """One experiment: everything but the name has a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]*$")]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = [0]
    participation: Annotated[float, Field(gt=0, le=1)] = 1.0
    data: Spec = {"name": "digits"}
    split: dict[str, float] = {}
    partition: Spec = {"name": "iid"}
    shifts: list[Spec] = []
    model: Spec = {"name": "mlp"}
    algorithm: Spec = {"name": "fedavg"}
    topology: Spec = {"name": "star"}
    evaluate: Evaluate = Evaluate()
    stragglers: Stragglers = Stragglers()
    faults: Faults = Faults()
    on_error: Literal["stop", "skip"] = "stop"
    checkpoint: Checkpoint = Checkpoint()
    init: str | None = None
    compare: list[Spec | str] = []
    _given: Given = PrivateAttr(default=Given())

    def check(self) -> None:
        """Build all that needs no data, so that a typo is found before anything is loaded."""
        if len(set(self.seeds)) < len(self.seeds):
            raise BadInputError(f"seeds: must be different numbers, got {self.seeds}")
        if self._given.dataset is None:
            MAKER.checked(*self._call("data", DATASETS, self.data), skip=1)
        if self._given.model is None:
            MAKER.checked(*self._call("model", MODELS, self.model), skip=2)
        self.build_algorithm()
        self._partition()
        self._shifts()
        self._split()
        MAKER.checked(*self._call("topology", TOPOLOGIES, self.topology), skip=2)

    def _call(self, kind: str, table: Mapping[str, Any], spec: Spec) -> tuple[Any, Spec, str]:
        function = MAKER.entry(kind, table, spec, kind)
        return function, {key: value for key, value in spec.items() if key != "name"}, kind

    def build_algorithm(self) -> Algorithm:
        """Return the algorithm."""
        if self._given.algorithm is not None:
            for stage in self._given.algorithm.stages:
                verify(stage, "algorithm")
            return self._given.algorithm
        algorithm: Algorithm = MAKER.make("algorithm", ALGORITHMS, self.algorithm, "algorithm")
        return algorithm

    def build_topology(self, clients: int, key: Key) -> Topology:
        """Return who merges; random graphs and schedules are drawn from the key."""
        topology: Topology = MAKER.make("topology", TOPOLOGIES, self.topology, "topology", clients, key)
        return topology

    def _partition(self) -> Partition:
        partition: Partition = MAKER.make("partition", PARTITIONS, self.partition, "partition")
        return partition

    def _shifts(self) -> list[Shift]:
        return [MAKER.make("shift", SHIFTS, spec, f"shifts.{i}") for i, spec in enumerate(self.shifts)]

    def _split(self) -> Split:
        split: Split = MAKER.fields(Split, self.split, "split")
        return split

    def federation(self, seed: int, places: Places | None = None) -> Federation:
        """Return the federation of one seed: data loaded, dealt, shifted and split."""
        dataset = self._given.dataset
        if dataset is None:
            dataset = MAKER.make("data", DATASETS, self.data, "data", places or Places.usual())
        partition, key = self._partition(), Key.root(seed)
        made = build(dataset, partition, self._shifts(), self._split(), key)
        return replace(made, partition=manifest(partition, labels_of(dataset), made.rows, key / "partition"))

    def model_for(self, federation: Federation) -> Model:
        """Return the model for a federation's rows."""
        factory = self._given.model
        if factory is None:
            arguments = MAKER.checked(*self._call("model", MODELS, self.model), skip=2)
            made = MAKER.entry("model", MODELS, self.model, "model")
            factory = partial(made, federation.shape, federation.classes, **arguments)
        model = Model(factory, shape=federation.shape, classes=federation.classes or 0)
        if self._given.model is not None:
            model.refuse_misfit()
        return model

    def world(self, seed: int, federation: Federation | None = None, places: Places | None = None) -> World:
        """Return the world of one seed."""
        federation = federation or self.federation(seed, places)
        for name in self.evaluate.tests or ():
            if name not in federation.tests:
                raise BadInputError(f"evaluate.tests: {unknown('test', name, federation.tests)}")
        model = self.model_for(federation)
        return World(
            federation=federation,
            model=model,
            algorithm=self.build_algorithm(),
            key=Key.root(seed),
            participation=self.participation,
            stragglers=self.stragglers,
            faults=self.faults,
            on_error=self.on_error,
            initial=None if self.init is None else _initial(Path(self.init), model),
        )

    def resolved(self) -> dict[str, Any]:
        """Return the configuration with every default written out."""
        out = self.model_dump(mode="json", exclude={"compare"}, exclude_none=True)
        given = self._given.names()
        out["data"] = given.get("data") or MAKER.resolved("data", DATASETS, self.data, skip=1)
        out["model"] = given.get("model") or MAKER.resolved("model", MODELS, self.model, skip=2)
        out["algorithm"] = given.get("algorithm") or MAKER.resolved("algorithm", ALGORITHMS, self.algorithm)
        out["partition"] = MAKER.resolved("partition", PARTITIONS, self.partition)
        out["shifts"] = [MAKER.resolved("shift", SHIFTS, spec) for spec in self.shifts]
        out["topology"] = MAKER.resolved("topology", TOPOLOGIES, self.topology, skip=2)
        split = self._split()
        out["split"] = {"val": split.val, "test": split.test}
        plain: dict[str, Any] = _plain(out)
        return plain

    def toml(self) -> str:
        """Return the resolved configuration as TOML."""
        return tomli_w.dumps(self.resolved())

    def deciding(self) -> dict[str, Any]:
        """Return what decides a run's numbers; name, seeds and checkpoint rhythm do not."""
        out = self.resolved()
        for key in ("name", "seeds", "checkpoint"):
            out.pop(key, None)
        if self.init is not None:
            out["init"] = hashlib.sha256(Path(self.init).read_bytes()).hexdigest()
        return out

    def digest(self) -> str:
        """Hash what decides a run's numbers."""
        return hashlib.sha256(json.dumps(self.deciding(), sort_keys=True).encode()).hexdigest()

    def variants(self, algorithms: Sequence[str] = ()) -> dict[str, Experiment]:
        """Return one experiment per algorithm to compare, by label: same data, weights and participants for all."""
        entries: list[Spec | str] = list(algorithms) or list(self.compare)
        if not entries:
            return {str(self.algorithm["name"]): self}
        out: dict[str, Experiment] = {}
        for position, entry in enumerate(entries):
            spec = {"name": entry} if isinstance(entry, str) else dict(entry)
            label = str(spec.pop("label", spec.get("name", "")))
            if not LABEL.fullmatch(label):
                raise BadInputError(
                    f"compare.{position}.label: {label!r} names a folder; use letters, digits and simple signs"
                )
            if label in out:
                raise BadInputError(f"compare.{position}: two entries are called {label!r}; give one a label")
            out[label] = self._variant(spec)
        return out

    def _variant(self, spec: Spec) -> Experiment:
        """Give an algorithm the common settings (rounds, fit) that it has parameters for, and its own."""
        own = {key: spec.pop(key) for key in list(spec) if key in VARIANT_KEYS}
        common = {key: value for key, value in self.algorithm.items() if key in {"rounds", "fit"}}
        if spec.get("name") == self.algorithm.get("name"):
            common = dict(self.algorithm)
        merged = {**common, **spec}
        if isinstance(common.get("fit"), Mapping) and isinstance(spec.get("fit"), Mapping):
            merged["fit"] = {**common["fit"], **spec["fit"]}
        table = {**self.model_dump(exclude={"compare"}), **own, "algorithm": merged}
        return experiment(table, given=replace(self._given, algorithm=None))

    def with_algorithm(self, entry: Algorithm | Mapping[str, Any] | str) -> Experiment:
        """Return the same experiment with another algorithm: an object, a table, or a name."""
        if not isinstance(entry, Algorithm):
            return self._variant({"name": entry} if isinstance(entry, str) else dict(entry))
        table = self.model_dump(exclude={"compare"}) | {"algorithm": {"name": entry.name}}
        return experiment(table, given=replace(self._given, algorithm=entry))


VARIANT_KEYS = frozenset(
    {"partition", "shifts", "participation", "topology", "model", "split", "faults", "stragglers"}
)


def experiment(table: Mapping[str, Any], source: str = "", given: Given | None = None) -> Experiment:
    """Return the experiment of a table, checked; the first complaint as one sentence."""
    try:
        made = Experiment.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden":
            known = Experiment.model_fields if len(first["loc"]) == 1 else []
            text = f"{'.'.join(map(str, first['loc']))}: {unknown('key', first['loc'][-1], known)}"
            raise BadInputError(_at(source, text)) from error
        raise BadInputError(_at(source, sentence(error, ""))) from error
    made._given = given or Given()
    if made._given.algorithm is not None:
        made = made.model_copy(update={"algorithm": {"name": made._given.algorithm.name}})
    try:
        made.check()
    except BadInputError as error:
        raise BadInputError(_at(source, str(error))) from error
    return made


def load(
    file: Path,
    overrides: Sequence[str] = (),
    *,
    given: Given | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Experiment:
    """Read an experiment file and apply `path=value` overrides, changed keys and given objects."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInputError(f"{file}: no such file") from error
    except (IsADirectoryError, UnicodeDecodeError) as error:
        raise BadInputError(f"{file}: is not a TOML file") from error
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{file}: is not valid TOML: {error}") from error
    for override in overrides:
        _override(table, override)
    return experiment({**table, **(changes or {})}, str(file), given)


def _override(table: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise BadInputError(f"--set {override}: must be path=value, such as algorithm.rounds=20")
    steps = path.strip().split(".")
    here: Any = table
    for step in steps[:-1]:
        if isinstance(here, list) and step.isdigit() and int(step) < len(here):
            here = here[int(step)]
        elif isinstance(here, dict):
            here = here.setdefault(step, {})
        if not isinstance(here, dict | list):
            raise BadInputError(f"--set {override}: {step!r} is not a table")
    if isinstance(here, list):
        if not steps[-1].isdigit() or int(steps[-1]) >= len(here):
            raise BadInputError(f"--set {override}: the list has {len(here)} entries")
        here[int(steps[-1])] = _parsed(text)
    else:
        here[steps[-1]] = _parsed(text)


def _parsed(text: str) -> Any:
    """Read a value as TOML; a bare word is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _initial(file: Path, model: Model) -> Params:
    """Read initial parameters from a safetensors file; they must be those of the model."""
    try:
        params = dict(load_file(file))
    except (OSError, SafetensorError) as error:
        raise BadInputError(f"init: {file} is not a readable safetensors file ({error})") from error
    shapes = {name: leaf.shape for name, leaf in params.items()}
    wanted = {name: slot.shape for name, slot in model.slots.items()}
    odd = sorted(name for name in shapes.keys() | wanted.keys() if shapes.get(name) != wanted.get(name))
    if odd:
        raise BadInputError(f"init: {file} does not fit the model in {', '.join(odd[:4])}")
    return params


def _at(source: str, text: str) -> str:
    return f"{source}: {text}" if source else text


def _plain(value: Any) -> Any:
    """Turn tuples into lists and drop None, for TOML and JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
