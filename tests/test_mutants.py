"""What tests/mutants.py breaks is still there to be broken."""

from mutants import MUTANTS, ROOT, file_of


def test_each_mutant_has_its_place_and_its_tests() -> None:
    for mutant in MUTANTS:
        assert file_of(mutant, ROOT).read_text(encoding="utf-8").count(mutant.sound) == 1, mutant.name
        assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests.split()), mutant.name
