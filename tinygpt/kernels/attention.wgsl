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
var<workgroup> shared_by_row: array<vec4f, BLOCKS * DOWN * SCORE_STRIDE>;  // [block][y][x], over rows i

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
  var largest = array<vec4f, 2>(vec4f(MASKED), vec4f(MASKED));
  var sum: array<vec4f, 2>;  // of this invocation's columns
  for (var key = 0u; key < min(first + ROWS, T); key += COLUMNS) {
    workgroupBarrier();
    stage_keys(head, key, invocation);
    workgroupBarrier();
    var s = scores(at.x, at.y);
    for (var b = 0u; b < BLOCKS; b++) {
      if (ALIBI != 0u) {
        s[b] = lowered_by_distance(s[b], head, first + block_rows(at.y, b), key + at.x);
      }
      if (key + COLUMNS > first + 1u) {
        s[b] = without_future(s[b], first + block_rows(at.y, b), key + at.x);
      }
      shared_by_row[(b * DOWN + at.y) * SCORE_STRIDE + at.x] = max(max(s[b][0], s[b][1]), max(s[b][2], s[b][3]));
    }
    workgroupBarrier();
    for (var b = 0u; b < BLOCKS; b++) {
      var top = largest[b];
      for (var x = 0u; x < ACROSS; x++) {
        top = max(top, shared_by_row[(b * DOWN + at.y) * SCORE_STRIDE + x]);
      }
      let p = mat4x4f(exp2(s[b][0] - top), exp2(s[b][1] - top), exp2(s[b][2] - top), exp2(s[b][3] - top));
      let shrink = exp2(largest[b] - top);
      largest[b] = top;
      sum[b] = fma(sum[b], shrink, (p[0] + p[1]) + (p[2] + p[3]));
      for (var c = 0u; c < SHARES; c++) {
        out[b * SHARES + c] = scale_rows(out[b * SHARES + c], shrink);
      }
      let by_row = transpose(p);
      let place = block_rows(at.y, b) * SCORE_STRIDE + at.x;
      k_tile[place.x] = by_row[0];
      k_tile[place.y] = by_row[1];
      k_tile[place.z] = by_row[2];
      k_tile[place.w] = by_row[3];
    }
    workgroupBarrier();
    out = add_values(at.x, at.y, out);
  }

  for (var b = 0u; b < BLOCKS; b++) {
    shared_by_row[(b * DOWN + at.y) * SCORE_STRIDE + at.x] = sum[b];
  }
  workgroupBarrier();
  for (var b = 0u; b < BLOCKS; b++) {
    var total = vec4f();
    for (var x = 0u; x < ACROSS; x++) {
      total += shared_by_row[(b * DOWN + at.y) * SCORE_STRIDE + x];
    }
    let rows = first + block_rows(at.y, b);
    for (var c = 0u; c < SHARES; c++) {
      let quad = at.x + ACROSS * c;
      let part = scale_rows(out[b * SHARES + c], 1.0 / total);
      if (quad < QUADS) {
        store_y(head, rows.x, quad, part[0]);
        store_y(head, rows.y, quad, part[1]);
        store_y(head, rows.z, quad, part[2]);
        store_y(head, rows.w, quad, part[3]);
      }
    }
    if (HAS_LSE != 0u && at.x == 0u) {
      let row_lse = fma(largest[b], vec4f(LN_2), log(total));
      store_lse(head, rows.x, row_lse.x);
      store_lse(head, rows.y, row_lse.y);
      store_lse(head, rows.z, row_lse.z);
      store_lse(head, rows.w, row_lse.w);
    }
  }
}

// The workgroup's queries, scaled.
fn stage_queries(head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step * INVOCATIONS < ROWS * QUADS; step++) {
    let i = invocation + step * INVOCATIONS;
    let q = load_quad(head, first + i / QUADS, 0u, i % QUADS) * (score_scale() * LOG2_E);
    if (i < ROWS * QUADS) {
      q_tile[i / QUADS * STRIDE + i % QUADS] = q;
    }
  }
}

// A tile of keys and their values.
fn stage_keys(head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step * INVOCATIONS < COLUMNS * QUADS; step++) {
    let i = invocation + step * INVOCATIONS;
    let k = load_quad(head, first + i / QUADS, 1u, i % QUADS);
    let v = load_quad(head, first + i / QUADS, 2u, i % QUADS);
    if (i < COLUMNS * QUADS) {
      k_tile[i / QUADS * STRIDE + i % QUADS] = k;
      v_tile[i / QUADS * STRIDE + i % QUADS] = v;
    }
  }
}

// The invocation's scores of the tile.
fn scores(x: u32, y: u32) -> Blocks {
  var s: Blocks;
  for (var quad = 0u; quad < QUADS; quad++) {
    let keys = tile_columns(x) * STRIDE + quad;
    let k = mat4x4f(k_tile[keys.x], k_tile[keys.y], k_tile[keys.z], k_tile[keys.w]);
    for (var b = 0u; b < BLOCKS; b++) {
      let rows = block_rows(y, b) * STRIDE + quad;
      let q = mat4x4f(q_tile[rows.x], q_tile[rows.y], q_tile[rows.z], q_tile[rows.w]);
      s[b] = multiply_add(transpose(q), k, s[b]);
    }
  }
  return s;
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
  for (var column = 0u; column < ACROSS; column++) {
    var p: Blocks;
    for (var b = 0u; b < BLOCKS; b++) {
      let rows = block_rows(y, b) * SCORE_STRIDE + column;
      p[b] = mat4x4f(k_tile[rows.x], k_tile[rows.y], k_tile[rows.z], k_tile[rows.w]);
    }
    for (var c = 0u; c < SHARES; c++) {
      let keys = tile_columns(column) * STRIDE + share_quad(x, c);
      let v = mat4x4f(v_tile[keys.x], v_tile[keys.y], v_tile[keys.z], v_tile[keys.w]);
      for (var b = 0u; b < BLOCKS; b++) {
        sum[b * SHARES + c] = multiply_add(v, p[b], sum[b * SHARES + c]);
      }
    }
  }
  return sum;
}

fn scale_rows(rows: mat4x4f, by: vec4f) -> mat4x4f {
  return mat4x4f(rows[0] * by.x, rows[1] * by.y, rows[2] * by.z, rows[3] * by.w);
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
