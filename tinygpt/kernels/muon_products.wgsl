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
  return wide() % TILE_ROWS == 0 || line < wide();
}

fn right_quad(at: u32) -> Quad {
  if (takes_more) { return Quad(more_right_factors[at / 4]); }
  return Quad(right_factors[at / 4]);
}

// Both factors are [end, WIDE].
fn fetch_both_across(k: u32, end: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_ROWS / 4);
    let row = first_row + i % (TILE_ROWS / 4) * 4;
    left_ahead[n] = Quad();
    if (depth < end && has_line(row)) { left_ahead[n] = Quad(left_factors[(left_start + depth * wide() + row) / 4]); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_COLUMNS / 4);
    let column = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if (depth < end && has_line(column)) { right_ahead[n] = right_quad(right_start + depth * wide() + column); }
  }
}

fn multiply_both_across(end: u32) {
  fetch_both_across(0, end);
  keep_left_across(0);
  keep_right_across(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < end; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < end) { fetch_both_across(k + TILE_DEPTH, end); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < end) {
      keep_left_across(buffer);
      keep_right_across(buffer);
    }
    workgroupBarrier();
  }
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
    value += ending.linear * vec4f(right_quad(right_start + row * wide() + column));
    value += select(vec4f(0.0), vec4f(ending.diagonal), vec4u(row) == vec4u(column, column + 1, column + 2, column + 3));
  }
  return value;
}

fn write(at: u32, value: vec4f) {
  if (takes_more) { more_products[at / 4] = value; } else { products[at / 4] = value; }
}

// Tiles of the upper half are numbered row by row.
fn upper_tile(number: u32) -> vec2u {
  let tiles = (wide() + TILE_ROWS - 1) / TILE_ROWS;
  var row = 0u;
  var left_over = number;
  while (left_over >= tiles - row) {
    left_over -= tiles - row;
    row++;
  }
  return vec2u(row, row + left_over);
}

fn ending_of(matrix: u32) -> Ending {
  var scale = 1.0;
  if (SCALED) { scale = scales[matrix] * scales[matrix]; }
  if (KIND != POLYNOMIAL) { return Ending(0.0, 0.0, scale); }
  let row = COLUMNS * (u32(counters[0]) % ROWS) + COEFFICIENTS;
  return Ending(rates[row], rates[row + 1] * scale, rates[row + 2] * scale * scale);
}

@compute @workgroup_size(INVOCATIONS)
fn muon_square(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  let tile = upper_tile(group.x);
  let matrix = group.y;
  place(tile.x, tile.y, invocation);
  takes_more = group.z == 1;
  left_start = matrix * wide() * wide();
  var depth = C;
  if (KIND == GRAM) {
    let number = BEFORE + matrix;
    left_start = x_start(number / matrices_of_block(), number % matrices_of_block());
    depth = x_rows(number % matrices_of_block());
  }
  right_start = left_start;
  let ending = ending_of(matrix);
  multiply_both_across(depth);
  let to = matrix * wide() * wide();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    for (var r = 0u; r < BLOCK_ROWS; r++) {
      let row = row_of(4 * r);
      if (team == 0 && row <= column && has_line(column)) {
        let first = 4 * r * BLOCK_COLUMNS + c;
        let v0 = ended(sums[first], row, column, ending);
        var v1 = ended(sums[first + BLOCK_COLUMNS], row + 1, column, ending);
        var v2 = ended(sums[first + 2 * BLOCK_COLUMNS], row + 2, column, ending);
        var v3 = ended(sums[first + 3 * BLOCK_COLUMNS], row + 3, column, ending);
        if (row == column) {
          v1 = vec4f(v0.y, v1.yzw);
          v2 = vec4f(v0.z, v1.z, v2.zw);
          v3 = vec4f(v0.w, v1.w, v2.w, v3.w);
        }
        let at = to + row * wide() + column;
        write(at, v0);
        write(at + wide(), v1);
        write(at + 2 * wide(), v2);
        write(at + 3 * wide(), v3);
        if (row < column) {
          let image = to + column * wide() + row;
          write(image, vec4f(v0.x, v1.x, v2.x, v3.x));
          write(image + wide(), vec4f(v0.y, v1.y, v2.y, v3.y));
          write(image + 2 * wide(), vec4f(v0.z, v1.z, v2.z, v3.z));
          write(image + 3 * wide(), vec4f(v0.w, v1.w, v2.w, v3.w));
        }
      }
    }
  }
}

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read> square: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> next_x: array<vec4f>;

fn fetch_x_and_square(k: u32, rows: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let row = first_row + at.x;
    left_ahead[n] = Quad();
    if (row < rows && k + at.y < wide()) { left_ahead[n] = Quad(x[(left_start + row * wide() + k + at.y) / 4]); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_COLUMNS / 4);
    let column = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if (depth < wide() && has_line(column)) { right_ahead[n] = Quad(square[(right_start + depth * wide() + column) / 4]); }
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
  right_start = group.z * wide() * wide();
  fetch_x_and_square(0, rows);
  keep_left_along_depth(0);
  keep_right_across(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < wide(); k += TILE_DEPTH) {
    if (k + TILE_DEPTH < wide()) { fetch_x_and_square(k + TILE_DEPTH, rows); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < wide()) {
      keep_left_along_depth(buffer);
      keep_right_across(buffer);
    }
    workgroupBarrier();
  }
  add_teams();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
      let row = row_of(r);
      if (team == 0 && has_line(column) && row < rows) {
        next_x[(left_start + row * wide() + column) / 4] = sums[r * BLOCK_COLUMNS + c];
      }
    }
  }
}
