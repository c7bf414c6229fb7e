"""The draft of the Python protocol before `max_version` (rules 131 to 134)."""

from typing import Any

import crossdock as xd
import handmade
import numpy as np
import pytest


class Draft:
    """A producer that speaks the draft up to a version."""

    def __init__(self, speaks: int, forged: handmade.Forged) -> None:
        self.speaks, self.forged = speaks, forged
        self.asked: list[Any] = []

    def __dlpack_info__(self) -> Any:
        return self.speaks

    def __dlpack_device__(self) -> Any:
        return 1, 0

    def __dlpack__(self, *, stream: Any = None, version: Any = None) -> Any:
        self.asked.append(version)
        return self.forged.capsule(b"dltensor")


def tensor() -> xd.Tensor:
    return xd.from_dlpack(np.arange(3.0))


def test_rule_131_ours_speaks_version_130() -> None:
    assert tensor().__dlpack_info__() == 130


@pytest.mark.parametrize("version", [None, 0, 20, 60])
def test_rule_132_old_versions_are_the_legacy_struct(version: Any) -> None:
    capsule = tensor().__dlpack__(version=version)
    assert handmade.name_of(capsule) == b"dltensor"
    assert handmade.struct_in(capsule).tensor.ndim == 1


@pytest.mark.parametrize("version", [61, 80, 99])
def test_rule_132_versions_that_were_never_released_are_refused(version: Any) -> None:
    with pytest.raises(BufferError):
        tensor().__dlpack__(version=version)


@pytest.mark.parametrize("version", [100, 130, 999])
def test_rule_132_new_versions_are_the_new_struct_under_the_old_name(version: Any) -> None:
    capsule = tensor().__dlpack__(version=version)
    assert handmade.name_of(capsule) == b"dltensor"
    managed = handmade.versioned_in(capsule)
    assert (managed.major, managed.tensor.ndim) == (1, 1)


def test_rule_132_both_keywords_are_a_type_error() -> None:
    with pytest.raises(TypeError):
        tensor().__dlpack__(version=100, max_version=(1, 0))
    with pytest.raises(TypeError):
        text: Any = "60"
        tensor().__dlpack__(version=text)


def test_rule_132_an_unused_capsule_of_the_draft_releases_its_tensor() -> None:
    forged = handmade.Forged()
    capsule = xd.from_dlpack(forged.capsule()).__dlpack__(version=100)
    assert forged.deleted == 0
    del capsule
    assert forged.deleted == 1


def test_a_capsule_of_the_draft_that_is_ours_comes_back_as_what_it_holds() -> None:
    forged = handmade.Forged()
    ours = xd.from_dlpack(forged.capsule())
    again = xd.from_dlpack(ours.__dlpack__(version=100))
    assert again.data_ptr() == forged.address and again.shape == ours.shape
    del ours, again
    assert forged.deleted == 1


@pytest.mark.parametrize(
    ("speaks", "asked"),
    [(20, 20), (60, 60), (61, 60), (99, 60), (100, 100), (130, 130), (250, 130)],
)
def test_rule_133_the_highest_version_that_both_speak_is_asked_for(speaks: Any, asked: Any) -> None:
    forged = handmade.Forged(version=(1, 0) if asked >= 100 else None)
    producer = Draft(speaks, forged)
    ours = xd.from_dlpack(producer)
    assert producer.asked == [asked] and ours.data_ptr() == forged.address
    del ours
    assert forged.deleted == 1


@pytest.mark.parametrize("speaks", [-1, 0, 10])
def test_rule_133_no_common_version_is_a_buffer_error(speaks: Any) -> None:
    producer = Draft(speaks, handmade.Forged(version=None))
    with pytest.raises(BufferError):
        xd.from_dlpack(producer)
    assert producer.asked == []


def test_rule_134_who_knows_max_version_is_not_asked_in_the_draft() -> None:
    class Both(handmade.Producer):
        def __dlpack_info__(self) -> None:
            raise AssertionError("asked for its version")

    assert xd.from_dlpack(Both(handmade.Forged())).shape == (2, 3)


def test_rule_134_a_struct_is_never_guessed() -> None:
    forged = handmade.Forged(version=(7, 0))
    producer = Draft(130, forged)
    with pytest.raises(BufferError, match="another one"):
        xd.from_dlpack(producer)
    # Nobody can tell where its deleter is: the capsule keeps it.
    assert forged.deleted == 0


def test_rule_134_the_old_name_is_the_old_struct_where_nobody_asked_for_a_new_one() -> None:
    forged = handmade.Forged((2,), version=None)
    ours = xd.from_dlpack(handmade.Producer(forged))
    assert ours.data_ptr() == forged.address and ours.readonly


def test_the_draft_goes_round_between_two_of_ours() -> None:
    class Old:
        def __init__(self, ours: Any) -> None:
            self.ours = ours

        def __dlpack_info__(self) -> Any:
            return self.ours.__dlpack_info__()

        def __dlpack_device__(self) -> Any:
            return self.ours.__dlpack_device__()

        def __dlpack__(self, *, stream: Any = None, version: Any = None) -> Any:
            return self.ours.__dlpack__(version=version)

    array = np.arange(3.0)
    back = xd.from_dlpack(Old(xd.from_dlpack(array)))
    assert back.data_ptr() == array.ctypes.data and not back.readonly
