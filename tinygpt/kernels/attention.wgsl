// y_i = sum over keys j <= i of p_ij v_j,  p_ij = exp(s_ij - lse_i),  s_ij = q_i . k_j / sqrt(D)
//
// Keys pass by in tiles; each row keeps the largest score so far and the sum of 2^(s - largest), its y is brought
// down when a larger score comes (online softmax). Scores are powers of two: q is scaled by log2(e) / sqrt(D).
// qkv [N, 3, H, QUADS], y [N, H, QUADS], lse [B, H, T] if HAS_LSE.
override HAS_LSE: u32;
override SCRATCH: u32 = max(COLUMNS * STRIDE, ROWS * SCORE_STRIDE);

@group(0) @binding(0) var<storage, read> qkv: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> lse: array<f32>;

var<workgroup> q_tile: array<vec4f, ROWS * STRIDE>;
var<workgroup> k_tile: array<vec4f, SCRATCH>;  // then p: [ROWS][ACROSS], a vec4 goes over columns x + ACROSS j
var<workgroup> v_tile: array<vec4f, COLUMNS * STRIDE>;
var<workgroup> shared_by_row: array<vec4f, DOWN * SCORE_STRIDE>;  // [y][x], over rows i

@compute @workgroup_size(ACROSS, DOWN)
fn attention(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_id) at: vec3u,
  @builtin(local_invocation_index) invocation: u32,
) {
  let number = group.x + group.y * groups.x;
  if (number >= HEADS * TILES) {
    return;
  }
  let head = number % HEADS;
  let first = (TILES - 1u - number / HEADS) * ROWS;  // the longest rows begin first
  stage_queries(head, first, invocation);

  var out: Shares;
  var largest = vec4f(MASKED);
  var sum = vec4f();  // of this invocation's columns
  let end = min(first + ROWS, T);
  for (var tile = 0u; tile < (T + COLUMNS - 1u) / COLUMNS; tile++) {
    let key = tile * COLUMNS;
    if (key >= end) {
      break;
    }
    workgroupBarrier();
    stage_keys(head, key, invocation);
    workgroupBarrier();
    var s = scores(at.x, at.y);
    if (ALIBI != 0u) {
      s = lowered_by_distance(s, head, first + rows_of(at.y), key + at.x);
    }
    if (key + COLUMNS > first + 1u) {
      s = without_future(s, first + rows_of(at.y), key + at.x);
    }
    shared_by_row[at.y * SCORE_STRIDE + at.x] = max(max(s[0], s[1]), max(s[2], s[3]));
    workgroupBarrier();
    var top = largest;
    for (var x = 0u; x < ACROSS; x++) {
      top = max(top, shared_by_row[at.y * SCORE_STRIDE + x]);
    }
    let p = mat4x4f(exp2(s[0] - top), exp2(s[1] - top), exp2(s[2] - top), exp2(s[3] - top));
    let shrink = exp2(largest - top);
    largest = top;
    sum = fma(sum, shrink, (p[0] + p[1]) + (p[2] + p[3]));
    out.first = scale_rows(out.first, shrink);
    if (SHARES > 1u) { out.second = scale_rows(out.second, shrink); }
    if (SHARES > 2u) { out.third = scale_rows(out.third, shrink); }
    if (SHARES > 3u) { out.fourth = scale_rows(out.fourth, shrink); }
    let by_row = transpose(p);
    let place = at.y * SCORE_STRIDE + at.x;
    k_tile[place] = by_row[0];
    k_tile[place + NEXT_SCORE] = by_row[1];
    k_tile[place + 2u * NEXT_SCORE] = by_row[2];
    k_tile[place + 3u * NEXT_SCORE] = by_row[3];
    workgroupBarrier();
    out = add_values(at.x, at.y, out);
  }

  shared_by_row[at.y * SCORE_STRIDE + at.x] = sum;
  workgroupBarrier();
  var total = vec4f();
  for (var x = 0u; x < ACROSS; x++) {
    total += shared_by_row[at.y * SCORE_STRIDE + x];
  }
  let rows = first + rows_of(at.y);
  store_share(head, rows, at.x, out.first, total);
  if (SHARES > 1u) { store_share(head, rows, at.x + ACROSS, out.second, total); }
  if (SHARES > 2u) { store_share(head, rows, at.x + 2u * ACROSS, out.third, total); }
  if (SHARES > 3u) { store_share(head, rows, at.x + 3u * ACROSS, out.fourth, total); }
  if (HAS_LSE != 0u && at.x == 0u) {
    let row_lse = fma(largest, vec4f(LN_2), log(total));
    store_lse(head, rows.x, row_lse.x);
    store_lse(head, rows.y, row_lse.y);
    store_lse(head, rows.z, row_lse.z);
    store_lse(head, rows.w, row_lse.w);
  }
}

// The workgroup's queries, scaled.
fn stage_queries(head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step < (ROWS * QUADS + INVOCATIONS - 1u) / INVOCATIONS; step++) {
    let i = invocation % INVOCATIONS + step * INVOCATIONS;
    let q = load_quad(head, first + i / QUADS, 0u, i % QUADS) * (score_scale() * LOG2_E);
    if (i < ROWS * QUADS) {
      q_tile[i / QUADS * STRIDE + i % QUADS] = q;
    }
  }
}

// A tile of keys and their values.
fn stage_keys(head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step < (COLUMNS * QUADS + INVOCATIONS - 1u) / INVOCATIONS; step++) {
    let i = invocation % INVOCATIONS + step * INVOCATIONS;
    let k = load_quad(head, first + i / QUADS, 1u, i % QUADS);
    let v = load_quad(head, first + i / QUADS, 2u, i % QUADS);
    if (i < COLUMNS * QUADS) {
      k_tile[i / QUADS * STRIDE + i % QUADS] = k;
      v_tile[i / QUADS * STRIDE + i % QUADS] = v;
    }
  }
}

// The invocation's scores of the tile.
fn scores(x: u32, y: u32) -> mat4x4f {
  var s: mat4x4f;
  for (var four = 0u; four < (QUADS + 3u) / 4u; four++) {
    s = with_quad(s, x, y, 4u * four);
    if (has_quad(4u * four + 1u)) { s = with_quad(s, x, y, 4u * four + 1u); }
    if (has_quad(4u * four + 2u)) { s = with_quad(s, x, y, 4u * four + 2u); }
    if (has_quad(4u * four + 3u)) { s = with_quad(s, x, y, 4u * four + 3u); }
  }
  return s;
}

// before + what a quad of the vectors adds
fn with_quad(before: mat4x4f, x: u32, y: u32, number: u32) -> mat4x4f {
  let quad = min(number, QUADS - 1u);
  let key = x % ACROSS * STRIDE + quad;
  let query = y % DOWN * STRIDE + quad;
  let k = mat4x4f(k_tile[key], k_tile[key + NEXT_COLUMN], k_tile[key + 2u * NEXT_COLUMN], k_tile[key + 3u * NEXT_COLUMN]);
  let q = mat4x4f(q_tile[query], q_tile[query + NEXT], q_tile[query + 2u * NEXT], q_tile[query + 3u * NEXT]);
  return multiply_add(transpose(q), k, before);
}

// Its scores with keys after their queries are masked; `key` is that of column 0.
fn without_future(s: mat4x4f, queries: vec4u, key: u32) -> mat4x4f {
  let masked = vec4f(MASKED);
  return mat4x4f(
    select(masked, s[0], queries >= vec4u(key)),
    select(masked, s[1], queries >= vec4u(key + ACROSS)),
    select(masked, s[2], queries >= vec4u(key + 2u * ACROSS)),
    select(masked, s[3], queries >= vec4u(key + 3u * ACROSS)),
  );
}

// before + p v, over the tile's keys
fn add_values(x: u32, y: u32, before: Shares) -> Shares {
  var sum = before;
  for (var four = 0u; four < (ACROSS + 3u) / 4u; four++) {
    sum = with_column(sum, x, y, 4u * four);
    if (has_column(4u * four + 1u)) { sum = with_column(sum, x, y, 4u * four + 1u); }
    if (has_column(4u * four + 2u)) { sum = with_column(sum, x, y, 4u * four + 2u); }
    if (has_column(4u * four + 3u)) { sum = with_column(sum, x, y, 4u * four + 3u); }
  }
  return sum;
}

// before + what a column, and the three ACROSS apart from it, add
fn with_column(before: Shares, x: u32, y: u32, number: u32) -> Shares {
  let column = min(number, ACROSS - 1u);
  let row = y % DOWN * SCORE_STRIDE + column;
  let p = mat4x4f(k_tile[row], k_tile[row + NEXT_SCORE], k_tile[row + 2u * NEXT_SCORE], k_tile[row + 3u * NEXT_SCORE]);
  var sum = before;
  sum.first = multiply_add(values(column, x), p, sum.first);
  if (SHARES > 1u) { sum.second = multiply_add(values(column, x + ACROSS), p, sum.second); }
  if (SHARES > 2u) { sum.third = multiply_add(values(column, x + 2u * ACROSS), p, sum.third); }
  if (SHARES > 3u) { sum.fourth = multiply_add(values(column, x + 3u * ACROSS), p, sum.fourth); }
  return sum;
}

// A quad of the values of these four columns; a surplus quad is the last again.
fn values(column: u32, quad: u32) -> mat4x4f {
  let at = min(column, ACROSS - 1u) * STRIDE + min(quad, QUADS - 1u);
  return mat4x4f(v_tile[at], v_tile[at + NEXT_COLUMN], v_tile[at + 2u * NEXT_COLUMN], v_tile[at + 3u * NEXT_COLUMN]);
}

fn scale_rows(rows: mat4x4f, by: vec4f) -> mat4x4f {
  return mat4x4f(rows[0] * by.x, rows[1] * by.y, rows[2] * by.z, rows[3] * by.w);
}

fn store_share(head: u32, rows: vec4u, quad: u32, share: mat4x4f, total: vec4f) {
  let part = scale_rows(share, 1.0 / total);
  if (quad < QUADS) {
    store_y(head, rows.x, quad, part[0]);
    store_y(head, rows.y, quad, part[1]);
    store_y(head, rows.z, quad, part[2]);
    store_y(head, rows.w, quad, part[3]);
  }
}

fn store_y(head: u32, row: u32, quad: u32, value: vec4f) {
  if (row < T) {
    y[vector_start(head, row, 0u, 1u) + quad] = value;
  }
}

fn store_lse(head: u32, row: u32, value: f32) {
  if (row < T) {
    lse[head * T + row] = value;
  }
}
