"""The loop behind "a share of the peak" does what is counted."""

from lab import peak


def test_every_sum_takes_part():
    """Each goes to step / (1 - factor) = 2, whatever it began with: one that is left out would not."""
    assert peak.native().tg_peak(200) == 2 * peak.SUMS
    assert 1 < peak.native().tg_peak(1) / peak.SUMS < 8
