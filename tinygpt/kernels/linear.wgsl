// y (+)= SCALE x weight^T (+ bias) (+ residual), and activate(x weight^T (+ bias) (+ residual)) with its slope: blocked matmuls,
// see linear_tile.wgsl, for widths that are multiples of 4. Needs activation.wgsl and linear_factors.wgsl.

@group(0) @binding(3) var<storage, read> residual: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;

fn multiply_x_and_weight() {
  fetch_x_and_weight(0);
  keep_left_along_depth(0);
  keep_right_along_depth(0);
  workgroupBarrier();
  if ((I + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < (I + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = (slab + 1) * TILE_DEPTH;
      fetch_x_and_weight(next);
      multiply(slab);
      keep_left_along_depth(slab + 1);
      keep_right_along_depth(slab + 1);
      workgroupBarrier();
    }
  }
  multiply((I + TILE_DEPTH - 1) / TILE_DEPTH - 1);
  add_teams();
}

fn write_y(row: u32, column: u32, sum: vec4f) {
  if (has_row(row)) {
    var result = SCALE * sum + bias_quad(column);
    if (HAS_RESIDUAL) { result += residual[(row * O + column) / 4]; }
    let at = (Y_OFFSET + row * Y_PITCH + column) / 4;
    if (ACCUMULATE) { y[at] += result; } else { y[at] = result; }
  }
}

fn write_y_block(r: u32, c: u32, block: mat4x4f) {
  let column = column_of(c);
  if (has_column(column)) {
    write_y(row_of(r, 0), column, block[0]);
    write_y(row_of(r, 1), column, block[1]);
    write_y(row_of(r, 2), column, block[2]);
    write_y(row_of(r, 3), column, block[3]);
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_x_and_weight();
  if (team == 0) {
    write_y_block(0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_y_block(0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_y_block(1, 0, sums[2]); }
    if (BLOCKS == 4) { write_y_block(1, 1, sums[3]); }
  }
}

@group(0) @binding(4) var<storage, read_write> activation: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> slope: array<vec4f>;

fn write_activation(row: u32, column: u32, sum: vec4f) {
  if (has_row(row)) {
    let at = (row * O + column) / 4;
    var before = bias_quad(column);
    if (HAS_RESIDUAL) { before += residual[at]; }
    let h = activate(sum + before);
    activation[at] = h.value;
    if (HAS_SLOPE) { slope[at] = h.slope; }
  }
}

fn write_activation_block(r: u32, c: u32, block: mat4x4f) {
  let column = column_of(c);
  if (has_column(column)) {
    write_activation(row_of(r, 0), column, block[0]);
    write_activation(row_of(r, 1), column, block[1]);
    write_activation(row_of(r, 2), column, block[2]);
    write_activation(row_of(r, 3), column, block[3]);
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear_activation(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_x_and_weight();
  if (team == 0) {
    write_activation_block(0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_activation_block(0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_activation_block(1, 0, sums[2]); }
    if (BLOCKS == 4) { write_activation_block(1, 1, sums[3]); }
  }
}
