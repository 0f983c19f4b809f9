// With n = (x - mean) rstd gain (+ bias), a layer norm:  y = n weight^T (+ bias),  or activate(that) with its slope.
// The norm of its rows comes first in every workgroup; those of the first columns keep n, mean and rstd for the backward
// pass. Blocked matmuls, see linear_tile.wgsl. Needs activation.wgsl and linear_factors.wgsl.

@group(0) @binding(3) var<storage, read> norm_weights: array<vec4f>;  // its gain, and its bias NORM_BIAS floats further on
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> normed: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> stats: array<vec2f>;  // mean and rstd
@group(0) @binding(7) var<storage, read_write> slope: array<vec4f>;

var<workgroup> row_stats: array<vec2f, TILE_ROWS>;
var<workgroup> row_parts: array<f32, INVOCATIONS>;
var<workgroup> gain_tile: array<vec4f, I / 4>;
var<workgroup> shift_tile: array<vec4f, I / 4>;

// The sum over a row's invocations, which are neighbours.
fn sum_of_row(part: vec4f) -> f32 {
  workgroupBarrier();
  row_parts[lane % INVOCATIONS] = (part.x + part.y) + (part.z + part.w);
  workgroupBarrier();
  let first = lane % INVOCATIONS / ROW_SHARE * ROW_SHARE;
  var sum = 0.0;
  for (var other = 0u; other < ROW_SHARE; other++) { sum += row_parts[first + other]; }
  return sum;
}

fn measure_rows() {
  let tile_row = lane % INVOCATIONS / ROW_SHARE;
  let row = first_row + tile_row;
  let first = min(row, N - 1) * (I / 4);
  let share = lane % ROW_SHARE;
  var sum = vec4f();
  for (var turn = 0u; turn < (I / 4 + ROW_SHARE - 1) / ROW_SHARE; turn++) {
    let i = share + turn * ROW_SHARE;
    if (I / 4 % ROW_SHARE == 0 || i < I / 4) { sum += x[first + i]; }
  }
  let mean = sum_of_row(sum) / f32(I);
  var squares = vec4f();
  for (var turn = 0u; turn < (I / 4 + ROW_SHARE - 1) / ROW_SHARE; turn++) {
    let i = share + turn * ROW_SHARE;
    if (I / 4 % ROW_SHARE == 0 || i < I / 4) {
      let off = x[first + i] - mean;
      squares += off * off;
    }
  }
  let rstd = inverseSqrt(sum_of_row(squares) / f32(I) + EPS);
  if (share == 0) {
    row_stats[tile_row % TILE_ROWS] = vec2f(mean, rstd);
    if (first_column == 0 && has_row(row)) { stats[row] = vec2f(mean, rstd); }
  }
}

fn stage_norm() {
  for (var turn = 0u; turn < (I / 4 + INVOCATIONS - 1) / INVOCATIONS; turn++) {
    let i = lane + turn * INVOCATIONS;
    if (i < I / 4) {
      gain_tile[i % (I / 4)] = norm_weights[i];
      var shift = vec4f();
      if (NORM_BIAS > 0) { shift = norm_weights[NORM_BIAS / 4 + i]; }
      shift_tile[i % (I / 4)] = shift;
    }
  }
}

fn keep_normed_quad(buffer: u32, k: u32, number: u32, quad: vec4f) {
  let at = along_depth(number);
  let row = first_row + at.x;
  let measured = row_stats[at.x % TILE_ROWS];
  let i = (k + at.y) / 4 % (I / 4);
  let value = (quad - measured.x) * measured.y * gain_tile[i] + shift_tile[i];
  if (first_column == 0 && has_row(row) && has_depth(k + at.y)) { normed[row * (I / 4) + i] = value; }
  keep_left_quad_along_depth(buffer, number, Quad(value));
}

fn keep_normed(buffer: u32, k: u32) {
  keep_normed_quad(buffer, k, lane, vec4f(left_ahead[0]));
  if (LEFT_QUADS > INVOCATIONS) { keep_normed_quad(buffer, k, lane + INVOCATIONS, vec4f(left_ahead[1])); }
}

fn multiply_normed_and_weight() {
  fetch_x_and_weight(0);
  stage_norm();
  measure_rows();
  workgroupBarrier();
  keep_normed(0, 0);
  keep_right_along_depth(0);
  workgroupBarrier();
  if ((I + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < (I + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = (slab + 1) * TILE_DEPTH;
      fetch_x_and_weight(next);
      multiply(slab);
      keep_normed(slab + 1, next);
      keep_right_along_depth(slab + 1);
      workgroupBarrier();
    }
  }
  multiply((I + TILE_DEPTH - 1) / TILE_DEPTH - 1);
  add_teams();
}

fn write_y(row: u32, column: u32, sum: vec4f) {
  if (has_row(row)) { y[(row * O + column) / 4] = sum + bias_quad(column); }
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
fn normed_linear(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_normed_and_weight();
  if (team == 0) {
    write_y_block(0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_y_block(0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_y_block(1, 0, sums[2]); }
    if (BLOCKS == 4) { write_y_block(1, 1, sums[3]); }
  }
}

fn write_bent(row: u32, column: u32, sum: vec4f) {
  if (has_row(row)) {
    let at = (row * O + column) / 4;
    let h = activate(sum + bias_quad(column));
    y[at] = h.value;
    if (HAS_SLOPE) { slope[at] = h.slope; }
  }
}

fn write_bent_block(r: u32, c: u32, block: mat4x4f) {
  let column = column_of(c);
  if (has_column(column)) {
    write_bent(row_of(r, 0), column, block[0]);
    write_bent(row_of(r, 1), column, block[1]);
    write_bent(row_of(r, 2), column, block[2]);
    write_bent(row_of(r, 3), column, block[3]);
  }
}

@compute @workgroup_size(INVOCATIONS)
fn normed_linear_activation(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_normed_and_weight();
  if (team == 0) {
    write_bent_block(0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_bent_block(0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_bent_block(1, 0, sums[2]); }
    if (BLOCKS == 4) { write_bent_block(1, 1, sums[3]); }
  }
}
