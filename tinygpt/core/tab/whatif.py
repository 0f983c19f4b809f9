"""What if? What can be changed of a run that is kept, behind one of its steps, and what to expect of it."""

import json

from tinygpt.core.advice.whatif import SAME, facts
from tinygpt.core.config import run_config_of
from tinygpt.core.corpus import train_bytes


def changes(request: str) -> str:
    """Of {"config", "step", "bytes"}, the bytes being those of its text."""
    asked = json.loads(request)
    config = run_config_of(asked["config"])
    rows = facts(config, asked["step"], train_bytes(asked["bytes"], config.train.val_fraction))
    return json.dumps({"same": SAME, "changes": rows})
