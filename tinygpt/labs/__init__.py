"""Labs: what a reader derives, breaks and mends, checked by the project's own oracles, also in a browser tab."""
