"""Every variant that the ablation times is a right one: it trains to the same losses."""

import pytest

pytest.importorskip("wgpu", reason="wgpu-py is not installed")

from lab import ablation
from tinygpt.core.presets import preset
from tinygpt.engines.gpu import all_adapters

if not all_adapters():
    pytest.skip("wgpu finds no adapter, not even a software one", allow_module_level=True)

SHIPPED = "as shipped"


@pytest.fixture(scope="module")
def config():
    return preset("tiny").replace(layers=1, d_model=32, heads=1, ctx=32, batch=4)


@pytest.fixture(scope="module")
def shipped(config):
    return ablation.losses_of(SHIPPED, config, 4)


@pytest.mark.slow
@pytest.mark.parametrize("label", [label for label in ablation.VARIANTS if label != SHIPPED])
def test_a_variant_trains_alike(label, config, shipped):
    limit = 1e-4 if label == "float16 tiles" else 1e-6
    assert ablation.losses_of(label, config, 4) == pytest.approx(shipped, rel=limit)


@pytest.mark.slow
def test_a_variant_leaves_nothing_behind(config):
    before = [getattr(swap.owner, swap.name) for swaps in ablation.VARIANTS.values() for swap in swaps]
    ablation.losses_of("gradients in one slice", config, 1)
    after = [getattr(swap.owner, swap.name) for swaps in ablation.VARIANTS.values() for swap in swaps]
    assert before == after


def test_every_tile_list_has_a_tile():
    lists = [swap.value for swaps in ablation.VARIANTS.values() for swap in swaps if swap.name == "TILES"]
    assert len(lists) == 4 and all(lists)
