"""What an optimizer is to the programs of a run and to its state."""

from collections import namedtuple

# slots: names of the vectors over all parameters that it keeps, in the order of a file; all are zeros at first.
# rates: names of the numbers that its ops take of each step from the table `rates`.
# rates_of(train, step): those of step number `step`, counted from 1.
# update(p, config, memory): appends the ops of a step of memory.live, behind the clip of the gradients to `norm`.
Optimizer = namedtuple("Optimizer", ("slots", "rates", "rates_of", "update"))
