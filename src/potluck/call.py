"""A configuration is a call: names are looked up in explicit tables, and the signature is the schema.

`{ name = "dirichlet", beta = 0.5 }` means `PARTITIONS["dirichlet"](beta=0.5)`. Arguments are checked one by
one against the annotations, nested tables against the fields of their dataclass, and every complaint
carries its path.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import typing
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from potluck.errors import BadInputError, unknown

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Tables = Mapping[type, Mapping[str, Callable[..., Any]]]
Roles = Mapping[type, tuple[str, Mapping[str, Callable[..., Any]]]]
LOOSE = ConfigDict(arbitrary_types_allowed=True)
LONG = 60


class Maker:
    """Builds the objects that a configuration names; `roles` says in which table an annotated type is looked up."""

    def __init__(self, roles: Roles) -> None:
        self.roles = roles

    def entry(
        self, kind: str, table: Mapping[str, Callable[..., Any]], spec: Any, path: str
    ) -> Callable[..., Any]:
        """Return the callable that a spec names."""
        if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
            raise BadInputError(f'{path}: must be a table with a name, such as {path} = {{ name = "..." }}')
        found = extended(kind, table)
        if spec["name"] not in found:
            raise BadInputError(f"{path}.name: {unknown(kind, spec['name'], found)}")
        return found[spec["name"]]

    def make(
        self, kind: str, table: Mapping[str, Callable[..., Any]], spec: Any, path: str, *given: Any
    ) -> Any:
        """Call what a spec names; `given` are leading arguments that do not come from the configuration."""
        function = self.entry(kind, table, spec, path)
        arguments = {key: value for key, value in spec.items() if key != "name"}
        return function(*given, **self.checked(function, arguments, path, skip=len(given)))

    def checked(
        self, function: Callable[..., Any], arguments: Mapping[str, Any], path: str, skip: int = 0
    ) -> dict[str, Any]:
        """Return validated arguments; a missing or unknown one is named with its path."""
        hints = get_type_hints(
            function.__init__ if inspect.isclass(function) else function, include_extras=True
        )
        parameters = dict(list(inspect.signature(function).parameters.items())[skip:])
        for key in arguments:
            if key not in parameters:
                near = _near(key, parameters, hints)
                raise BadInputError(f"{path}.{key}: no such key; {near}")
        for key, parameter in parameters.items():
            if parameter.default is inspect.Parameter.empty and key not in arguments:
                raise BadInputError(f"{path}.{key}: is missing")
        return {
            key: self._value(hints.get(key, Any), value, f"{path}.{key}") for key, value in arguments.items()
        }

    def _value(self, hint: Any, value: Any, path: str) -> Any:
        plain = _without_none(hint)
        if plain in self.roles:
            kind, table = self.roles[plain]
            return value if isinstance(value, plain) else self.make(kind, table, value, path)
        if dataclasses.is_dataclass(plain) and isinstance(plain, type) and isinstance(value, Mapping):
            return self.fields(plain, value, path)
        return validated(hint, value, path)

    def fields(self, kind: type, value: Mapping[str, Any], path: str) -> Any:
        """Build a dataclass from a table of its fields."""
        try:
            return kind(**self.checked(kind, value, path))
        except ValueError as error:
            text = str(error)
            raise BadInputError(text if text.startswith(path) else f"{path}: {text}") from error

    def resolved(
        self, kind: str, table: Mapping[str, Callable[..., Any]], spec: Mapping[str, Any], skip: int = 0
    ) -> dict[str, Any]:
        """Return a spec with all defaults written out."""
        function = extended(kind, table)[spec["name"]]
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        hints = get_type_hints(
            function.__init__ if inspect.isclass(function) else function, include_extras=True
        )
        made = _made_defaults(function)
        out: dict[str, Any] = {"name": spec["name"]}
        for parameter in parameters:
            value = spec.get(parameter.name, made.get(parameter.name, parameter.default))
            out[parameter.name] = self._plain(hints.get(parameter.name, Any), value)
        return {key: value for key, value in out.items() if value is not None}

    def _plain(self, hint: Any, value: Any) -> Any:
        plain = _without_none(hint)
        if plain in self.roles and value is not None:
            kind, table = self.roles[plain]
            if isinstance(value, Mapping):
                return self.resolved(kind, table, value)
            names = {entry: name for name, entry in extended(kind, table).items()}
            return {"name": names.get(type(value), type(value).__name__), **self._fields(value)}
        if dataclasses.is_dataclass(plain) and isinstance(plain, type) and isinstance(value, Mapping):
            return self._fields(self.fields(plain, value, ""))
        return self._fields(value) if dataclasses.is_dataclass(value) else value

    def _fields(self, value: Any) -> dict[str, Any]:
        hints = get_type_hints(type(value), include_extras=True)
        pairs = {
            f.name: self._plain(hints[f.name], getattr(value, f.name)) for f in dataclasses.fields(value)
        }
        return {key: item for key, item in pairs.items() if item is not None}


def _made_defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults that a dataclass makes anew for each instance, which its signature does not show."""
    if not dataclasses.is_dataclass(function):
        return {}
    made = [field for field in dataclasses.fields(function) if callable(field.default_factory)]
    return {field.name: field.default_factory() for field in made if callable(field.default_factory)}


def extended(kind: str, table: Mapping[str, Callable[..., Any]]) -> Mapping[str, Callable[..., Any]]:
    """Return a table with what other installed packages add to it (entry points of the group potluck.<kind>)."""
    group = "potluck." + kind.replace(" ", "_")
    return {**{point.name: point.load() for point in entry_points(group=group)}, **table}


def validated(hint: Any, value: Any, path: str) -> Any:
    """Check one value against its annotation."""
    try:
        adapter = TypeAdapter(hint, config=LOOSE) if not _owns_config(hint) else TypeAdapter(hint)
        return adapter.validate_python(value)
    except ValidationError as error:
        raise BadInputError(sentence(error, path)) from error


def verify(part: Any, path: str) -> None:
    """Check the numbers and words in a dataclass that was built from Python, and in those that it holds."""
    hints = get_type_hints(type(part), include_extras=True)
    for field in dataclasses.fields(part):
        value, where = getattr(part, field.name), f"{path}.{field.name}"
        if dataclasses.is_dataclass(value):
            verify(value, where)
        elif isinstance(value, bool | int | float | str | tuple):
            validated(hints[field.name], value, where)


def sentence(error: ValidationError, path: str) -> str:
    """Turn pydantic's first complaint into one line with its path."""
    found = error.errors()
    first, steps = found[0], _place(found[0])
    where = ".".join([path, *steps] if path else steps)
    if first["type"] in OTHER:
        return f"{where}: {OTHER[first['type']]}"
    alternatives = dict.fromkeys(_words(each) for each in found if _place(each) == steps)
    return f"{where}: must be {' or '.join(alternatives)}, got {_shown(first['input'])}"


PLAIN = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dataclass_type": "a table",
    "dict_type": 'a table such as { name = "..." }',
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "a table",
    "model_type": "a table",
    "string_pattern_mismatch": "letters, digits, dots, dashes, underscores or spaces, a letter or digit first",
    "string_too_short": "some text",
    "string_type": "text",
    "too_short": "a list that is not empty",
    "tuple_type": "a list",
}
"""What pydantic's kinds of complaint mean to somebody who writes a configuration."""

OTHER = {"missing": "is missing", "unexpected_keyword_argument": "no such key"}


def _words(complaint: ErrorDetails) -> str:
    """Say what a value must be."""
    if complaint["type"] in PLAIN:
        return PLAIN[complaint["type"]]
    words = complaint["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    words = words.replace("greater than or equal to", ">=").replace("less than or equal to", "<=")
    return words.replace("greater than", ">").replace("less than", "<")


def _shown(value: object) -> str:
    """Return a value as it was given, cut where it would hide the sentence."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONG else f"{text[:LONG]} ..."


def _place(complaint: ErrorDetails) -> list[str]:
    return [str(step) for step in complaint["loc"] if not _noise(step)]


def _noise(step: object) -> bool:
    """Tell whether a step of pydantic's location names a branch of a union instead of a key."""
    branch = {
        "int",
        "float",
        "str",
        "bool",
        "none",
        "constrained-int",
        "constrained-float",
        "constrained-str",
    }
    return isinstance(step, str) and (step in branch or "[" in step)


def _owns_config(hint: Any) -> bool:
    return isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "model_fields"))


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if type(None) in typing.get_args(hint) and len(options) == 1:
        return options[0]
    return hint


def _near(key: str, parameters: Mapping[str, Any], hints: Mapping[str, Any]) -> str:
    """Say which keys are near, also one level down (`lr` is `fit.lr`)."""
    paths = {name: name for name in parameters}
    for name in parameters:
        inner = _without_none(hints.get(name, Any))
        if dataclasses.is_dataclass(inner) and isinstance(inner, type):
            paths |= {f"{name}.{field.name}": field.name for field in dataclasses.fields(inner)}
    exact = [path for path, last in paths.items() if last == key]
    near = exact or difflib.get_close_matches(key, list(paths), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(parameters) or 'none'}"
