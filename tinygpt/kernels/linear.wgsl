// Linear maps and their gradients as blocked matmuls, for widths that are multiples of 4.
//
// A workgroup computes one tile of the product [ROWS, COLUMNS]. It walks along the sums' DEPTH: a slab of the left
// factor and one of the right are brought into workgroup memory (the next ones are fetched while it multiplies), both
// with the depth outermost, so that an invocation reads 4 rows and 4 columns as one vector each. An invocation keeps
// 4 * BLOCK_ROWS by 4 * BLOCK_COLUMNS sums in registers.
//
// Needs gelu.wgsl, and tile_f32.wgsl or tile_f16.wgsl.

override ROWS: u32;
override COLUMNS: u32;
override DEPTH: u32;
override TILE_ROWS: u32 = 64;
override TILE_COLUMNS: u32 = 64;
override TILE_DEPTH: u32 = 8;
override BLOCK_ROWS: u32 = 1;  // 1 or 2
override BLOCK_COLUMNS: u32 = 1;  // 1 or 2
override INVOCATIONS: u32 = 256;  // (TILE_ROWS / 4 / BLOCK_ROWS) * (TILE_COLUMNS / 4 / BLOCK_COLUMNS)
override SCALE: f32 = 1.0;  // of the left factor, so that small gradients are not lost in float16
override HAS_BIAS: bool = false;
override HAS_RESIDUAL: bool = false;
override HAS_SLOPE: bool = false;
override ACCUMULATE: bool = false;
override SLICES: u32 = 1;
override SLICE_DEPTH: u32 = 0;  // rows of the batch in a slice

// One quad of padding: rows that are written one by one would else crowd a few banks.
const PADDING = 1u;
var<workgroup> left_tile: array<Quad, 2 * TILE_DEPTH * (TILE_ROWS / 4 + PADDING)>;
var<workgroup> right_tile: array<Quad, 2 * TILE_DEPTH * (TILE_COLUMNS / 4 + PADDING)>;

var<private> sums: array<vec4f, 16>;  // [4 * BLOCK_ROWS][BLOCK_COLUMNS]
var<private> left_ahead: array<Quad, 8>;
var<private> right_ahead: array<Quad, 8>;
var<private> lane: u32;
var<private> row_lane: u32;
var<private> column_lane: u32;
var<private> first_row: u32;
var<private> first_column: u32;

// Whether a row, a quad of columns or a quad of the depth is there: always, where the tiles divide the sizes.
fn has_row(row: u32) -> bool {
  return ROWS % TILE_ROWS == 0 || row < ROWS;
}

fn has_column(column: u32) -> bool {
  return COLUMNS % TILE_COLUMNS == 0 || column < COLUMNS;
}

fn has_depth(depth: u32) -> bool {
  return DEPTH % TILE_DEPTH == 0 || depth < DEPTH;
}

fn place(group: vec3u, invocation: u32) {
  lane = invocation;
  column_lane = invocation % (TILE_COLUMNS / 4 / BLOCK_COLUMNS);
  row_lane = invocation / (TILE_COLUMNS / 4 / BLOCK_COLUMNS);
  first_row = group.y * TILE_ROWS;
  first_column = group.x * TILE_COLUMNS;
}

// Quad number i of a slab whose memory runs along the depth: [tile, depth].
fn along_depth(i: u32) -> vec2u {
  return vec2u(i / (TILE_DEPTH / 4), i % (TILE_DEPTH / 4) * 4);
}

fn keep_left_along_depth(buffer: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    for (var j = 0u; j < 4; j++) {
      left_tile[(buffer * TILE_DEPTH + at.y + j) * (TILE_ROWS / 4 + PADDING) + at.x / 4][at.x % 4] = left_ahead[n][j];
    }
  }
}

fn keep_right_along_depth(buffer: u32) {
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    for (var j = 0u; j < 4; j++) {
      right_tile[(buffer * TILE_DEPTH + at.y + j) * (TILE_COLUMNS / 4 + PADDING) + at.x / 4][at.x % 4] = right_ahead[n][j];
    }
  }
}

// Quad number i of a slab whose memory runs along the tile: [depth, tile].
fn keep_left_across(buffer: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    left_tile[(buffer * TILE_DEPTH + i / (TILE_ROWS / 4)) * (TILE_ROWS / 4 + PADDING) + i % (TILE_ROWS / 4)] = left_ahead[n];
  }
}

fn keep_right_across(buffer: u32) {
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    right_tile[(buffer * TILE_DEPTH + i / (TILE_COLUMNS / 4)) * (TILE_COLUMNS / 4 + PADDING) + i % (TILE_COLUMNS / 4)] = right_ahead[n];
  }
}

fn multiply(buffer: u32) {
  for (var k = 0u; k < TILE_DEPTH; k++) {
    let left_at = (buffer * TILE_DEPTH + k) * (TILE_ROWS / 4 + PADDING) + row_lane;
    let right_at = (buffer * TILE_DEPTH + k) * (TILE_COLUMNS / 4 + PADDING) + column_lane;
    var right: array<vec4f, 2>;
    for (var c = 0u; c < BLOCK_COLUMNS; c++) {
      right[c] = vec4f(right_tile[right_at + c * (TILE_COLUMNS / 4 / BLOCK_COLUMNS)]);
    }
    for (var r = 0u; r < BLOCK_ROWS; r++) {
      let left = vec4f(left_tile[left_at + r * (TILE_ROWS / 4 / BLOCK_ROWS)]);
      for (var c = 0u; c < BLOCK_COLUMNS; c++) {
        for (var j = 0u; j < 4; j++) {
          let s = (r * 4 + j) * BLOCK_COLUMNS + c;
          sums[s] = fma(vec4f(left[j]), right[c], sums[s]);
        }
      }
    }
  }
}

// Row number r and quad of columns number c of the block that an invocation computes, in the product.
fn row_of(r: u32) -> u32 {
  return first_row + (row_lane + r / 4 * (TILE_ROWS / 4 / BLOCK_ROWS)) * 4 + r % 4;
}

fn column_of(c: u32) -> u32 {
  return first_column + (column_lane + c * (TILE_COLUMNS / 4 / BLOCK_COLUMNS)) * 4;
}

// --- y = x weight^T (+ bias) (+ residual), and y = gelu(x weight^T + bias) -------------------------------------------

@group(0) @binding(0) var<storage, read> x: array<vec4f>;  // [ROWS, DEPTH]
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;  // [COLUMNS, DEPTH]
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read> residual: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;

fn fetch_x_and_weight(k: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let row = first_row + at.x;
    left_ahead[n] = Quad();
    if (has_row(row) && has_depth(k + at.y)) { left_ahead[n] = Quad(x[(row * DEPTH + k + at.y) / 4]); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let column = first_column + at.x;
    right_ahead[n] = Quad();
    if (has_column(column) && has_depth(k + at.y)) { right_ahead[n] = Quad(weight[(column * DEPTH + k + at.y) / 4]); }
  }
}

fn multiply_x_and_weight() {
  fetch_x_and_weight(0);
  keep_left_along_depth(0);
  keep_right_along_depth(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < DEPTH; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < DEPTH) { fetch_x_and_weight(k + TILE_DEPTH); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < DEPTH) {
      keep_left_along_depth(buffer);
      keep_right_along_depth(buffer);
    }
    workgroupBarrier();
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group, invocation);
  multiply_x_and_weight();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (has_column(column)) {
      var added = vec4f(0.0);
      if (HAS_BIAS) { added = bias[column / 4]; }
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          let at = (row * COLUMNS + column) / 4;
          var result = sums[r * BLOCK_COLUMNS + c] + added;
          if (HAS_RESIDUAL) { result += residual[at]; }
          y[at] = result;
        }
      }
    }
  }
}

@group(0) @binding(3) var<storage, read_write> activation: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> slope: array<vec4f>;

@compute @workgroup_size(INVOCATIONS)
fn linear_gelu(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group, invocation);
  multiply_x_and_weight();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (has_column(column)) {
      let added = bias[column / 4];
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          let at = (row * COLUMNS + column) / 4;
          let h = gelu(sums[r * BLOCK_COLUMNS + c] + added);
          activation[at] = h.value;
          if (HAS_SLOPE) { slope[at] = h.slope; }
        }
      }
    }
  }
}

// --- dx = dy weight (* slope) ----------------------------------------------------------------------------------------

@group(0) @binding(0) var<storage, read> dy: array<vec4f>;  // [ROWS, DEPTH]
@group(0) @binding(1) var<storage, read> weight_rows: array<vec4f>;  // [DEPTH, COLUMNS]
@group(0) @binding(2) var<storage, read> kept_slope: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> dx: array<vec4f>;

fn fetch_dy_and_weight(k: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let row = first_row + at.x;
    left_ahead[n] = Quad();
    if (has_row(row) && has_depth(k + at.y)) { left_ahead[n] = Quad(dy[(row * DEPTH + k + at.y) / 4] * SCALE); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_COLUMNS / 4);
    let column = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if (has_depth(depth) && has_column(column)) { right_ahead[n] = Quad(weight_rows[(depth * COLUMNS + column) / 4]); }
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear_backward_input(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group, invocation);
  fetch_dy_and_weight(0);
  keep_left_along_depth(0);
  keep_right_across(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < DEPTH; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < DEPTH) { fetch_dy_and_weight(k + TILE_DEPTH); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < DEPTH) {
      keep_left_along_depth(buffer);
      keep_right_across(buffer);
    }
    workgroupBarrier();
  }
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (has_column(column)) {
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          let at = (row * COLUMNS + column) / 4;
          var result = sums[r * BLOCK_COLUMNS + c] / SCALE;
          if (HAS_SLOPE) { result *= kept_slope[at]; }
          dx[at] = result;
        }
      }
    }
  }
}

// --- dweight (+)= dy^T x and dbias (+)= column sums of dy, over the rows of slice number group.z ----------------------

@group(0) @binding(0) var<storage, read> dy_rows: array<vec4f>;  // [batch rows, ROWS]
@group(0) @binding(1) var<storage, read> x_rows: array<vec4f>;  // [batch rows, COLUMNS]
@group(0) @binding(2) var<storage, read_write> dweight: array<vec4f>;
@group(0) @binding(3) var<storage, read_write> dbias: array<f32>;

// Where element i of a gradient lies in slice s.
fn slice_place(i: u32, s: u32) -> u32 {
  return (i / 64 * SLICES + s) * 64 + i % 64;
}

fn whole_slabs() -> bool {
  return DEPTH % (SLICES * TILE_DEPTH) == 0;
}

fn fetch_dy_and_x(k: u32, end: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_ROWS / 4);
    let row = first_row + i % (TILE_ROWS / 4) * 4;
    left_ahead[n] = Quad();
    if ((whole_slabs() || depth < end) && has_row(row)) { left_ahead[n] = Quad(dy_rows[(depth * ROWS + row) / 4] * SCALE); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let depth = k + i / (TILE_COLUMNS / 4);
    let column = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if ((whole_slabs() || depth < end) && has_column(column)) { right_ahead[n] = Quad(x_rows[(depth * COLUMNS + column) / 4]); }
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear_backward_weight(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group, invocation);
  let begin = group.z * SLICE_DEPTH;
  let end = min(DEPTH, begin + SLICE_DEPTH);
  let sums_bias = HAS_BIAS && group.x == 0 && lane < TILE_ROWS;
  var bias_sum = 0.0;
  fetch_dy_and_x(begin, end);
  keep_left_across(0);
  keep_right_across(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = begin; k < end; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < end) { fetch_dy_and_x(k + TILE_DEPTH, end); }
    multiply(buffer);
    if (sums_bias) {
      for (var j = 0u; j < TILE_DEPTH; j++) {
        bias_sum += f32(left_tile[(buffer * TILE_DEPTH + j) * (TILE_ROWS / 4 + PADDING) + lane / 4][lane % 4]);
      }
    }
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < end) {
      keep_left_across(buffer);
      keep_right_across(buffer);
    }
    workgroupBarrier();
  }
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (has_column(column)) {
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          let at = slice_place(row * COLUMNS + column, group.z) / 4;
          let result = sums[r * BLOCK_COLUMNS + c] / SCALE;
          if (ACCUMULATE) { dweight[at] += result; } else { dweight[at] = result; }
        }
      }
    }
  }
  if (sums_bias && first_row + lane < ROWS) {
    let at = slice_place(first_row + lane, group.z);
    if (ACCUMULATE) { dbias[at] += bias_sum / SCALE; } else { dbias[at] = bias_sum / SCALE; }
  }
}
