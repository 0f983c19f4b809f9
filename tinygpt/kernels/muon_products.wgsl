// Muon's products: blocked matmuls, see linear_tile.wgsl, of all matrices in one dispatch.
//
//   X^T X                       of each X [K, C]: its square A
//   a + b A + c A^2, P A, P Q   of squares, which are symmetric and commute: so are the products
//   X Q
//
// Of a symmetric product only the tiles on and above the diagonal are computed, and what is above it is written a second
// time, transposed. Needs muon_matrices.wgsl before linear_tile.wgsl.

// Kinds of symmetric products.
const GRAM = 0u;
const POLYNOMIAL = 1u;
const PLAIN = 2u;

@group(0) @binding(0) var<storage, read> left_factors: array<vec4f>;
@group(0) @binding(1) var<storage, read> right_factors: array<vec4f>;
@group(0) @binding(2) var<storage, read> more_right_factors: array<vec4f>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read> rates: array<f32>;
@group(0) @binding(5) var<storage, read> counters: array<i32>;
@group(0) @binding(6) var<storage, read_write> products: array<vec4f>;
@group(0) @binding(7) var<storage, read_write> more_products: array<vec4f>;

var<private> left_start: u32;
var<private> right_start: u32;
var<private> takes_more: bool;  // of the second batch of products that share the left factors

// Whether a column of a square, which is a row too, is there: always, where the tiles divide it.
fn has_line(line: u32) -> bool {
  return WIDE % TILE_ROWS == 0 || line < WIDE;
}

fn right_quad(at: u32) -> Quad {
  if (takes_more) { return Quad(more_right_factors[at / 4]); }
  return Quad(right_factors[at / 4]);
}

// Both factors are [end, WIDE].
fn left_quad_across(k: u32, end: u32, number: u32) -> Quad {
  let depth = k + number / (TILE_ROWS / 4);
  let row = first_row + number % (TILE_ROWS / 4) * 4;
  var quad = Quad();
  if (depth < end && has_line(row)) { quad = Quad(left_factors[(left_start + depth * WIDE + row) / 4]); }
  return quad;
}

fn right_quad_across(k: u32, end: u32, number: u32) -> Quad {
  let depth = k + number / (TILE_COLUMNS / 4);
  let column = first_column + number % (TILE_COLUMNS / 4) * 4;
  var quad = Quad();
  if (depth < end && has_line(column)) { quad = right_quad(right_start + depth * WIDE + column); }
  return quad;
}

fn fetch_both_across(k: u32, end: u32) {
  left_ahead[0] = left_quad_across(k, end, lane);
  if (LEFT_QUADS > INVOCATIONS) { left_ahead[1] = left_quad_across(k, end, lane + INVOCATIONS); }
  right_ahead[0] = right_quad_across(k, end, lane);
  if (RIGHT_QUADS > INVOCATIONS) { right_ahead[1] = right_quad_across(k, end, lane + INVOCATIONS); }
}

fn multiply_both_across(end: u32) {
  fetch_both_across(0, end);
  keep_left_across(0);
  keep_right_across(0);
  workgroupBarrier();
  var last = 0u;
  if ((max(C, F) + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < (max(C, F) + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = (slab + 1) * TILE_DEPTH;
      if (next >= end) { break; }
      fetch_both_across(next, end);
      multiply(slab);
      keep_left_across(slab + 1);
      keep_right_across(slab + 1);
      workgroupBarrier();
      last = slab + 1;
    }
  }
  multiply(last);
  add_teams();
}

// value = diagonal where row and column are the same, + linear * what the right factor has there, + factor * the sum
struct Ending {
  diagonal: f32,
  linear: f32,
  factor: f32,
}

fn ended(sum: vec4f, row: u32, column: u32, ending: Ending) -> vec4f {
  var value = ending.factor * sum;
  if (KIND == POLYNOMIAL) {
    value += ending.linear * vec4f(right_quad(right_start + row * WIDE + column));
    value += select(vec4f(0.0), vec4f(ending.diagonal), vec4u(row) == vec4u(column, column + 1, column + 2, column + 3));
  }
  return value;
}

fn write(at: u32, value: vec4f) {
  if (takes_more) { more_products[at / 4] = value; } else { products[at / 4] = value; }
}

// Tiles of the upper half are numbered row by row.
fn upper_tile(number: u32) -> vec2u {
  let tiles = (WIDE + TILE_ROWS - 1) / TILE_ROWS;
  var left_over = number;
  for (var row = 0u; row < (WIDE + TILE_ROWS - 1) / TILE_ROWS; row++) {
    if (left_over < tiles - row) { return vec2u(row, row + left_over); }
    left_over -= tiles - row;
  }
  return vec2u();
}

fn ending_of(matrix: u32) -> Ending {
  var scale = 1.0;
  if (SCALED) { scale = scales[matrix] * scales[matrix]; }
  if (KIND != POLYNOMIAL) { return Ending(0.0, 0.0, scale); }
  let row = COLUMNS * (u32(counters[0]) % ROWS) + COEFFICIENTS;
  return Ending(rates[row], rates[row + 1] * scale, rates[row + 2] * scale * scale);
}

// A block on or above the diagonal, and its image below.
fn write_square_block(to: u32, r: u32, c: u32, block: mat4x4f, ending: Ending) {
  let row = row_of(r, 0);
  let column = column_of(c);
  if (row <= column && has_line(column)) {
    let v0 = ended(block[0], row, column, ending);
    var v1 = ended(block[1], row + 1, column, ending);
    var v2 = ended(block[2], row + 2, column, ending);
    var v3 = ended(block[3], row + 3, column, ending);
    if (row == column) {
      v1 = vec4f(v0.y, v1.yzw);
      v2 = vec4f(v0.z, v1.z, v2.zw);
      v3 = vec4f(v0.w, v1.w, v2.w, v3.w);
    }
    let at = to + row * WIDE + column;
    write(at, v0);
    write(at + WIDE, v1);
    write(at + 2 * WIDE, v2);
    write(at + 3 * WIDE, v3);
    if (row < column) {
      let image = to + column * WIDE + row;
      write(image, vec4f(v0.x, v1.x, v2.x, v3.x));
      write(image + WIDE, vec4f(v0.y, v1.y, v2.y, v3.y));
      write(image + 2 * WIDE, vec4f(v0.z, v1.z, v2.z, v3.z));
      write(image + 3 * WIDE, vec4f(v0.w, v1.w, v2.w, v3.w));
    }
  }
}

@compute @workgroup_size(INVOCATIONS)
fn muon_square(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let tile = upper_tile(group.x);
  let matrix = group.y;
  place(tile.x, tile.y, invocation);
  takes_more = group.z == 1;
  left_start = matrix * WIDE * WIDE;
  var depth = C;
  if (KIND == GRAM) {
    let number = BEFORE + matrix;
    left_start = x_start(number / matrices_of_block(), number % matrices_of_block());
    depth = x_rows(number % matrices_of_block());
  }
  right_start = left_start;
  let ending = ending_of(matrix);
  multiply_both_across(depth);
  if (team == 0) {
    let to = matrix * WIDE * WIDE;
    write_square_block(to, 0, 0, sums[0], ending);
    if (BLOCK_COLUMNS > 1) { write_square_block(to, 0, 1, sums[1], ending); }
    if (BLOCK_ROWS > 1) { write_square_block(to, 1, 0, sums[2], ending); }
    if (BLOCKS == 4) { write_square_block(to, 1, 1, sums[3], ending); }
  }
}

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read> square: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> next_x: array<vec4f>;

fn x_quad(k: u32, rows: u32, number: u32) -> Quad {
  let at = along_depth(number);
  let row = first_row + at.x;
  var quad = Quad();
  if (row < rows && k + at.y < WIDE) { quad = Quad(x[(left_start + row * WIDE + k + at.y) / 4]); }
  return quad;
}

fn square_quad(k: u32, number: u32) -> Quad {
  let depth = k + number / (TILE_COLUMNS / 4);
  let column = first_column + number % (TILE_COLUMNS / 4) * 4;
  var quad = Quad();
  if (depth < WIDE && has_line(column)) { quad = Quad(square[(right_start + depth * WIDE + column) / 4]); }
  return quad;
}

fn fetch_x_and_square(k: u32, rows: u32) {
  left_ahead[0] = x_quad(k, rows, lane);
  if (LEFT_QUADS > INVOCATIONS) { left_ahead[1] = x_quad(k, rows, lane + INVOCATIONS); }
  right_ahead[0] = square_quad(k, lane);
  if (RIGHT_QUADS > INVOCATIONS) { right_ahead[1] = square_quad(k, lane + INVOCATIONS); }
}

fn write_next_x(row: u32, rows: u32, column: u32, sum: vec4f) {
  if (row < rows) { next_x[(left_start + row * WIDE + column) / 4] = sum; }
}

fn write_next_x_block(rows: u32, r: u32, c: u32, block: mat4x4f) {
  let column = column_of(c);
  if (has_line(column)) {
    write_next_x(row_of(r, 0), rows, column, block[0]);
    write_next_x(row_of(r, 1), rows, column, block[1]);
    write_next_x(row_of(r, 2), rows, column, block[2]);
    write_next_x(row_of(r, 3), rows, column, block[3]);
  }
}

@compute @workgroup_size(INVOCATIONS)
fn muon_apply(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let number = BEFORE + group.z;
  let rows = x_rows(number % matrices_of_block());
  if (group.y * TILE_ROWS >= rows) {
    return;
  }
  place(group.y, group.x, invocation);
  left_start = x_start(number / matrices_of_block(), number % matrices_of_block());
  right_start = group.z * WIDE * WIDE;
  fetch_x_and_square(0, rows);
  keep_left_along_depth(0);
  keep_right_across(0);
  workgroupBarrier();
  if ((WIDE + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < (WIDE + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = (slab + 1) * TILE_DEPTH;
      fetch_x_and_square(next, rows);
      multiply(slab);
      keep_left_along_depth(slab + 1);
      keep_right_across(slab + 1);
      workgroupBarrier();
    }
  }
  multiply((WIDE + TILE_DEPTH - 1) / TILE_DEPTH - 1);
  add_teams();
  if (team == 0) {
    write_next_x_block(rows, 0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_next_x_block(rows, 0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_next_x_block(rows, 1, 0, sums[2]); }
    if (BLOCKS == 4) { write_next_x_block(rows, 1, 1, sums[3]); }
  }
}
