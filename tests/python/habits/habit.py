"""What a habit is, and all of them.

A habit needs and makes variables: in `needs -> makes` each side is a list of `name: words`, split by `;`. A variable
that is needed has all of the words:

- `array`, `tensor`, `stream` or `queue`; its device (`cpu`, `opencl`) and its dtype;
- `whole`: no view. `readonly`: crossdock refuses to write it;
- `exact`: its values are those of `want_NAME`. `writable`: the script may write it.

What is made has these too, and may say where its memory comes from:

- `of NAME`: it has the dtype of that variable, and shares its memory unless it is `new`;
- `view`: a part of it on the same device. `like`: all of it on the same device;
- `frozen`: nobody writes the memory from here on.

In words and lines `$device`, `$place` (a device without its number), `$dtype`, `$shape`, `$n`, `$moment` and `$value`
are drawn; `$new` in lines is a name that no other habit has.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Habit:
    """Some lines that users write, with `$names` for what they need and make."""

    name: str
    theme: str
    body: str
    needs: dict[str, set[str]]
    makes: dict[str, list[str]]
    uses: frozenset[str]
    tops: tuple[str, ...]
    mistakes: tuple[str, ...]
    # Variables: after it the values of these are not known, nobody writes those, and the last are gone.
    blurs: tuple[str, ...]
    freezes: tuple[str, ...]
    drops: tuple[str, ...]
    # No later habit may have one of these in its lines.
    bars: tuple[str, ...]
    # Tops of scripts in which it does not work, without crossdock too.
    never_with: tuple[str, ...]
    weight: int
    is_end: bool
    is_slow: bool


@dataclass
class Habits:
    """The habits, and what scripts have at their top: imports, and functions that spawned processes need."""

    habits: list[Habit] = field(default_factory=list)
    tops: dict[str, str] = field(default_factory=dict)


ALL = Habits()


class Theme:
    """Adds the habits of one theme: each is a name, `needs -> makes`, and lines."""

    def __init__(self, name: str, uses: str = "") -> None:
        self.name, self.uses = name, uses

    def __call__(
        self,
        name: str,
        signature: str,
        body: str,
        *,
        uses: str = "",
        tops: str = "",
        mistakes: Sequence[str] = (),
        blurs: str = "",
        freezes: str = "",
        drops: str = "",
        bars: str = "",
        never_with: str = "",
        weight: int = 2,
        is_end: bool = False,
        is_slow: bool = False,
    ) -> None:
        left, _, right = signature.partition("->")
        needs = {key: set(words) for key, words in _entries(left)}
        ALL.habits.append(
            Habit(
                name=name,
                theme=self.name,
                body=textwrap.dedent(body).lstrip("\n"),
                needs=needs,
                makes=dict(_entries(right)),
                uses=frozenset(f"{self.uses} {uses}".split()),
                tops=tuple(tops.split()),
                mistakes=tuple(mistakes),
                blurs=tuple(blurs.split()),
                freezes=tuple(freezes.split()),
                drops=tuple(drops.split()),
                bars=tuple(bars.split()),
                never_with=tuple(never_with.split()),
                weight=weight,
                is_end=is_end,
                is_slow=is_slow,
            )
        )


def _entries(text: str) -> list[tuple[str, list[str]]]:
    """`t: tensor cpu; s: stream` in parts."""
    parts = [part.partition(":") for part in text.split(";") if part.strip()]
    return [(name.strip(), words.split()) for name, _, words in parts]


def top(name: str, text: str) -> None:
    """Lines at the script's top, which habits name in `tops`."""
    ALL.tops[name] = textwrap.dedent(text).lstrip("\n")
