"""What can be run, by the names of the library and not by flags."""

from __future__ import annotations

import pytest

from noisyor.errors import InvalidSettingError
from reproduction import NAMES, experiment
from reproduction.protocol import Choice


def test_the_papers_lists_are_the_defaults():
    specs = {name: experiment(name).specs((), Choice(), (), range(10), None, 0) for name in NAMES}
    sizes = {name: len(found) for name, found in specs.items()}
    assert sizes == {
        "tiny20": 40,
        "text": 5 * 40,
        "bmf": 9 * 40,
        "overparam": 7 * 4 * 2 * 10,
        "deconvolution": 40,
    }
    assert {spec.steps for spec in specs["overparam"]} == {45_000}
    assert {spec.steps for spec in specs["bmf"]} == {40_000}
    names = [spec.name for found in specs.values() for spec in found]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "choice", "message"),
    [
        ("bmf", Choice(datasets=["IMG"]), "bmf takes sizes, not datasets"),
        (
            "overparam",
            Choice(sizes=["3,2"]),
            "overparam takes datasets and n_components, not sizes",
        ),
        ("text", Choice(n_components=[3]), "text takes datasets, not n_components"),
        ("text", Choice(datasets=["nonsense"]), "text has no data set 'nonsense'; there are IMDB"),
        ("tiny20", Choice(datasets=["BD"]), "tiny20 has no data set 'BD'; there are tiny20"),
        ("overparam", Choice(n_components=[0]), "n_components must be 1, 2, …, got 0"),
        ("bmf", Choice(sizes=["3"]), "a size is n,r, two positive whole numbers, got '3'"),
    ],
)
def test_choices_that_an_experiment_does_not_have(name, choice, message):
    with pytest.raises(InvalidSettingError, match=message) as caught:
        experiment(name).specs((), choice, (), [0], None, 0)
    assert "--" not in str(caught.value)


def test_choices_become_cases():
    overparam = experiment("overparam").cases(Choice(datasets=["IMG"], n_components=[8, 9]))
    assert overparam == ["IMG,8", "IMG,9"]
    assert experiment("bmf").cases(Choice(sizes=["12, 3"])) == ["12,3"]
