// Causal self-attention by blocks of queries and keys; no T x T matrix is stored, but for who asks for it.
//
// Scores are kept turned round, [key][query], a query to a lane: the softmax then never crosses lanes, k and v
// are read where they lie, and only q, dy and the results are transposed, once per block of queries.
// A score is kept as a power of two: p = 2^(s - lse) with s = q . k scale log2(e), lse log2(e) for the natural one.
#include "args.h"
#include "products.h"
#include "vecmath.h"

constexpr i64 STRIP = 16;  // keys at a time on the diagonal, whose queries begin where the keys do
constexpr float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;
constexpr float MASKED = -1e30f;

// WebAssembly cannot fold the way from key to key into a load: there k and v are turned round, too.
#if defined(__wasm__)
constexpr bool TURN_KEYS = true;
#else
constexpr bool TURN_KEYS = false;
#endif

static_assert(STRIP % LANES == 0 && BLOCK % STRIP == 0);

// One block of queries against one block of keys. On the diagonal, strip by strip, a key meets the queries from
// its strip on; elsewhere every query. Queries are padded to whole vectors.
struct Meeting {
  i64 queries, keys;
  bool diagonal;
  i64 columns() const { return ceil_div(queries, LANES) * LANES; }
  i64 strip() const { return diagonal ? STRIP : BLOCK; }
  i64 first_query(i64 key) const { return diagonal ? key : 0; }
  // How many keys the queries from `query` on have scores for, masked ones included.
  i64 keys_of(i64 query) const { return diagonal ? min_of(keys, (query / STRIP + 1) * STRIP) : keys; }
  // Calls f(first key, keys, first query, queries as columns) for each strip.
  template <class F>
  void each_strip(F f) const {
    for (i64 key = 0; key < keys; key += strip()) {
      i64 query = first_query(key);
      f(key, min_of(strip(), keys - key), query, columns() - query);
    }
  }
};

// scores[key][query] = sum over d of k[key][d] q_columns[d][query]; k_columns [D][BLOCK] is room for k turned round.
static void make_scores(const Meeting& block, const float* k, i64 k_row, float* k_columns, const float* q_columns,
                        i64 D, float* scores) {
  if (TURN_KEYS) to_columns(k, k_row, block.keys, D, 1, k_columns, BLOCK);
  block.each_strip([&](i64 key, i64 keys, i64 query, i64 columns) {
    const float* right = q_columns + query;
    float* to = scores + key * BLOCK + query;
    if constexpr (TURN_KEYS)
      product(Columns{k_columns + key, BLOCK}, right, BLOCK, to, BLOCK, keys, columns, D, OVERWRITE);
    else
      product(Rows{k + key * k_row, k_row}, right, BLOCK, to, BLOCK, keys, columns, D, OVERWRITE);
  });
}

// columns[d][query] (+)= sum over keys of v[key][d] p[key][query]
static void add_values(const Meeting& block, const float* p, const float* v, i64 v_row, i64 D, float* columns,
                       Into into) {
  block.each_strip([&](i64 key, i64 keys, i64 query, i64 count) {
    product(Columns{v + key * v_row, v_row}, p + key * BLOCK + query, BLOCK, columns + query, BLOCK, D, count, keys,
            key == 0 ? into : ADD);
  });
}

// Where key is after query: -inf, for all practical purposes.
INLINE vec mask_future(vec score, i64 key, i64 query) {
  return LANE_NUMBERS >= (i32)(key - query) ? score : splat(MASKED);
}

// ALiBi's slope of a head, for scores that are powers of two; 0 for attention without.
static float slope_of(i64 head, i64 H, i32 alibi) {
  return alibi ? exp2(splat(-8.0f * (float)(head + 1) / (float)H))[0] * LOG2_E : 0;
}

// Lowers scores by how far keys lie behind their queries, the first of which is `apart` behind the first query.
static void lower_by_distance(const Meeting& block, i64 apart, float slope, float* scores) {
  if (slope == 0) return;
  for (i64 query = 0; query < block.columns(); query += LANES) {
    vec number = __builtin_convertvector(LANE_NUMBERS, vec) + (float)(apart + query);
    i64 keys = block.keys_of(query);
    for (i64 key = 0; key < keys; key++) {
      float* at = scores + key * BLOCK + query;
      store(at, fma(number - (float)key, splat(-slope), load(at)));
    }
  }
}

// What a block of queries knows of the keys seen so far.
struct Softmax {
  float top[BLOCK];  // the largest score
  float sum[BLOCK];  // of 2^(score - top)
};

// scores -> 2^(score - top), with the top of all keys seen; y_columns, if any, are brought down to the new top.
static void online_softmax(const Meeting& block, float* scores, Softmax& seen, i64 D, float* y_columns) {
  for (i64 query = 0; query < block.columns(); query += LANES) {
    i64 keys = block.keys_of(query);
    vec old_top = load(seen.top + query), top = old_top, tops[4] = {top, top, top, top};
    i64 key = 0, seen_by_all = block.diagonal ? min_of(keys, query + 1) : keys;
    for (; key + 4 <= seen_by_all; key += 4)
      for (int i = 0; i < 4; i++) tops[i] = max_of(tops[i], load(scores + (key + i) * BLOCK + query));
    for (; key < keys; key++) {
      float* at = scores + key * BLOCK + query;
      if (key >= seen_by_all) store(at, mask_future(load(at), key, query));
      top = max_of(top, load(at));
    }
    for (int i = 0; i < 4; i++) top = max_of(top, tops[i]);
    vec sum{};
#pragma unroll 4
    for (i64 key = 0; key < keys; key++) {
      float* at = scores + key * BLOCK + query;
      vec p = exp2(load(at) - top);
      sum += p;
      store(at, p);
    }
    vec shrink = exp2(old_top - top);
    store(seen.top + query, top);
    store(seen.sum + query, fma(load(seen.sum + query), shrink, sum));
    if (!y_columns) continue;
    for (i64 d = 0; d < D; d++) store(y_columns + d * BLOCK + query, load(y_columns + d * BLOCK + query) * shrink);
  }
}

// q, k and v of one head of one sequence, rows `row` floats apart.
struct Head {
  const float *q, *k, *v;
  i64 row;
};

// Where row 0 of a head begins, in rows of `row` floats that hold all heads side by side.
static i64 head_start(i64 item, i64 T, i64 H, i64 D, i64 row) { return item / H * T * row + item % H * D; }

static Head head_of(const float* qkv, i64 item, i64 T, i64 H, i64 D) {
  i64 C = H * D;
  const float* q = qkv + head_start(item, T, H, D, 3 * C);
  return {q, q + C, q + 2 * C, 3 * C};
}

// Asks for rows that the next head will need. A head's rows lie too far apart for the CPU to see them coming, so
// each step of a diagonal block asks for some of the next head's, and they arrive while it is multiplied.
static void fetch_rows(const Meeting& block, const float* rows, i64 row, i64 D) {
  if (!block.diagonal) return;
  for (i64 i = 0; i < block.queries; i++)
    for (i64 d = 0; d < D; d += CACHE_LINE) __builtin_prefetch(rows + i * row + d, 0, 2);
}

// Calls f(item) for this thread's part of the items. Only those of the team take part that have a slice of scratch.
template <class F>
INLINE void each_item(const Team& team, i64 items, F f) {
  Team crew = team;
  crew.threads = (i32)min_of(team.threads, min_of(SCRATCH_SLICES, items));
  if (team.thread >= crew.threads) return;
  Range piece;
  for (Pieces mine(crew, items, 0); mine.next(piece);)
    for (i64 item = piece.begin; item < piece.end; item++) f(item);
}

// scratch, a thread: q_columns, y_columns and k_columns [D][BLOCK], scores [BLOCK][BLOCK]
static void attention(const attention_args& a, Team& team) {
  i64 T = a.T, H = a.H, D = a.D, C = H * D;
  float scale = LOG2_E / __builtin_sqrtf((float)D);
  float* q_columns = a.scratch + team.thread * (3 * D + BLOCK) * BLOCK;
  float* y_columns = q_columns + D * BLOCK;
  float* k_columns = y_columns + D * BLOCK;
  float* scores = k_columns + D * BLOCK;
  i64 blocks = ceil_div(T, BLOCK);
  each_item(team, a.B * H * blocks, [&](i64 item) {
    Head head = head_of(a.qkv, item / blocks, T, H, D);
    Head next = head_of(a.qkv, min_of(item / blocks + 1, a.B * H - 1), T, H, D);
    i64 first = item % blocks * BLOCK, queries = min_of(BLOCK, T - first);
    float slope = slope_of(item / blocks % H, H, a.alibi);
    Softmax seen;
    for (i64 i = 0; i < BLOCK; i++) seen.top[i] = MASKED, seen.sum[i] = 0;
    to_columns(head.q + first * head.row, head.row, queries, D, scale, q_columns, BLOCK);

    for (i64 key = 0; key <= first; key += BLOCK) {
      Meeting block{queries, min_of(BLOCK, T - key), key == first};
      const float *k = head.k + key * head.row, *v = head.v + key * head.row;
      fetch_rows(block, next.q + first * head.row, head.row, D);
      make_scores(block, k, head.row, k_columns, q_columns, D, scores);
      lower_by_distance(block, first - key, slope, scores);
      fetch_rows(block, next.k + first * head.row, head.row, D);
      online_softmax(block, scores, seen, D, key == 0 ? nullptr : y_columns);
      fetch_rows(block, next.v + first * head.row, head.row, D);
      add_values(block, scores, v, head.row, D, y_columns, key == 0 ? OVERWRITE : ADD);
    }

    to_rows(
        y_columns, BLOCK, queries, D, [&](i64 i) { return 1.0f / load(seen.sum + i); },
        a.y + head_start(item / blocks, T, H, D, C) + first * C, C);
    if (a.lse)
      each_vec(0, queries, [&](i64 i, auto lanes) {
        vec lse = fma(load(seen.top + i), splat(LN_2), log(load(seen.sum + i)));
        store(a.lse + item / blocks * T + first + i, lse, lanes);
      });
  });
}

// Row by row, of the softmax itself; keys after a query get 0.
static void attention_weights(const attention_weights_args& a, Team& team) {
  i64 T = a.T, H = a.H, D = a.D;
  float scale = LOG2_E / __builtin_sqrtf((float)D);
  Range rows = team.share(a.B * H * T);
  for (i64 row = rows.begin; row < rows.end; row++) {
    Head head = head_of(a.qkv, row / T, T, H, D);
    i64 query = row % T;
    float lse = a.lse[row] * LOG2_E, slope = slope_of(row / T % H, H, a.alibi);
    each_vec(0, T, [&](i64 key, auto lanes) {
      i64 seen = min_of(LANES, query + 1 - key);
      vec p{};
      if (seen > 0) {
        vec score = row_products(head.q + query * head.row, 0, head.k + key * head.row, head.row, seen, D) * scale;
        vec apart = (float)(query - key) - __builtin_convertvector(LANE_NUMBERS, vec);
        p = keep(exp2(fma(apart, splat(-slope), score) - lse), Part{seen});
      }
      store(a.p + row * T + key, p, lanes);
    });
  }
}

// scores -> p, dp -> ds = p (dp - delta)
static void softmax_backward(const Meeting& block, const float* lse, const float* delta, float* scores, float* dp) {
  for (i64 query = 0; query < block.columns(); query += LANES) {
    vec row_lse = load(lse + query) * LOG2_E, row_delta = load(delta + query);
    i64 keys = block.keys_of(query);
    i64 key = 0, seen_by_all = block.diagonal ? min_of(keys, query + 1) : keys;
    auto step = [&](bool masked) __attribute__((always_inline)) {
      float *s_at = scores + key * BLOCK + query, *dp_at = dp + key * BLOCK + query;
      vec score = load(s_at);
      if (masked) score = mask_future(score, key, query);
      vec p = exp2(score - row_lse);
      store(s_at, p);
      store(dp_at, p * (load(dp_at) - row_delta));
    };
#pragma unroll 4
    for (; key < seen_by_all; key++) step(false);
    for (; key < keys; key++) step(true);
  }
}

// drows[key] (+)= sum over queries of weights[key][query] rows[query]: the first queries that meet a key are the
// diagonal's, and overwrite.
static void add_queries(const Meeting& block, const float* weights, const float* rows, i64 row, i64 D, float* drows,
                        i64 drow) {
  block.each_strip([&](i64 key, i64 keys, i64 query, i64) {
    product(RowsEvery<BLOCK>{weights + key * BLOCK + query}, rows + query * row, row, drows + key * drow, drow, keys, D,
            block.queries - query, block.diagonal ? OVERWRITE : ADD);
  });
}

// scratch, a thread: q_columns, dy_columns, dq_columns and k_columns [D][BLOCK], scores and dp [BLOCK][BLOCK]
static void attention_backward(const attention_backward_args& a, Team& team) {
  i64 T = a.T, H = a.H, D = a.D, C = H * D;
  float scale = 1.0f / __builtin_sqrtf((float)D);
  float* q_columns = a.scratch + team.thread * (4 * D + 2 * BLOCK) * BLOCK;
  float* dy_columns = q_columns + D * BLOCK;
  float* dq_columns = dy_columns + D * BLOCK;
  float* k_columns = dq_columns + D * BLOCK;
  float* scores = k_columns + D * BLOCK;
  float* dp = scores + BLOCK * BLOCK;
  each_item(team, a.B * H, [&](i64 item) {
    Head head = head_of(a.qkv, item, T, H, D);
    i64 row = head.row;
    float slope = slope_of(item % H, H, a.alibi);
    for (i64 first = 0; first < T; first += BLOCK) {
      i64 queries = min_of(BLOCK, T - first);
      i64 at = head_start(item, T, H, D, row) + first * row, y_at = head_start(item, T, H, D, C) + first * C;
      i64 next = min_of(item + 1, a.B * H - 1);
      i64 next_at = head_start(next, T, H, D, row) + first * row, y_next = head_start(next, T, H, D, C) + first * C;
      const float *q = a.qkv + at, *dy = a.dy + y_at, *y = a.y + y_at;
      float lse[BLOCK], delta[BLOCK];
      each_vec(0, queries, [&](i64 i, auto lanes) { store(lse + i, load(a.lse + item * T + first + i, lanes)); });
      for (i64 i = 0; i < queries; i += LANES)
        store(delta + i, row_products(dy + i * C, C, y + i * C, C, queries - i, D) * scale);
      to_columns(q, row, queries, D, scale * LOG2_E, q_columns, BLOCK);
      to_columns(dy, C, queries, D, scale, dy_columns, BLOCK);

      for (i64 key = 0; key <= first; key += BLOCK) {
        Meeting block{queries, min_of(BLOCK, T - key), key == first};
        const float *k = head.k + key * row, *v = head.v + key * row;
        float *dk = a.dqkv + (k - a.qkv), *dv = a.dqkv + (v - a.qkv);
        fetch_rows(block, a.qkv + next_at, row, D);
        fetch_rows(block, a.dqkv + next_at, row, D);
        make_scores(block, k, row, k_columns, q_columns, D, scores);
        lower_by_distance(block, first - key, slope, scores);
        fetch_rows(block, a.qkv + next_at + C, row, D);
        fetch_rows(block, a.dqkv + next_at + C, row, D);
        make_scores(block, v, row, k_columns, dy_columns, D, dp);
        softmax_backward(block, lse, delta, scores, dp);
        fetch_rows(block, a.qkv + next_at + 2 * C, row, D);
        fetch_rows(block, a.dqkv + next_at + 2 * C, row, D);
        add_queries(block, scores, dy, C, D, dv, row);
        fetch_rows(block, a.dy + y_next, C, D);
        add_queries(block, dp, q, row, D, dk, row);
        fetch_rows(block, a.y + y_next, C, D);
        add_values(block, dp, k, row, D, dq_columns, key == 0 ? OVERWRITE : ADD);
      }
      to_rows(
          dq_columns, BLOCK, queries, D, [](i64) { return splat(1.0f); }, a.dqkv + at, row);
    }
  });
}

static void cache_fill(const cache_fill_args& a, Team& team) {
  Range rows = team.share(a.N);
  i64 text = (i64)a.row[0] * a.T * a.C;
  for (i64 t = rows.begin; t < rows.end; t++) {
    const float* k = a.qkv + t * 3 * a.C + a.C;
    each_vec(0, a.C, [&](i64 c, auto lanes) {
      store(a.cache_k + text + t * a.C + c, load(k + c, lanes), lanes);
      store(a.cache_v + text + t * a.C + c, load(k + a.C + c, lanes), lanes);
    });
  }
}

constexpr int MIX_VECS = LANES == 16 ? 2 : 4;  // of a row, that are summed at a time
constexpr int MIX_SUMS = 8 / MIX_VECS;         // of each, so many sums side by side

// y (of VECS vectors) = factor times the sum over keys of p[key] v[key], of which the rows lie `row` floats apart.
template <int VECS, class Lanes>
static void mix_rows(const float* p, const float* v, i64 row, i64 keys, float factor, float* y, Lanes lanes) {
  vec sums[MIX_SUMS][VECS] = {};
  i64 key = 0;
  for (; key + MIX_SUMS <= keys; key += MIX_SUMS)
#pragma unroll
    for (int i = 0; i < MIX_SUMS; i++)
#pragma unroll
      for (int j = 0; j < VECS; j++)
        sums[i][j] = fma(splat(p[key + i]), load(v + (key + i) * row + j * LANES, lanes), sums[i][j]);
  for (; key < keys; key++)
    for (int j = 0; j < VECS; j++) sums[0][j] = fma(splat(p[key]), load(v + key * row + j * LANES, lanes), sums[0][j]);
  for (int j = 0; j < VECS; j++) {
    for (int i = 1; i < MIX_SUMS; i++) sums[0][j] += sums[i][j];
    store(y + j * LANES, sums[0][j] * factor, lanes);
  }
}

INLINE vec only(vec score, Whole) { return score; }
INLINE vec only(vec score, Part part) { return LANE_NUMBERS < (i32)part.count ? score : splat(MASKED); }

// Asks for LANES rows of which a head will need D floats each.
static void fetch_keys(const float* rows, i64 row, i64 D) {
  for (i64 i = 0; i < LANES; i++)
    for (i64 d = 0; d < D; d += CACHE_LINE) __builtin_prefetch(rows + i * row + d, 0, 2);
}

// One query per text: a head of it belongs to one thread, a key to a lane. scratch, a head: scores in whole vectors.
static void attention_one(const attention_one_args& a, Team& team) {
  i64 T = a.T, H = a.H, D = a.D, C = H * D, row = C;
  float scale = LOG2_E / __builtin_sqrtf((float)D);
  Range heads = team.share(a.R * H);
  for (i64 item = heads.begin; item < heads.end; item++) {
    i64 r = item / H, h = item % H, newest = a.position[r], keys = newest + 1;
    const float* q = a.qkv + r * 3 * C + h * D;
    float *k = a.cache_k + r * T * C + h * D, *v = a.cache_v + r * T * C + h * D;
    float *y = a.y + r * C + h * D, *scores = a.scratch + item * ceil_div(T, SCORES) * SCORES;
    each_vec(0, D, [&](i64 d, auto lanes) {
      store(k + newest * row + d, load(q + C + d, lanes), lanes);
      store(v + newest * row + d, load(q + 2 * C + d, lanes), lanes);
    });

    float slope = slope_of(h, H, a.alibi);
    vec tops = splat(MASKED), sums{};
    each_vec(0, keys, [&](i64 first, auto lanes) {
      fetch_keys(k + (first + 2 * LANES) * row, row, D);
      fetch_keys(v + first * row, row, D);
      vec score = row_products(q, 0, k + first * row, row, keys - first, D) * scale;
      if (slope != 0)
        score = fma((float)(newest - first) - __builtin_convertvector(LANE_NUMBERS, vec), splat(-slope), score);
      score = only(score, lanes);
      tops = max_of(tops, score);
      store(scores + first, score);
    });
    float top = max_lanes(tops);
    each_vec(0, keys, [&](i64 first, auto lanes) {
      vec p = keep(exp2(load(scores + first) - top), lanes);
      sums += p;
      store(scores + first, p);
    });
    float factor = 1.0f / sum_lanes(sums);
    i64 d = 0;
    for (; d + MIX_VECS * LANES <= D; d += MIX_VECS * LANES)
      mix_rows<MIX_VECS>(scores, v + d, row, keys, factor, y + d, Whole{});
    each_vec(d, D, [&](i64 d, auto lanes) { mix_rows<1>(scores, v + d, row, keys, factor, y + d, lanes); });
  }
}
