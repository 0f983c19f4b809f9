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

fn fetch_dy_and_weight(k: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let row = first_row + at.x;
    left_ahead[n] = Quad();
    if (has_row_of_batch(row) && (O % TILE_DEPTH == 0 || k + at.y < O)) {
      left_ahead[n] = Quad(dy[(DY_OFFSET + row * DY_PITCH + k + at.y) / 4] * LOSS_SCALE);
    }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let output = k + i / (TILE_COLUMNS / 4);
    let input = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if ((O % TILE_DEPTH == 0 || output < O) && has_input(input)) {
      right_ahead[n] = Quad(weight[(output * I + input) / 4]);
    }
  }
}

fn make_dx() {
  fetch_dy_and_weight(0);
  keep_left_along_depth(0);
  keep_right_across(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < O; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < O) { fetch_dy_and_weight(k + TILE_DEPTH); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < O) {
      keep_left_along_depth(buffer);
      keep_right_across(buffer);
    }
    workgroupBarrier();
  }
  add_teams();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let input = column_of(c);
    if (team == 0 && has_input(input)) {
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row_of_batch(row)) {
          let at = (row * I + input) / 4;
          var result = SCALE * (sums[r * BLOCK_COLUMNS + c] / LOSS_SCALE);
          if (HAS_SLOPE) { result *= slope[at]; }
          if (ACCUMULATE_DX) { dx[at] += result; } else { dx[at] = result; }
        }
      }
    }
  }
}

// --- dweight and dbias, outputs by inputs, sums over a slice's rows of the batch ------------------------------------------

fn fetch_dy_and_x(k: u32, end: u32) {
  let whole = N % (SLICES * TILE_DEPTH) == 0;
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let row = k + i / (TILE_ROWS / 4);
    let output = first_row + i % (TILE_ROWS / 4) * 4;
    left_ahead[n] = Quad();
    if ((whole || row < end) && has_output(output)) {
      left_ahead[n] = Quad(dy[(DY_OFFSET + row * DY_PITCH + output) / 4] * LOSS_SCALE);
    }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let i = lane + n * INVOCATIONS;
    let row = k + i / (TILE_COLUMNS / 4);
    let input = first_column + i % (TILE_COLUMNS / 4) * 4;
    right_ahead[n] = Quad();
    if ((whole || row < end) && has_input(input)) { right_ahead[n] = Quad(x[(row * I + input) / 4]); }
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
  add_teams();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let input = column_of(c);
    if (team == 0 && has_input(input)) {
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let output = row_of(r);
        if (has_output(output)) {
          let at = in_slice(output * I + input, slice) / 4;
          let result = sums[r * BLOCK_COLUMNS + c] / LOSS_SCALE;
          if (ACCUMULATE) { dweight[at] += result; } else { dweight[at] = result; }
        }
      }
    }
  }
  if (sums_bias && first_row + lane < O) {
    let at = in_slice(first_row + lane, slice);
    if (ACCUMULATE) { dbias[at] += bias_sum / LOSS_SCALE; } else { dbias[at] = bias_sum / LOSS_SCALE; }
  }
}
