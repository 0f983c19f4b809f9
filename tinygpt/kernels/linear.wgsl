// y (+)= SCALE x weight^T (+ bias) (+ residual), and activate(x weight^T (+ bias)) with its slope: blocked matmuls, see
// linear_tile.wgsl, for widths that are multiples of 4. Needs activation.wgsl.

@group(0) @binding(0) var<storage, read> x: array<vec4f>;  // [N, I]
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;  // [O, I]
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;
@group(0) @binding(3) var<storage, read> residual: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;

// Whether a row, a quad of columns or a quad of the depth is there: always, where the tiles divide the sizes.
fn has_row(row: u32) -> bool {
  return N % TILE_ROWS == 0 || row < N;
}

fn has_column(column: u32) -> bool {
  return O % TILE_COLUMNS == 0 || column < O;
}

fn has_depth(depth: u32) -> bool {
  return I % TILE_DEPTH == 0 || depth < I;
}

fn fetch_x_and_weight(k: u32) {
  for (var n = 0u; n < TILE_ROWS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let row = first_row + at.x;
    left_ahead[n] = Quad();
    if (has_row(row) && has_depth(k + at.y)) { left_ahead[n] = Quad(x[(row * I + k + at.y) / 4]); }
  }
  for (var n = 0u; n < TILE_COLUMNS * TILE_DEPTH / 4 / INVOCATIONS; n++) {
    let at = along_depth(lane + n * INVOCATIONS);
    let column = first_column + at.x;
    right_ahead[n] = Quad();
    if (has_column(column) && has_depth(k + at.y)) { right_ahead[n] = Quad(weight[(column * I + k + at.y) / 4]); }
  }
}

fn multiply_x_and_weight() {
  fetch_x_and_weight(0);
  keep_left_along_depth(0);
  keep_right_along_depth(0);
  workgroupBarrier();
  var buffer = 0u;
  for (var k = 0u; k < I; k += TILE_DEPTH) {
    if (k + TILE_DEPTH < I) { fetch_x_and_weight(k + TILE_DEPTH); }
    multiply(buffer);
    buffer = 1 - buffer;
    if (k + TILE_DEPTH < I) {
      keep_left_along_depth(buffer);
      keep_right_along_depth(buffer);
    }
    workgroupBarrier();
  }
}

@compute @workgroup_size(INVOCATIONS)
fn linear(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_x_and_weight();
  add_teams();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (team == 0 && has_column(column)) {
      var added = vec4f(0.0);
      if (HAS_BIAS) { added = bias[column / 4]; }
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          var result = SCALE * sums[r * BLOCK_COLUMNS + c] + added;
          if (HAS_RESIDUAL) { result += residual[(row * O + column) / 4]; }
          let at = (Y_OFFSET + row * Y_PITCH + column) / 4;
          if (ACCUMULATE) { y[at] += result; } else { y[at] = result; }
        }
      }
    }
  }
}

@group(0) @binding(3) var<storage, read_write> activation: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> slope: array<vec4f>;

@compute @workgroup_size(INVOCATIONS)
fn linear_activation(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) invocation: u32) {
  place(group.y, group.x, invocation);
  multiply_x_and_weight();
  add_teams();
  for (var c = 0u; c < BLOCK_COLUMNS; c++) {
    let column = column_of(c);
    if (team == 0 && has_column(column)) {
      var added = vec4f(0.0);
      if (HAS_BIAS) { added = bias[column / 4]; }
      for (var r = 0u; r < 4 * BLOCK_ROWS; r++) {
        let row = row_of(r);
        if (has_row(row)) {
          let at = (row * O + column) / 4;
          let h = activate(sums[r * BLOCK_COLUMNS + c] + added);
          activation[at] = h.value;
          if (HAS_SLOPE) { slope[at] = h.slope; }
        }
      }
    }
  }
}
