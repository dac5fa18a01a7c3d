from __future__ import annotations

from dualmem.labels import letters, numbered


def test_letters_go_on_after_z() -> None:
    labels = list(letters(str(number) for number in range(26 + 26 * 26 + 1)).values())
    assert labels[:3] == ["A", "B", "C"]
    assert labels[25:28] == ["Z", "AA", "AB"]
    assert labels[-2:] == ["ZZ", "AAA"]
    assert len(set(labels)) == len(labels)


def test_a_repeated_id_has_one_label() -> None:
    assert letters(["x", "y", "x"]) == {"x": "A", "y": "B"}
    assert numbered(["x", "y", "x"], "M") == {"x": "M1", "y": "M2"}


def test_nothing_to_label() -> None:
    assert letters([]) == numbered([], "T") == {}
