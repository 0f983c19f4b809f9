// With p_ij = exp(s_ij - lse_i), dp_ij = dy_i . v_j, delta_i = dy_i . y_i and ds_ij = p_ij (dp_ij - delta_i):
//   dq_i = sum over keys j <= i of ds_ij k_j / sqrt(D)
//   dk_j = sum over queries i >= j of ds_ij q_i / sqrt(D),   dv_j = sum over queries i >= j of p_ij dy_i
//
// A workgroup owns a tile of queries and makes dq, or one of keys and makes dk and dv; the others pass by. Either way
//   s = first_i . first_j,  dp = second_i . second_j  with (first, second) = (q, dy) of queries and (k, v) of keys.
// dy, y [N, H, QUADS], qkv and dqkv [N, 3, H, QUADS], lse [B, H, T].
@group(0) @binding(0) var<storage, read> dy: array<vec4f>;
@group(0) @binding(1) var<storage, read> qkv: array<vec4f>;
@group(0) @binding(2) var<storage, read> y: array<vec4f>;
@group(0) @binding(3) var<storage, read> lse: array<f32>;
@group(0) @binding(4) var<storage, read_write> dqkv: array<vec4f>;

// The workgroup's own ROWS rows lie in slots 0.., the COLUMNS visitors in slots ROWS..; in each, `first` and `second`.
override SLOTS: u32 = ROWS + COLUMNS;
override QUERIES: u32 = max(ROWS, COLUMNS);  // either are queries
const FIRST = 0u;
const SECOND = 1u;
var<workgroup> vectors: array<vec4f, 2 * SLOTS * STRIDE>;  // q scaled by log2(e) / sqrt(D) or k, then dy or v
var<workgroup> lse_tile: array<f32, QUERIES>;  // times log2(e)
var<workgroup> delta_parts: array<f32, QUERIES * STRIDE>;  // what each quad adds to delta
var<workgroup> weights: array<vec4f, 2 * ROWS * SCORE_STRIDE>;  // ds, which weighs `first`, then p, which weighs `second`

@compute @workgroup_size(ACROSS, DOWN)
fn attention_backward(
  @builtin(workgroup_id) group: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_id) at: vec3u,
  @builtin(local_invocation_index) invocation: u32,
) {
  let number = group.x + group.y * groups.x;
  if (number >= 2u * HEADS * TILES) {
    return;
  }
  let head = number % HEADS;
  let rank = number / HEADS;  // those with the most to do come first: early keys and late queries
  let of_keys = rank % 2u == 0u;
  let first = select(TILES - 1u - rank / 2u, rank / 2u, of_keys) * ROWS;
  if (of_keys) {
    stage_keys(0u, ROWS, head, first, invocation);
  } else {
    stage_queries(0u, ROWS, head, first, invocation);
  }

  var from_ds: Shares;
  var from_p: Shares;
  let begin = select(0u, first, of_keys);
  let end = select(min(first + ROWS, T), T, of_keys);
  for (var tile = 0u; tile < (T + COLUMNS - 1u) / COLUMNS; tile++) {
    let visitor = begin + tile * COLUMNS;
    if (visitor >= end) {
      break;
    }
    workgroupBarrier();
    if (of_keys) {
      stage_queries(ROWS, COLUMNS, head, visitor, invocation);
    } else {
      stage_keys(ROWS, COLUMNS, head, visitor, invocation);
    }
    workgroupBarrier();
    let on_diagonal = select(visitor + COLUMNS > first + 1u, visitor < first + ROWS, of_keys);
    var s = products(FIRST, at.x, at.y);
    let dp = products(SECOND, at.x, at.y);
    if (ALIBI != 0u) {
      s = lowered_by_distance(s, head, first + rows_of(at.y), visitor + at.x);
    }
    let queries = select(rows_of(at.y), columns_of(at.x), of_keys);
    let row_lse = for_scores(lse_of(queries), of_keys);
    let delta = for_scores(delta_of(queries), of_keys);
    var p = mat4x4f(
      exp2(s[0] - row_lse[0]),
      exp2(s[1] - row_lse[1]),
      exp2(s[2] - row_lse[2]),
      exp2(s[3] - row_lse[3]),
    );
    if (on_diagonal) {
      p = without_future(p, of_keys, first + rows_of(at.y), visitor + at.x);
    }
    let ds = mat4x4f(
      p[0] * (dp[0] - delta[0]),
      p[1] * (dp[1] - delta[1]),
      p[2] * (dp[2] - delta[2]),
      p[3] * (dp[3] - delta[3]),
    );
    store_weights(FIRST, at.x, at.y, ds);
    if (of_keys) {
      store_weights(SECOND, at.x, at.y, p);
    }
    workgroupBarrier();
    from_ds = add_weighted(FIRST, at.x, at.y, from_ds);
    if (of_keys) {
      from_p = add_weighted(SECOND, at.x, at.y, from_p);
    }
  }

  let rows = first + rows_of(at.y);
  store_share(of_keys, head, rows, at.x, from_ds.first, from_p.first);
  if (SHARES > 1u) { store_share(of_keys, head, rows, at.x + ACROSS, from_ds.second, from_p.second); }
  if (SHARES > 2u) { store_share(of_keys, head, rows, at.x + 2u * ACROSS, from_ds.third, from_p.third); }
  if (SHARES > 3u) { store_share(of_keys, head, rows, at.x + 3u * ACROSS, from_ds.fourth, from_p.fourth); }
}

// `count` queries into the slots from `slot` on; beyond the last all is zero, and so adds nothing to any sum.
fn stage_queries(slot: u32, count: u32, head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step < (QUERIES * QUADS + INVOCATIONS - 1u) / INVOCATIONS; step++) {
    if (step * INVOCATIONS >= count * QUADS) {
      break;
    }
    let i = invocation % INVOCATIONS + step * INVOCATIONS;
    let row = first + i / QUADS;
    let at = vector_start(head, min(row, T - 1u), 0u, 1u) + i % QUADS;
    let q = load_quad(head, row, 0u, i % QUADS) * (score_scale() * LOG2_E);
    let dy_quad = select(vec4f(), dy[at], row < T);
    let y_quad = y[at];
    if (i < count * QUADS) {
      let place = min(slot + i / QUADS, SLOTS - 1u) * STRIDE + i % QUADS;
      vectors[place] = q;
      vectors[SLOTS * STRIDE + place] = dy_quad;
      delta_parts[i / QUADS * STRIDE + i % QUADS] = dot(dy_quad, y_quad);
    }
  }
  for (var step = 0u; step < (QUERIES + INVOCATIONS - 1u) / INVOCATIONS; step++) {
    let row = invocation % INVOCATIONS + step * INVOCATIONS;
    if (row < count) {
      let value = lse[head * T + min(first + row, T - 1u)] * LOG2_E;
      lse_tile[row % QUERIES] = select(0.0, value, first + row < T);
    }
  }
}

fn stage_keys(slot: u32, count: u32, head: u32, first: u32, invocation: u32) {
  for (var step = 0u; step < (QUERIES * QUADS + INVOCATIONS - 1u) / INVOCATIONS; step++) {
    if (step * INVOCATIONS >= count * QUADS) {
      break;
    }
    let i = invocation % INVOCATIONS + step * INVOCATIONS;
    let k = load_quad(head, first + i / QUADS, 1u, i % QUADS);
    let v = load_quad(head, first + i / QUADS, 2u, i % QUADS);
    if (i < count * QUADS) {
      let place = min(slot + i / QUADS, SLOTS - 1u) * STRIDE + i % QUADS;
      vectors[place] = k;
      vectors[SLOTS * STRIDE + place] = v;
    }
  }
}

// What each of the invocation's scores needs of its query, which is a column's where the workgroup owns keys.
fn for_scores(of_queries: vec4f, of_keys: bool) -> mat4x4f {
  if (of_keys) {
    return mat4x4f(vec4f(of_queries.x), vec4f(of_queries.y), vec4f(of_queries.z), vec4f(of_queries.w));
  }
  return mat4x4f(of_queries, of_queries, of_queries, of_queries);
}

fn lse_of(queries: vec4u) -> vec4f {
  return vec4f(
    lse_tile[queries.x % QUERIES],
    lse_tile[queries.y % QUERIES],
    lse_tile[queries.z % QUERIES],
    lse_tile[queries.w % QUERIES],
  );
}

fn delta_of(queries: vec4u) -> vec4f {
  var sum = vec4f();
  for (var four = 0u; four < (QUADS + 3u) / 4u; four++) {
    sum += parts_of_delta(queries, 4u * four);
    if (has_quad(4u * four + 1u)) { sum += parts_of_delta(queries, 4u * four + 1u); }
    if (has_quad(4u * four + 2u)) { sum += parts_of_delta(queries, 4u * four + 2u); }
    if (has_quad(4u * four + 3u)) { sum += parts_of_delta(queries, 4u * four + 3u); }
  }
  return sum;
}

fn parts_of_delta(queries: vec4u, number: u32) -> vec4f {
  let quad = min(number, QUADS - 1u);
  return vec4f(
    delta_parts[queries.x % QUERIES * STRIDE + quad],
    delta_parts[queries.y % QUERIES * STRIDE + quad],
    delta_parts[queries.z % QUERIES * STRIDE + quad],
    delta_parts[queries.w % QUERIES * STRIDE + quad],
  );
}

fn without_future(p: mat4x4f, of_keys: bool, rows: vec4u, column: u32) -> mat4x4f {
  return mat4x4f(
    select(vec4f(), p[0], is_past(of_keys, rows, column)),
    select(vec4f(), p[1], is_past(of_keys, rows, column + ACROSS)),
    select(vec4f(), p[2], is_past(of_keys, rows, column + 2u * ACROSS)),
    select(vec4f(), p[3], is_past(of_keys, rows, column + 3u * ACROSS)),
  );
}

// Whether key <= query.
fn is_past(of_keys: bool, rows: vec4u, column: u32) -> vec4<bool> {
  if (of_keys) {
    return rows <= vec4u(column);
  }
  return vec4u(column) <= rows;
}

// own . visitor, the invocation's scores of the tile
fn products(kind: u32, x: u32, y: u32) -> mat4x4f {
  var s: mat4x4f;
  for (var four = 0u; four < (QUADS + 3u) / 4u; four++) {
    s = with_quad(s, kind, x, y, 4u * four);
    if (has_quad(4u * four + 1u)) { s = with_quad(s, kind, x, y, 4u * four + 1u); }
    if (has_quad(4u * four + 2u)) { s = with_quad(s, kind, x, y, 4u * four + 2u); }
    if (has_quad(4u * four + 3u)) { s = with_quad(s, kind, x, y, 4u * four + 3u); }
  }
  return s;
}

// before + what a quad of the vectors adds
fn with_quad(before: mat4x4f, kind: u32, x: u32, y: u32, number: u32) -> mat4x4f {
  let quad = min(number, QUADS - 1u);
  let own = (kind % 2u * SLOTS + y % DOWN) * STRIDE + quad;
  let owned = mat4x4f(vectors[own], vectors[own + NEXT], vectors[own + 2u * NEXT], vectors[own + 3u * NEXT]);
  return multiply_add(transpose(owned), visitors_of(kind, x % ACROSS, quad), before);
}

fn store_weights(kind: u32, x: u32, y: u32, values: mat4x4f) {
  let at = (kind % 2u * ROWS + y % DOWN) * SCORE_STRIDE + x % ACROSS;
  let by_row = transpose(values);
  weights[at] = by_row[0];
  weights[at + NEXT_SCORE] = by_row[1];
  weights[at + 2u * NEXT_SCORE] = by_row[2];
  weights[at + 3u * NEXT_SCORE] = by_row[3];
}

// before + sum over the visitors of weight * vector
fn add_weighted(kind: u32, x: u32, y: u32, before: Shares) -> Shares {
  var sum = before;
  for (var four = 0u; four < (ACROSS + 3u) / 4u; four++) {
    sum = with_column(sum, kind, x, y, 4u * four);
    if (has_column(4u * four + 1u)) { sum = with_column(sum, kind, x, y, 4u * four + 1u); }
    if (has_column(4u * four + 2u)) { sum = with_column(sum, kind, x, y, 4u * four + 2u); }
    if (has_column(4u * four + 3u)) { sum = with_column(sum, kind, x, y, 4u * four + 3u); }
  }
  return sum;
}

// before + what the visitors of a column, and of the three ACROSS apart from it, add
fn with_column(before: Shares, kind: u32, x: u32, y: u32, number: u32) -> Shares {
  let column = min(number, ACROSS - 1u);
  let row = (kind % 2u * ROWS + y % DOWN) * SCORE_STRIDE + column;
  let weight = mat4x4f(
    weights[row],
    weights[row + NEXT_SCORE],
    weights[row + 2u * NEXT_SCORE],
    weights[row + 3u * NEXT_SCORE],
  );
  var sum = before;
  sum.first = multiply_add(visitors_of(kind, column, x), weight, sum.first);
  if (SHARES > 1u) { sum.second = multiply_add(visitors_of(kind, column, x + ACROSS), weight, sum.second); }
  if (SHARES > 2u) { sum.third = multiply_add(visitors_of(kind, column, x + 2u * ACROSS), weight, sum.third); }
  if (SHARES > 3u) { sum.fourth = multiply_add(visitors_of(kind, column, x + 3u * ACROSS), weight, sum.fourth); }
  return sum;
}

// A quad of the visitors of these four columns; a surplus quad is the last again.
fn visitors_of(kind: u32, column: u32, quad: u32) -> mat4x4f {
  let at = (kind % 2u * SLOTS + ROWS + min(column, ACROSS - 1u)) * STRIDE + min(quad, QUADS - 1u);
  return mat4x4f(
    vectors[at],
    vectors[at + NEXT_COLUMN],
    vectors[at + 2u * NEXT_COLUMN],
    vectors[at + 3u * NEXT_COLUMN],
  );
}

// A quad of dk and dv, or of dq.
fn store_share(of_keys: bool, head: u32, rows: vec4u, quad: u32, from_ds: mat4x4f, from_p: mat4x4f) {
  if (quad < QUADS) {
    if (of_keys) {
      store_rows(head, rows, 1u, quad, from_ds * LN_2);  // q came with the other factors
      store_rows(head, rows, 2u, quad, from_p);
    } else {
      store_rows(head, rows, 0u, quad, from_ds * score_scale());
    }
  }
}

fn store_rows(head: u32, rows: vec4u, part: u32, quad: u32, values: mat4x4f) {
  store_quad(head, rows.x, part, quad, values[0]);
  store_quad(head, rows.y, part, quad, values[1]);
  store_quad(head, rows.z, part, quad, values[2]);
  store_quad(head, rows.w, part, quad, values[3]);
}

fn store_quad(head: u32, row: u32, part: u32, quad: u32, value: vec4f) {
  if (row < T) {
    dqkv[vector_start(head, row, part, 3u) + quad] = value;
  }
}
