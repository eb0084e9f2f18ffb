import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from trunkline import providers, surfaces
from trunkline.base import members
from trunkline.errors import ConfigInvalid
from trunkline.providers import Kind
from trunkline.surfaces import Surface

Make = Callable[..., ModuleType]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a package of the named modules, importable under a name of its own."""

    def make(**modules: str) -> ModuleType:
        folder = tmp_path / "points"
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        for name, code in modules.items():
            (folder / f"{name}.py").write_text(code)
        monkeypatch.syspath_prepend(str(tmp_path))
        return importlib.import_module("points")

    yield make
    for name in [name for name in sys.modules if name.partition(".")[0] == "points"]:
        del sys.modules[name]


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lets other distributions offer members; what they offer is written `name="module:constant"`."""

    def offer(group: str, *points: tuple[str, str]) -> None:
        def found(*, group: str) -> list[EntryPoint]:
            assert group == wanted
            return [EntryPoint(name, value, group) for name, value in points]

        wanted = group
        monkeypatch.setattr(members, "entry_points", found)

    return offer


def test_every_module_is_a_member_and_shared_ones_are_none(package: Make) -> None:
    points = package(b="MEMBER = 'b'", a="MEMBER = 'a'", _shared="raise AssertionError('nobody asked for it')")
    assert list(members.load(points, "MEMBER", str).items()) == [("a", "a"), ("b", "b")]


def test_an_empty_extension_point_has_no_members(package: Make) -> None:
    assert members.load(package(), "MEMBER", str) == {}


@pytest.mark.parametrize(("code", "found"), [("", "NoneType"), ("MEMBER = 7", "int"), ("member = 'a'", "NoneType")])
def test_a_module_without_the_constant_of_the_type_is_named(package: Make, code: str, found: str) -> None:
    with pytest.raises(ConfigInvalid, match=rf"`points\.a\.MEMBER` is {found}, not a str"):
        members.load(package(a=code), "MEMBER", str)


def test_other_distributions_add_members_by_entry_points(package: Make, entry_points: Callable[..., None]) -> None:
    points = package(m="MEMBER = 'm'", _theirs="THEIRS = 'theirs'")
    entry_points("points", ("z", "points._theirs:THEIRS"), ("a", "points._theirs:THEIRS"))
    assert list(members.load(points, "MEMBER", str).items()) == [("a", "theirs"), ("m", "m"), ("z", "theirs")]
    assert members.load(points, "MEMBER", str, third_party=False) == {"m": "m"}


@pytest.mark.parametrize("taken", ["m", "a"], ids=["by a module", "by another entry point"])
def test_a_name_that_is_taken_is_refused(package: Make, entry_points: Callable[..., None], taken: str) -> None:
    points = package(m="MEMBER = 'm'", _theirs="THEIRS = 'theirs'")
    entry_points("points", ("a", "points._theirs:THEIRS"), (taken, "points._theirs:THEIRS"))
    with pytest.raises(ConfigInvalid, match=f"`points._theirs:THEIRS` wants to be `{taken}` in `points`"):
        members.load(points, "MEMBER", str)


@pytest.mark.parametrize("value", ["points._theirs:ABSENT", "points.absent:THEIRS", "nowhere_at_all:THEIRS", "points._broken:THEIRS"])
def test_an_entry_point_that_cannot_be_loaded_is_named(package: Make, entry_points: Callable[..., None], value: str) -> None:
    points = package(_theirs="THEIRS = 'theirs'", _broken="import nowhere_at_all")
    entry_points("points", ("a", value))
    with pytest.raises(ConfigInvalid, match=f"the entry point `{value}` cannot be loaded: "):
        members.load(points, "MEMBER", str)


def test_an_entry_point_of_another_type_is_named(package: Make, entry_points: Callable[..., None]) -> None:
    points = package(_theirs="THEIRS = 7")
    entry_points("points", ("a", "points._theirs:THEIRS"))
    with pytest.raises(ConfigInvalid, match=r"`points\._theirs:THEIRS` is int, not a str"):
        members.load(points, "MEMBER", str)


def test_our_own_extension_points_load() -> None:
    assert set(members.load(providers, "PROVIDER", Kind, third_party=False)) == {
        "anthropic",
        "compatible",
        "daemon",
        "echo",
        "local",
        "openai",
    }
    assert set(members.load(surfaces, "SURFACE", Surface, third_party=False)) == {"anthropic", "models", "openai"}
