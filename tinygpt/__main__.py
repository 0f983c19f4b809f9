"""`python -m tinygpt` is `tinygpt`."""

from tinygpt.cli import main

main()
