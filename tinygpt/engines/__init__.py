"""What replays a training step: the contract, and the engines behind it."""
