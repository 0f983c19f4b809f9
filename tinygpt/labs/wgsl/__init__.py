"""Labs in which the reader writes the heart of one of our WGSL kernels: what they are, and how an answer is checked."""
