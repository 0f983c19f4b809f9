// What linear.wgsl and linear_normed.wgsl multiply: x and weight, brought to a workgroup slab by slab. Needs linear_tile.wgsl.

@group(0) @binding(0) var<storage, read> x: array<vec4f>;  // [N, I]
@group(0) @binding(1) var<storage, read> weight: array<vec4f>;  // [O, I]
@group(0) @binding(2) var<storage, read> bias: array<vec4f>;

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

fn x_quad(k: u32, number: u32) -> Quad {
  let at = along_depth(number);
  let row = first_row + at.x;
  var quad = Quad();
  if (has_row(row) && has_depth(k + at.y)) { quad = Quad(x[(row * I + k + at.y) / 4]); }
  return quad;
}

fn weight_quad(k: u32, number: u32) -> Quad {
  let at = along_depth(number);
  let column = first_column + at.x;
  var quad = Quad();
  if (has_column(column) && has_depth(k + at.y)) { quad = Quad(weight[(column * I + k + at.y) / 4]); }
  return quad;
}

fn fetch_x_and_weight(k: u32) {
  left_ahead[0] = x_quad(k, lane);
  if (LEFT_QUADS > INVOCATIONS) { left_ahead[1] = x_quad(k, lane + INVOCATIONS); }
  right_ahead[0] = weight_quad(k, lane);
  if (RIGHT_QUADS > INVOCATIONS) { right_ahead[1] = weight_quad(k, lane + INVOCATIONS); }
}

fn bias_quad(column: u32) -> vec4f {
  if (HAS_BIAS) { return bias[column / 4]; }
  return vec4f(0.0);
}
