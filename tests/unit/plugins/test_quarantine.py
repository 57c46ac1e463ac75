"""When a plugin is put off."""

import pytest

from kagura_kernel.plugins.jail.jail import MAX_DEATHS, MAX_DEFECTS, Outcome, Troubles


def noted(*outcomes: Outcome) -> list[str]:
    troubles = Troubles()
    return [troubles.note(outcome, f"the {number}.") for number, outcome in enumerate(outcomes, 1)]


def test_a_breach_counts_at_once_and_names_what_was_sent():
    assert noted(Outcome.BREACH) == ["it broke out of the protocol of its jail: the 1."]


@pytest.mark.parametrize(("outcome", "most"), [(Outcome.DEATH, MAX_DEATHS), (Outcome.DEFECT, MAX_DEFECTS)])
def test_trouble_in_a_row_counts_with_its_last_reason(outcome, most):
    *before, last = noted(*[outcome] * most)
    assert before == [""] * (most - 1)
    assert f"{most} times in a row" in last
    assert last.endswith(f"the {most}.")


@pytest.mark.parametrize(("outcome", "most"), [(Outcome.DEATH, MAX_DEATHS), (Outcome.DEFECT, MAX_DEFECTS)])
def test_an_answer_begins_the_count_anew(outcome, most):
    row = [outcome] * (most - 1) + [Outcome.ANSWER]
    assert not any(noted(*row * 4))


def test_deaths_and_defects_are_counted_apart():
    row = [Outcome.DEFECT] * (MAX_DEFECTS - 1) + [Outcome.DEATH] * (MAX_DEATHS - 1)
    assert not any(noted(*row))
