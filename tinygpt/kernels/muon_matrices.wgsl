// The blocks' matrices as Muon's kernels take them. Each is X [K, C] with K >= C: fc_out is kept as its transpose. One
// lies behind the other, rows padded with zeros to WIDE, a multiple of 4. Its squares are [WIDE, WIDE].
override C: u32;
override F: u32;
override GATES: u32;
override BEFORE: u32;  // matrices of the blocks that come before those of this dispatch, and the rows of their Xs
override ROWS_BEFORE: u32;

// Of the table of rates, and of muon_products.wgsl: naga fails on a text in which an override comes after an array whose
// size depends on one.
override ROWS: u32;
override COLUMNS: u32;
override KIND: u32;
override SCALED: bool;
override COEFFICIENTS: u32;

override WIDE: u32 = (C + 3u) / 4u * 4u;

fn matrices_of_block() -> u32 {
  return 5u + GATES;
}

// Of the matrix of that kind in that block: where its X begins, in floats.
fn x_start(layer: u32, kind: u32) -> u32 {
  let squares = min(kind, 4u);
  let rows = layer * (4u * C + (GATES + 1u) * F) + squares * C + (kind - squares) * F;
  return (rows - ROWS_BEFORE) * WIDE;
}

// K of a matrix of that kind.
fn x_rows(kind: u32) -> u32 {
  return select(F, C, kind < 4u);
}
