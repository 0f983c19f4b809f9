"""The front of a .tinygpt file: what it says, and where its floats lie."""
