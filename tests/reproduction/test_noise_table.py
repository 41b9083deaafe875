"""Factorisations by kind of noise: the best start of each, beside the paper's number."""

from run_records import run

from reproduction import experiment
from reproduction.comparison import entries
from reproduction.page import noise_table

NOISES = experiment("bmf").noises


def table(*records):
    return noise_table(entries(experiment("bmf"), records), NOISES, "test_elbo").splitlines()


def factored(elbo, noise, init="paper-3", seed=0, method="mp-two-stage", case="200,80"):
    how = {"experiment": "bmf", "noise": noise, "test_elbo": elbo}
    return run(seed, init, method, case, 40_000, **how)


def test_the_best_start_of_each_noise_is_in_its_column():
    _, _, row = table(
        factored(-64.0, "gaussian"),
        factored(-90.0, "uniform"),
        factored(-81.0, "uniform", "paper-2"),
        factored(-83.0, "uniform", "paper-2", seed=1),
    )
    case, gaussian, wide, uniform, paper = [cell.strip() for cell in row.strip("| ").split("|")]
    assert (case, paper) == ("200,80", "-80.23 (1.68)")
    assert gaussian.startswith("-64.00 (+2.9), paper-3 of 1 start, seeds 0")
    assert wide == "–"
    # one standard error apart from the paper would be the root of 1.68^2 + 1.68^2 * 10 / 2
    assert uniform == "-82.00 (-0.4), paper-2 of 2 starts, seeds 0-1"


def test_cases_with_one_noise_and_other_orders_of_messages_are_left_out():
    collapsed = factored(-85.0, "uniform", method="mp")
    assert table(factored(-64.0, "gaussian"), collapsed) == []
    assert table(collapsed) == []
