"""How much memory there is, as containers and nested groups limit it, on made-up systems."""

import pytest

from tinygpt.core.errors import TinyGPTError
from tinygpt.engines import machine

MEMINFO = "MemTotal:       64000 kB\nMemAvailable:   32000 kB\n"
HOST = 32000 * 1024
UNLIMITED = "9223372036854771712\n"


def system(root, files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return machine.available_memory(root)


def group(folder, limit, usage, cache=0):
    return {
        f"sys/fs/cgroup/{folder}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{folder}memory.current": f"{usage}\n",
        f"sys/fs/cgroup/{folder}memory.stat": f"anon 5\ninactive_file {cache}\nactive_file 7\n",
    }


def legacy(folder, limit, usage, cache=0):
    return {
        f"sys/fs/cgroup/memory/{folder}memory.limit_in_bytes": f"{limit}\n",
        f"sys/fs/cgroup/memory/{folder}memory.usage_in_bytes": f"{usage}\n",
        f"sys/fs/cgroup/memory/{folder}memory.stat": f"inactive_file 1\ntotal_inactive_file {cache}\n",
    }


@pytest.mark.parametrize(
    "files, available",
    [
        ({}, HOST),
        ({"proc/self/cgroup": "0::/\n", **group("", 10_000, 4_000, 1_000)}, 7_007),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/b/", "max", 10), **group("a/", 9_000, 2_000)}, 7_007),
        ({"proc/self/cgroup": "0::/a/b\n", **group("a/b/", 5_000, 1_000), **group("a/", 9_000, 8_000)}, 1_007),
        ({"proc/self/cgroup": "0::/of/the/host\n", **group("", 10_000, 4_000)}, 6_007),
        ({"proc/self/cgroup": "0::/\n", **group("", 1_000, 3_000)}, 0),
        ({"proc/self/cgroup": "0::/\n", **group("", 10 * HOST, 0)}, HOST),
        ({"proc/self/cgroup": "4:cpu,memory:/a\n0::/\n", **legacy("a/", 10_000, 4_000, 1_000)}, 7_000),
        (
            {"proc/self/cgroup": "4:memory:/a\n", **legacy("a/", UNLIMITED.strip(), 4), **legacy("", 9_000, 2_000)},
            7_000,
        ),
        ({"proc/self/cgroup": "3:cpu:/a\n", **legacy("a/", 10, 4)}, HOST),
    ],
    ids=["none", "v2", "outer", "outer full", "mounted", "over", "larger than the host", "v1", "v1 outer", "no memory"],
)
def test_the_least_of_host_and_groups_is_available(tmp_path, files, available):
    assert system(tmp_path, files) == available


def test_a_system_that_says_nothing_is_believed(tmp_path, monkeypatch):
    assert machine.available_memory(tmp_path) is None
    monkeypatch.setattr(machine, "available_memory", lambda: None)
    machine.check_memory(2**60)


def test_what_does_not_fit_is_refused_with_both_figures(monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 2**30)
    machine.check_memory(2**30)
    with pytest.raises(TinyGPTError, match=r"needs 2\.0 GiB of memory, but 1\.0 GiB are available"):
        machine.check_memory(2**31)
