// Linear maps and their gradients for any widths, the plain way: tiles of 16×16, one sum per invocation.
// linear.wgsl has the same entry points for widths that are multiples of 4. Needs activation.wgsl, width_1.wgsl and slices.wgsl.

override ROWS: u32;
override COLUMNS: u32;
override DEPTH: u32;
override HAS_BIAS: bool = false;
override HAS_RESIDUAL: bool = false;
override HAS_SLOPE: bool = false;
override ACCUMULATE: bool = false;
override SCALE: f32 = 1.0;
override Y_PITCH: u32 = 0;  // floats from row to row; COLUMNS, but for a slice of columns
override Y_OFFSET: u32 = 0;  // of the first row in its binding
override DY_PITCH: u32 = 0;
override DY_OFFSET: u32 = 0;

const TILE = 16u;
var<workgroup> left_tile: array<array<f32, TILE>, TILE>;  // [row][depth]
var<workgroup> right_tile: array<array<f32, TILE>, TILE>;  // [depth][column]

fn multiply(at: vec3u, sum: f32) -> f32 {
  workgroupBarrier();
  var total = sum;
  for (var k = 0u; k < TILE; k++) { total += left_tile[at.y][k] * right_tile[k][at.x]; }
  workgroupBarrier();
  return total;
}

// --- y (+)= SCALE x weight^T (+ bias) (+ residual), and activate(x weight^T (+ bias) (+ residual)) -----------------------------

@group(0) @binding(0) var<storage, read> x: array<f32>;  // [ROWS, DEPTH]
@group(0) @binding(1) var<storage, read> weight: array<f32>;  // [COLUMNS, DEPTH]
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

fn x_times_weight(group: vec3u, at: vec3u) -> f32 {
  let row = group.y * TILE + at.y;
  let weight_row = group.x * TILE + at.y;  // a tile of the weight is read along its rows and kept across
  var sum = 0.0;
  for (var k = 0u; k < DEPTH; k += TILE) {
    let depth = k + at.x;
    left_tile[at.y][at.x] = 0.0;
    right_tile[at.x][at.y] = 0.0;
    if (row < ROWS && depth < DEPTH) { left_tile[at.y][at.x] = x[row * DEPTH + depth]; }
    if (weight_row < COLUMNS && depth < DEPTH) { right_tile[at.x][at.y] = weight[weight_row * DEPTH + depth]; }
    sum = multiply(at, sum);
  }
  return sum;
}

@compute @workgroup_size(TILE, TILE)
fn linear(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) at: vec3u) {
  var result = SCALE * x_times_weight(group, at);
  let row = group.y * TILE + at.y;
  let column = group.x * TILE + at.x;
  if (row < ROWS && column < COLUMNS) {
    if (HAS_BIAS) { result += bias[column]; }
    if (HAS_RESIDUAL) { result += residual[row * COLUMNS + column]; }
    let place = Y_OFFSET + row * Y_PITCH + column;
    if (ACCUMULATE) { y[place] += result; } else { y[place] = result; }
  }
}

@group(0) @binding(4) var<storage, read_write> activation: array<f32>;
@group(0) @binding(5) var<storage, read_write> slope: array<f32>;

@compute @workgroup_size(TILE, TILE)
fn linear_activation(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) at: vec3u) {
  var product = x_times_weight(group, at);
  let row = group.y * TILE + at.y;
  let column = group.x * TILE + at.x;
  if (row < ROWS && column < COLUMNS) {
    let place = row * COLUMNS + column;
    if (HAS_BIAS) { product += bias[column]; }
    if (HAS_RESIDUAL) { product += residual[place]; }
    let h = activate(vec4f(product));
    activation[place] = h.value.x;
    if (HAS_SLOPE) { slope[place] = h.slope.x; }
  }
}

// --- dx (+)= SCALE dy weight (* slope) -------------------------------------------------------------------------------

@group(0) @binding(0) var<storage, read> dy: array<f32>;  // [ROWS, DEPTH]
@group(0) @binding(1) var<storage, read> weight_rows: array<f32>;  // [DEPTH, COLUMNS]
@group(0) @binding(2) var<storage, read> kept_slope: array<f32>;
@group(0) @binding(3) var<storage, read_write> dx: array<f32>;

@compute @workgroup_size(TILE, TILE)
fn linear_backward_input(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) at: vec3u) {
  let row = group.y * TILE + at.y;
  let column = group.x * TILE + at.x;
  var sum = 0.0;
  for (var k = 0u; k < DEPTH; k += TILE) {
    left_tile[at.y][at.x] = 0.0;
    right_tile[at.y][at.x] = 0.0;
    if (row < ROWS && k + at.x < DEPTH) { left_tile[at.y][at.x] = dy[DY_OFFSET + row * DY_PITCH + k + at.x]; }
    if (k + at.y < DEPTH && column < COLUMNS) { right_tile[at.y][at.x] = weight_rows[(k + at.y) * COLUMNS + column]; }
    sum = multiply(at, sum);
  }
  if (row < ROWS && column < COLUMNS) {
    let place = row * COLUMNS + column;
    sum *= SCALE;
    if (HAS_SLOPE) { sum *= kept_slope[place]; }
    if (ACCUMULATE) { dx[place] += sum; } else { dx[place] = sum; }
  }
}

// --- dweight (+)= dy^T x and dbias (+)= column sums of dy, over the rows of slice number group.z ----------------------

@group(0) @binding(0) var<storage, read> dy_rows: array<f32>;  // [DEPTH, ROWS]
@group(0) @binding(1) var<storage, read> x_rows: array<f32>;  // [DEPTH, COLUMNS]
@group(0) @binding(2) var<storage, read_write> dweight: array<f32>;
@group(0) @binding(3) var<storage, read_write> dbias: array<f32>;

@compute @workgroup_size(TILE, TILE)
fn linear_backward_weight(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) at: vec3u) {
  let row = group.y * TILE + at.y;
  let column = group.x * TILE + at.x;
  let dy_column = group.y * TILE + at.x;  // a tile of dy is read along its rows and kept across
  let end = min(DEPTH, (group.z + 1) * slice_rows(DEPTH));
  var sum = 0.0;
  var bias_sum = 0.0;
  for (var k = group.z * slice_rows(DEPTH); k < end; k += TILE) {
    left_tile[at.x][at.y] = 0.0;
    right_tile[at.y][at.x] = 0.0;
    if (k + at.y < end && dy_column < ROWS) {
      left_tile[at.x][at.y] = dy_rows[DY_OFFSET + (k + at.y) * DY_PITCH + dy_column];
    }
    if (k + at.y < end && column < COLUMNS) { right_tile[at.y][at.x] = x_rows[(k + at.y) * COLUMNS + column]; }
    sum = multiply(at, sum);
    if (group.x == 0 && at.x == 0 && row < ROWS) {
      for (var j = k; j < min(end, k + TILE); j++) { bias_sum += dy_rows[DY_OFFSET + j * DY_PITCH + row]; }
    }
  }
  if (row < ROWS && column < COLUMNS) {
    let place = in_slice(row * COLUMNS + column, group.z);
    if (ACCUMULATE) { dweight[place] += sum; } else { dweight[place] = sum; }
  }
  if (HAS_BIAS && group.x == 0 && at.x == 0 && row < ROWS) {
    let place = in_slice(row, group.z);
    if (ACCUMULATE) { dbias[place] += bias_sum; } else { dbias[place] = bias_sum; }
  }
}
