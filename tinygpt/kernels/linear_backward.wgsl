// Both gradients of y[N,O] = x[N,I] weight[O,I]^T in one dispatch: blocked matmuls, see linear_tile.wgsl, for widths
// that are multiples of 4. Needs width_1.wgsl and slices.wgsl.
//
//   dx[N,I] (+)= SCALE dy weight (* slope)
//   dweight[O,I] (+)= dy^T x  and  dbias[O] (+)= column sums of dy, in slices, each over its share of the N rows
//
// They need nothing of each other. Workgroups are numbered: INPUT_TILES of them make dx, WEIGHT_TILES make dweight, and
// those that walk further come first, so that a device is busy to the end. Either number may be 0.

@group(0) @binding(0) var<storage, read> dy: array<vec4f>;
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;
@group(0) @binding(2) var<storage, read> slope: array<vec4f>;
@group(0) @binding(3) var<storage, read> x: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> dx: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> dweight: array<vec4f>;
@group(0) @binding(6) var<storage, read_write> dbias: array<f32>;

// Whether it is there: always, where the tiles divide the sizes.
fn has_row_of_batch(row: u32) -> bool {
  return N % TILE_ROWS == 0 || row < N;
}

fn has_output(output: u32) -> bool {
  return O % TILE_ROWS == 0 || output < O;
}

fn has_input(input: u32) -> bool {
  return I % TILE_COLUMNS == 0 || input < I;
}

@compute @workgroup_size(INVOCATIONS)
fn linear_backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) invocation: u32,
) {
  let number = group.x + group.y * groups.x;
  let column_tiles = (I + TILE_COLUMNS - 1) / TILE_COLUMNS;
  let of_weight = select(number >= INPUT_TILES, number < WEIGHT_TILES, WEIGHTS_FIRST);
  if (of_weight) {
    let tile = select(number - INPUT_TILES, number, WEIGHTS_FIRST);
    if (tile < WEIGHT_TILES) {
      place(tile / column_tiles % ((O + TILE_ROWS - 1) / TILE_ROWS), tile % column_tiles, invocation);
      make_dweight(tile / max(1, WEIGHT_TILES / SLICES));
    }
  } else {
    let tile = select(number, number - WEIGHT_TILES, WEIGHTS_FIRST);
    if (tile < INPUT_TILES) {
      place(tile / column_tiles, tile % column_tiles, invocation);
      make_dx();
    }
  }
}

// --- dx, rows of the batch by inputs, sums over outputs ---------------------------------------------------------------

fn dy_quad_along_depth(k: u32, number: u32) -> Quad {
  let at = along_depth(number);
  let row = first_row + at.x;
  var quad = Quad();
  if (has_row_of_batch(row) && (O % TILE_DEPTH == 0 || k + at.y < O)) {
    quad = Quad(dy[(DY_OFFSET + row * DY_PITCH + k + at.y) / 4] * LOSS_SCALE);
  }
  return quad;
}

fn weight_quad(k: u32, number: u32) -> Quad {
  let output = k + number / (TILE_COLUMNS / 4);
  let input = first_column + number % (TILE_COLUMNS / 4) * 4;
  var quad = Quad();
  if ((O % TILE_DEPTH == 0 || output < O) && has_input(input)) { quad = Quad(weight[(output * I + input) / 4]); }
  return quad;
}

fn fetch_dy_and_weight(k: u32) {
  left_ahead[0] = dy_quad_along_depth(k, lane);
  if (LEFT_QUADS > INVOCATIONS) { left_ahead[1] = dy_quad_along_depth(k, lane + INVOCATIONS); }
  right_ahead[0] = weight_quad(k, lane);
  if (RIGHT_QUADS > INVOCATIONS) { right_ahead[1] = weight_quad(k, lane + INVOCATIONS); }
}

fn write_dx(row: u32, input: u32, sum: vec4f) {
  if (has_row_of_batch(row)) {
    let at = (row * I + input) / 4;
    var result = SCALE * (sum / LOSS_SCALE);
    if (HAS_SLOPE) { result *= slope[at]; }
    if (ACCUMULATE_DX) { dx[at] += result; } else { dx[at] = result; }
  }
}

fn write_dx_block(r: u32, c: u32, block: mat4x4f) {
  let input = column_of(c);
  if (has_input(input)) {
    write_dx(row_of(r, 0), input, block[0]);
    write_dx(row_of(r, 1), input, block[1]);
    write_dx(row_of(r, 2), input, block[2]);
    write_dx(row_of(r, 3), input, block[3]);
  }
}

fn make_dx() {
  fetch_dy_and_weight(0);
  keep_left_along_depth(0);
  keep_right_across(0);
  workgroupBarrier();
  if ((O + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < (O + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = (slab + 1) * TILE_DEPTH;
      fetch_dy_and_weight(next);
      multiply(slab);
      keep_left_along_depth(slab + 1);
      keep_right_across(slab + 1);
      workgroupBarrier();
    }
  }
  multiply((O + TILE_DEPTH - 1) / TILE_DEPTH - 1);
  add_teams();
  if (team == 0) {
    write_dx_block(0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_dx_block(0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_dx_block(1, 0, sums[2]); }
    if (BLOCKS == 4) { write_dx_block(1, 1, sums[3]); }
  }
}

// --- dweight and dbias, outputs by inputs, sums over a slice's rows of the batch ------------------------------------------

// Whether a row before `end` is there: always, where slices are a number of whole slabs.
fn has_row_of_slice(row: u32, end: u32) -> bool {
  return N % (SLICES * TILE_DEPTH) == 0 || row < end;
}

fn dy_quad_across(k: u32, end: u32, number: u32) -> Quad {
  let row = k + number / (TILE_ROWS / 4);
  let output = first_row + number % (TILE_ROWS / 4) * 4;
  var quad = Quad();
  if (has_row_of_slice(row, end) && has_output(output)) {
    quad = Quad(dy[(DY_OFFSET + row * DY_PITCH + output) / 4] * LOSS_SCALE);
  }
  return quad;
}

fn x_quad(k: u32, end: u32, number: u32) -> Quad {
  let row = k + number / (TILE_COLUMNS / 4);
  let input = first_column + number % (TILE_COLUMNS / 4) * 4;
  var quad = Quad();
  if (has_row_of_slice(row, end) && has_input(input)) { quad = Quad(x[(row * I + input) / 4]); }
  return quad;
}

fn fetch_dy_and_x(k: u32, end: u32) {
  left_ahead[0] = dy_quad_across(k, end, lane);
  if (LEFT_QUADS > INVOCATIONS) { left_ahead[1] = dy_quad_across(k, end, lane + INVOCATIONS); }
  right_ahead[0] = x_quad(k, end, lane);
  if (RIGHT_QUADS > INVOCATIONS) { right_ahead[1] = x_quad(k, end, lane + INVOCATIONS); }
}

// before + all of a row of the left slab
fn add_row_of_slab(before: f32, buffer: u32, number: u32) -> f32 {
  let row = number % TILE_ROWS;
  var sum = before;
  for (var j = 0u; j < TILE_DEPTH; j++) {
    sum += f32(left_tile[(buffer % 2 * TILE_DEPTH + j) * LEFT_STRIDE + row / 4][row % 4]);
  }
  return sum;
}

fn write_dweight(slice: u32, output: u32, input: u32, sum: vec4f) {
  if (has_output(output)) {
    let at = in_slice(output * I + input, slice) / 4;
    let result = sum / LOSS_SCALE;
    if (ACCUMULATE) { dweight[at] += result; } else { dweight[at] = result; }
  }
}

fn write_dweight_block(slice: u32, r: u32, c: u32, block: mat4x4f) {
  let input = column_of(c);
  if (has_input(input)) {
    write_dweight(slice, row_of(r, 0), input, block[0]);
    write_dweight(slice, row_of(r, 1), input, block[1]);
    write_dweight(slice, row_of(r, 2), input, block[2]);
    write_dweight(slice, row_of(r, 3), input, block[3]);
  }
}

fn make_dweight(slice: u32) {
  let begin = slice * slice_rows(N);
  let end = min(N, begin + slice_rows(N));
  let sums_bias = HAS_BIAS && first_column == 0 && lane < TILE_ROWS;
  var bias_sum = 0.0;
  fetch_dy_and_x(begin, end);
  keep_left_across(0);
  keep_right_across(0);
  workgroupBarrier();
  var last = 0u;
  if (((N + SLICES - 1) / SLICES + TILE_DEPTH - 1) / TILE_DEPTH > 1) {
    for (var slab = 0u; slab < ((N + SLICES - 1) / SLICES + TILE_DEPTH - 1) / TILE_DEPTH - 1; slab++) {
      let next = begin + (slab + 1) * TILE_DEPTH;
      if (next >= end) { break; }  // the last slices may have fewer rows
      fetch_dy_and_x(next, end);
      multiply(slab);
      if (sums_bias) { bias_sum = add_row_of_slab(bias_sum, slab, lane); }
      keep_left_across(slab + 1);
      keep_right_across(slab + 1);
      workgroupBarrier();
      last = slab + 1;
    }
  }
  multiply(last);
  if (sums_bias) { bias_sum = add_row_of_slab(bias_sum, last, lane); }
  add_teams();
  if (team == 0) {
    write_dweight_block(slice, 0, 0, sums[0]);
    if (BLOCK_COLUMNS > 1) { write_dweight_block(slice, 0, 1, sums[1]); }
    if (BLOCK_ROWS > 1) { write_dweight_block(slice, 1, 0, sums[2]); }
    if (BLOCKS == 4) { write_dweight_block(slice, 1, 1, sums[3]); }
  }
  if (sums_bias && first_row + lane < O) {
    let at = in_slice(first_row + lane, slice);
    if (ACCUMULATE) { dbias[at] += bias_sum / LOSS_SCALE; } else { dbias[at] = bias_sum / LOSS_SCALE; }
  }
}
