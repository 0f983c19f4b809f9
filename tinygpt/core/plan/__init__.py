"""From programs to what engines take verbatim: checks, places, words and grids."""
