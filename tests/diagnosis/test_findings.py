import pytest

import noisyor as nor
from noisyor.data.observations import Observations
from noisyor.diagnosis.findings import (
    find_visible,
    find_visibles,
    state_of_finding,
    with_finding,
)
from noisyor.errors import InvalidDataError
from noisyor.model.labels import visible_label


def test_found_in_any_case_or_by_number(clinic, deep):
    assert find_visible(clinic, "Red Eyes") == 5
    assert find_visible(clinic, "2") == 2
    assert find_visible(deep, "column 3") == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fevr", "'fevr'.*did you mean 'fever'"),
        ("eyes", "did you mean 'red eyes'"),
        ("xyz", "'xyz'"),
    ],
)
def test_near_matches(clinic, text, message):
    with pytest.raises(InvalidDataError, match=message):
        find_visible(clinic, text)


def test_numbers_where_there_are_no_names(deep):
    with pytest.raises(InvalidDataError, match=r"have no names.*0 to 5"):
        find_visible(deep, "6")


def test_a_text_is_no_list_of_names(clinic):
    assert find_visibles(clinic, ["cough", 0]) == [1, 0]
    with pytest.raises(InvalidDataError, match="list of names"):
        find_visibles(clinic, "cough")


def test_every_finding_can_be_known_otherwise():
    row = Observations.from_evidence(6, [2], [4])
    assert [state_of_finding(row, k) for k in (2, 4, 0)] == ["present", "absent", "unknown"]
    for finding in (2, 4, 0):
        for state in ("present", "absent", "unknown"):
            other = with_finding(row, finding, state)
            assert state_of_finding(other, finding) == state
            rest = [k for k in range(6) if k != finding]
            assert [state_of_finding(other, k) for k in rest] == [
                state_of_finding(row, k) for k in rest
            ]


def test_pixels_go_by_their_place():
    image = nor.convolutional((4, 5), 1, (2, 2))
    assert find_visible(image, visible_label(image, 7)) == 7
    for outside in ("pixel 4,0", "pixel 0,5", "pixel 1"):
        with pytest.raises(InvalidDataError):
            find_visible(image, outside)
