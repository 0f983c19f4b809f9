// What linear.wgsl, linear_normed.wgsl and linear_backward.wgsl share: one tile of a blocked matmul, for widths that are multiples of 4.
//
// A workgroup computes a tile of a product of rows and columns. It walks along the depth of the sums: a slab of the left
// factor and one of the right are brought into workgroup memory (the next ones are fetched while it multiplies), both
// with the depth outermost, so that an invocation reads 4 rows and 4 columns as one vector each. An invocation keeps
// 4 * BLOCK_ROWS by 4 * BLOCK_COLUMNS sums in registers. Where the product is so small that few workgroups share it,
// SPLITS teams of a workgroup each take a part of every slab's depth, and add up their sums at the end.
//
// Nothing here is left for a browser's compiler to guard, see docs/webgpu.md: registers are indexed by constants, loops have
// constant bounds, and a remainder at the head of a function shows within which bounds an index into workgroup memory is.
//
// Needs tile_f32.wgsl or tile_f16.wgsl.

override TILE_ROWS: u32 = 64;
override TILE_COLUMNS: u32 = 64;
override TILE_DEPTH: u32 = 8;
override BLOCK_ROWS: u32 = 1;  // 1 or 2
override BLOCK_COLUMNS: u32 = 1;  // 1 or 2
override SPLITS: u32 = 1;
override INVOCATIONS: u32 = 256;  // SPLITS * ROW_LANES * COLUMN_LANES

override ROW_LANES: u32 = TILE_ROWS / 4 / BLOCK_ROWS;
override COLUMN_LANES: u32 = TILE_COLUMNS / 4 / BLOCK_COLUMNS;
override NEXT_ROWS: u32 = ROW_LANES % (TILE_ROWS / 4);  // quads to an invocation's second block; 0 where it has one
override NEXT_COLUMNS: u32 = COLUMN_LANES % (TILE_COLUMNS / 4);
override TEAM: u32 = INVOCATIONS / SPLITS;  // invocations
override TEAM_DEPTH: u32 = TILE_DEPTH / SPLITS;
override OTHER_TEAMS: u32 = max(1, SPLITS - 1);
override BLOCKS: u32 = BLOCK_ROWS * BLOCK_COLUMNS;  // of an invocation, up to 4
override LEFT_QUADS: u32 = TILE_ROWS * TILE_DEPTH / 4;  // of a slab; an invocation brings 1 or 2
override RIGHT_QUADS: u32 = TILE_COLUMNS * TILE_DEPTH / 4;
override LEFT_STRIDE: u32 = TILE_ROWS / 4 + 1;  // quads of a row in workgroup memory: a quad of padding, since rows that
override RIGHT_STRIDE: u32 = TILE_COLUMNS / 4 + 1;  // are written one by one would else crowd a few banks

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
override EPS: f32 = 0.0;  // of linear_normed
override NORM_BIAS: u32 = 0;  // floats from the norm's gain to its bias; 0 where it has none
override ROW_SHARE: u32 = INVOCATIONS / TILE_ROWS;  // invocations that measure a row

var<workgroup> left_tile: array<Quad, 2 * TILE_DEPTH * LEFT_STRIDE>;
var<workgroup> right_tile: array<Quad, 2 * TILE_DEPTH * RIGHT_STRIDE>;
var<workgroup> team_sums: array<vec4f, max(1, (SPLITS - 1) * TILE_ROWS * TILE_COLUMNS / 4)>;  // of all teams but the first

// Of block (r, c) of an invocation: number 2 r + c. A column of the matrix is a row of the product.
var<private> sums: array<mat4x4f, 4>;
var<private> left_ahead: array<Quad, 2>;
var<private> right_ahead: array<Quad, 2>;
var<private> lane: u32;
var<private> team: u32;
var<private> row_lane: u32;
var<private> column_lane: u32;
var<private> first_row: u32;
var<private> first_column: u32;

fn place(row_tile: u32, column_tile: u32, invocation: u32) {
  lane = invocation;
  team = invocation / TEAM;
  column_lane = invocation % TEAM % COLUMN_LANES;
  row_lane = invocation % TEAM / COLUMN_LANES;
  first_row = row_tile * TILE_ROWS;
  first_column = column_tile * TILE_COLUMNS;
}

// Quad number i of a slab whose memory runs along the depth: [tile, depth].
fn along_depth(i: u32) -> vec2u {
  return vec2u(i / (TILE_DEPTH / 4), i % (TILE_DEPTH / 4) * 4);
}

fn keep_left_quad_along_depth(buffer: u32, number: u32, quad: Quad) {
  let i = number % LEFT_QUADS;
  let row = i / (TILE_DEPTH / 4);
  let at = (buffer % 2 * TILE_DEPTH + i % (TILE_DEPTH / 4) * 4) * LEFT_STRIDE + row / 4;
  left_tile[at][row % 4] = quad.x;
  left_tile[at + LEFT_STRIDE][row % 4] = quad.y;
  left_tile[at + 2 * LEFT_STRIDE][row % 4] = quad.z;
  left_tile[at + 3 * LEFT_STRIDE][row % 4] = quad.w;
}

fn keep_left_along_depth(buffer: u32) {
  keep_left_quad_along_depth(buffer, lane, left_ahead[0]);
  if (LEFT_QUADS > INVOCATIONS) { keep_left_quad_along_depth(buffer, lane + INVOCATIONS, left_ahead[1]); }
}

fn keep_right_quad_along_depth(buffer: u32, number: u32, quad: Quad) {
  let i = number % RIGHT_QUADS;
  let column = i / (TILE_DEPTH / 4);
  let at = (buffer % 2 * TILE_DEPTH + i % (TILE_DEPTH / 4) * 4) * RIGHT_STRIDE + column / 4;
  right_tile[at][column % 4] = quad.x;
  right_tile[at + RIGHT_STRIDE][column % 4] = quad.y;
  right_tile[at + 2 * RIGHT_STRIDE][column % 4] = quad.z;
  right_tile[at + 3 * RIGHT_STRIDE][column % 4] = quad.w;
}

fn keep_right_along_depth(buffer: u32) {
  keep_right_quad_along_depth(buffer, lane, right_ahead[0]);
  if (RIGHT_QUADS > INVOCATIONS) { keep_right_quad_along_depth(buffer, lane + INVOCATIONS, right_ahead[1]); }
}

// Quad number i of a slab whose memory runs along the tile: [depth, tile].
fn keep_left_quad_across(buffer: u32, number: u32, quad: Quad) {
  let i = number % LEFT_QUADS;
  left_tile[(buffer % 2 * TILE_DEPTH + i / (TILE_ROWS / 4)) * LEFT_STRIDE + i % (TILE_ROWS / 4)] = quad;
}

fn keep_left_across(buffer: u32) {
  keep_left_quad_across(buffer, lane, left_ahead[0]);
  if (LEFT_QUADS > INVOCATIONS) { keep_left_quad_across(buffer, lane + INVOCATIONS, left_ahead[1]); }
}

fn keep_right_quad_across(buffer: u32, number: u32, quad: Quad) {
  let i = number % RIGHT_QUADS;
  right_tile[(buffer % 2 * TILE_DEPTH + i / (TILE_COLUMNS / 4)) * RIGHT_STRIDE + i % (TILE_COLUMNS / 4)] = quad;
}

fn keep_right_across(buffer: u32) {
  keep_right_quad_across(buffer, lane, right_ahead[0]);
  if (RIGHT_QUADS > INVOCATIONS) { keep_right_quad_across(buffer, lane + INVOCATIONS, right_ahead[1]); }
}

// sums + the products of each of the left with each of the right
fn add_products(sums: mat4x4f, left: vec4f, right: vec4f) -> mat4x4f {
  return mat4x4f(
    fma(vec4f(left.x), right, sums[0]),
    fma(vec4f(left.y), right, sums[1]),
    fma(vec4f(left.z), right, sums[2]),
    fma(vec4f(left.w), right, sums[3]),
  );
}

fn multiply(buffer: u32) {
  let first = buffer % 2 * TILE_DEPTH + team % SPLITS * TEAM_DEPTH;
  let row = row_lane % ROW_LANES;
  let column = column_lane % COLUMN_LANES;
  for (var step = 0u; step < TEAM_DEPTH; step++) {
    let left_at = (first + step) * LEFT_STRIDE + row;
    let right_at = (first + step) * RIGHT_STRIDE + column;
    let left = vec4f(left_tile[left_at]);
    let right = vec4f(right_tile[right_at]);
    sums[0] = add_products(sums[0], left, right);
    if (BLOCK_COLUMNS > 1) { sums[1] = add_products(sums[1], left, vec4f(right_tile[right_at + NEXT_COLUMNS])); }
    if (BLOCK_ROWS > 1) {
      let next_left = vec4f(left_tile[left_at + NEXT_ROWS]);
      sums[2] = add_products(sums[2], next_left, right);
      if (BLOCK_COLUMNS > 1) { sums[3] = add_products(sums[3], next_left, vec4f(right_tile[right_at + NEXT_COLUMNS])); }
    }
  }
}

// team_sums has them by team but for the first, block, row and invocation.
fn keep_team_block(block: u32, sums: mat4x4f) {
  let other = min(team - 1, OTHER_TEAMS - 1);
  let at = (other * BLOCKS + block % BLOCKS) * 4 * TEAM + lane % TEAM;
  team_sums[at] = sums[0];
  team_sums[at + TEAM] = sums[1];
  team_sums[at + 2 * TEAM] = sums[2];
  team_sums[at + 3 * TEAM] = sums[3];
}

fn with_team_block(sums: mat4x4f, other: u32, block: u32) -> mat4x4f {
  let at = (min(other, OTHER_TEAMS - 1) * BLOCKS + block % BLOCKS) * 4 * TEAM + lane % TEAM;
  return sums + mat4x4f(team_sums[at], team_sums[at + TEAM], team_sums[at + 2 * TEAM], team_sums[at + 3 * TEAM]);
}

// The first team's sums get all the others', in their order; only that team's are whole then.
fn add_teams() {
  if (SPLITS > 1) {
    if (team > 0) {
      keep_team_block(0, sums[0]);
      if (BLOCK_COLUMNS > 1) { keep_team_block(1, sums[1]); }
      if (BLOCK_ROWS > 1) { keep_team_block(BLOCK_COLUMNS, sums[2]); }
      if (BLOCKS == 4) { keep_team_block(3, sums[3]); }
    }
    workgroupBarrier();
    if (team == 0) {
      for (var other = 0u; other < SPLITS - 1; other++) {
        sums[0] = with_team_block(sums[0], other, 0);
        if (BLOCK_COLUMNS > 1) { sums[1] = with_team_block(sums[1], other, 1); }
        if (BLOCK_ROWS > 1) { sums[2] = with_team_block(sums[2], other, BLOCK_COLUMNS); }
        if (BLOCKS == 4) { sums[3] = with_team_block(sums[3], other, 3); }
      }
    }
  }
}

// Row number j of the invocation's block number r, and its quad of columns number c, in the product.
fn row_of(r: u32, j: u32) -> u32 {
  return first_row + (row_lane + r * ROW_LANES) * 4 + j;
}

fn column_of(c: u32) -> u32 {
  return first_column + (column_lane + c * COLUMN_LANES) * 4;
}
