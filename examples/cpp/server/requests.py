"""What the program `server` lets scripts do with a request: some answer, some fail, some never end."""

import crossdock as xd


def answer(number: int, values: xd.Tensor) -> float:
    """The sum of the values; each tenth request is wrong, and each twentieth never ends."""
    if number % 20 == 7:
        tally("endless")
        while True:
            pass
    if number % 10 == 3:
        raise ValueError(f"request {number} is wrong")
    tally("answered")
    return sum(values.to("cpu").tolist())
