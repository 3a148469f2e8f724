"""Small random histories for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.graphs import FakeRefs, graph


@st.composite
def histories(draw: st.DrawFn) -> FakeRefs:
    """Histories of up to 14 commits, the last one reaching most of them.

    Merges have up to three parents, a few commits have none, and dates contradict ancestry and
    each other's order, many being the same.
    """
    count = draw(st.integers(1, 14))
    names = [chr(ord("a") + number) for number in range(count)]
    chains = ["a"]
    for number in range(1, count):
        reach = names[max(0, number - draw(st.integers(1, 6))) : number]
        fewest = 0 if number < count - 1 and draw(st.integers(0, 9)) == 0 else 1
        parents = draw(st.lists(st.sampled_from(reach), min_size=fewest, max_size=3, unique=True))
        chains.append("-".join(filter(None, ["+".join(parents), names[number]])))
    minutes = draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return graph(",".join(chains), minutes=dict(zip(names, minutes, strict=True)))
