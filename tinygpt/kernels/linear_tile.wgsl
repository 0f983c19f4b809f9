// What linear.wgsl and linear_backward.wgsl share: one tile of a blocked matmul, for widths that are multiples of 4.
//
// A workgroup computes a tile of a product of rows and columns. It walks along the depth of the sums: a slab of the left
// factor and one of the right are brought into workgroup memory (the next ones are fetched while it multiplies), both
// with the depth outermost, so that an invocation reads 4 rows and 4 columns as one vector each. An invocation keeps
// 4 * BLOCK_ROWS by 4 * BLOCK_COLUMNS sums in registers. Where the product is so small that few workgroups share it,
// SPLITS teams of a workgroup each take a part of every slab's depth, and add up their sums at the end.
//
// Needs tile_f32.wgsl or tile_f16.wgsl.

override TILE_ROWS: u32 = 64;
override TILE_COLUMNS: u32 = 64;
override TILE_DEPTH: u32 = 8;
override BLOCK_ROWS: u32 = 1;  // 1 or 2
override BLOCK_COLUMNS: u32 = 1;  // 1 or 2
override SPLITS: u32 = 1;
override INVOCATIONS: u32 = 256;  // SPLITS * (TILE_ROWS / 4 / BLOCK_ROWS) * (TILE_COLUMNS / 4 / BLOCK_COLUMNS)

// The sizes and flags of linear.wgsl and linear_backward.wgsl. They are here because naga fails on a text in which an
// override comes after an array whose size depends on one.
override N: u32;
override O: u32;
override I: u32;
override HAS_BIAS: bool = false;
override HAS_RESIDUAL: bool = false;
override HAS_SLOPE: bool = false;
override ACCUMULATE: bool = false;  // of linear_backward: dweight and dbias
override ACCUMULATE_DX: bool = false;
override INPUT_TILES: u32 = 0;
override WEIGHT_TILES: u32 = 0;  // of all slices
override WEIGHTS_FIRST: bool = false;
override SCALE: f32 = 1.0;  // of y or dx
override LOSS_SCALE: f32 = 1.0;  // of dy, so that small gradients are not lost in float16
override Y_PITCH: u32 = 0;  // floats from row to row; O, but for a slice of columns
override Y_OFFSET: u32 = 0;  // of the first row in its binding
override DY_PITCH: u32 = 0;
override DY_OFFSET: u32 = 0;

// One quad of padding: rows that are written one by one would else crowd a few banks.
const PADDING = 1u;
var<workgroup> left_tile: array<Quad, 2 * TILE_DEPTH * (TILE_ROWS / 4 + PADDING)>;
var<workgroup> right_tile: array<Quad, 2 * TILE_DEPTH * (TILE_COLUMNS / 4 + PADDING)>;
var<workgroup> team_sums: array<vec4f, max(1, (SPLITS - 1) * TILE_ROWS * TILE_COLUMNS / 4)>;  // of all teams but the first

var<private> sums: array<vec4f, 16>;  // [4 * BLOCK_ROWS][BLOCK_COLUMNS]
var<private> left_ahead: array<Quad, 8>;
var<private> right_ahead: array<Quad, 8>;
var<private> lane: u32;
var<private> team: u32;
var<private> row_lane: u32;
var<private> column_lane: u32;
var<private> first_row: u32;
var<private> first_column: u32;

fn place(row_tile: u32, column_tile: u32, invocation: u32) {
  lane = invocation;
  team = invocation / (INVOCATIONS / SPLITS);
  let member = invocation % (INVOCATIONS / SPLITS);
  column_lane = member % (TILE_COLUMNS / 4 / BLOCK_COLUMNS);
  row_lane = member / (TILE_COLUMNS / 4 / BLOCK_COLUMNS);
  first_row = row_tile * TILE_ROWS;
  first_column = column_tile * TILE_COLUMNS;
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
  for (var step = 0u; step < TILE_DEPTH / SPLITS; step++) {
    let k = team * (TILE_DEPTH / SPLITS) + step;
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

// The first team's sums get all the others', in their order; only that team's are whole then.
fn add_teams() {
  if (SPLITS > 1) {
    let count = 4 * BLOCK_ROWS * BLOCK_COLUMNS;
    let member = lane % (INVOCATIONS / SPLITS);
    if (team > 0) {
      for (var s = 0u; s < count; s++) {
        team_sums[((team - 1) * count + s) * (INVOCATIONS / SPLITS) + member] = sums[s];
      }
    }
    workgroupBarrier();
    if (team == 0) {
      for (var other = 0u; other < SPLITS - 1; other++) {
        for (var s = 0u; s < count; s++) { sums[s] += team_sums[(other * count + s) * (INVOCATIONS / SPLITS) + member]; }
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
