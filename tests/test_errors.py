"""The tree that the module shows is the tree of its classes."""

from __future__ import annotations

import re

from dualmem import errors


def drawn() -> list[tuple[str, str]]:
    """Return the (child, parent) pairs of the tree in the module's docstring."""
    lines = (errors.__doc__ or "").splitlines()
    start = lines.index("DualmemError")
    path = {0: "DualmemError"}
    pairs = []
    for line in lines[start + 1 :]:
        found = re.match(r"^([│├└─ ]*)(\w+)", line)
        if not found or not set(found[1]) & set("├└"):
            break
        depth = len(found[1]) // 4
        path[depth] = found[2]
        pairs.append((found[2], path[depth - 1]))
    return pairs


def test_the_drawn_tree_is_the_tree_of_the_classes() -> None:
    classes = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DualmemError)
    ]
    actual = [(kind.__name__, kind.__bases__[0].__name__) for kind in classes if kind is not errors.DualmemError]
    assert len(drawn()) > 10
    assert drawn() == actual


def test_every_error_is_exported_and_says_what_it_means() -> None:
    names = {child for child, _ in drawn()} | {"DualmemError"}
    assert set(errors.__all__) == names
    assert all(getattr(errors, name).__doc__ for name in names)


def test_what_concerns_a_caller_is_a_value_error_which_servers_show() -> None:
    shown = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ValueError)}
    assert {kind.__name__ for kind in shown if issubclass(kind, errors.DualmemError)} == {
        name
        for name in errors.__all__
        if issubclass(getattr(errors, name), errors.InputError | errors.ConfigurationError)
    }
    assert not issubclass(errors.StoreError, ValueError)
    assert not issubclass(errors.ModelError, ValueError)
