// Gradients in slices, one for each share of the rows, interleaved by lines of 64 floats: see core/ops/gpu.py.
override SLICES: u32;

const SLICE_LINE = 64u / WIDTH;

// Where word i of a slice lies.
fn in_slice(i: u32, slice: u32) -> u32 {
  return (i / SLICE_LINE * SLICES + slice) * SLICE_LINE + i % SLICE_LINE;
}

// How many of `rows` go to each slice; the last ones may get fewer, or none.
fn slice_rows(rows: u32) -> u32 {
  return (rows + SLICES - 1u) / SLICES;
}
