"""Many runs that differ in some settings: what to try, trying it, what came of it. Free of the command line."""

from tinygpt.sweeps.folder import SweepFolder, read_results
from tinygpt.sweeps.plan import Axis, Plan, Run
from tinygpt.sweeps.results import Result, Standing, edge_notes, standings

__all__ = ["Axis", "Plan", "Result", "Run", "Standing", "SweepFolder", "edge_notes", "read_results", "standings"]
