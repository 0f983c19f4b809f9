"""What an optimizer is to the programs of a run and to its state."""

from collections import namedtuple

# slots: names of the vectors over all parameters that it keeps, in the order of a file; all are zeros at first.
# rates_of(train, step): the numbers that its ops take of step number `step`, counted from 1, from the table `rates`.
# update(p, config, memory): appends the ops of a step of memory.live, behind the clip of the gradients to `norm`.
Optimizer = namedtuple("Optimizer", ("slots", "rates_of", "update"))
