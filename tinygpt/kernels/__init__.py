"""One stem per op family: the NumPy specification (.py), the C++ (.cpp) and the WGSL (.wgsl), side by side."""
