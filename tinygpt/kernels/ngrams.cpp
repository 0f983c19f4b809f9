// N-gram tables: the last n bytes pick a row. Tables are E rows of W floats each, one behind the other.
#include "args.h"
#include "hash.h"
#include "simd.h"

// The row of a table that n bytes pick: themselves as a number, where there is a row for each, else a hash of them.
// byte(0) is the newest.
INLINE u32 ngram_row(int n, u32 E, auto byte) {
  u32 number = 0;
  if (n < 4 && 1u << 8 * n <= E) {
    for (int back = n - 1; back >= 0; back--) number = 256 * number + byte(back);
    return number;
  }
  number = (u32)n;
  for (int back = n - 1; back >= 0; back--) number = (number ^ byte(back)) * 16777619;
  return mixed(number) & (E - 1);
}

// table(number, n) for each of the tables.
INLINE void each_table(i32 orders, auto table) {
  i64 number = 0;
  for (int n = 1; n <= NGRAM_BYTES; n++)
    if (orders >> n & 1) table(number++, n);
}

INLINE void look_up(const float* table, i64 row, i64 W, float* y) {
  each_vec(0, W, [&](i64 c, auto lanes) { store(y + c, row < 0 ? vec{} : load(table + row * W + c, lanes), lanes); });
}

static void ngram_embed(const ngram_embed_args& a, Team& team) {
  Range share = team.share(a.N);
  for (i64 i = share.begin; i < share.end; i++)
    each_table(a.orders, [&](i64 g, int n) {
      i64 row = -1;
      if (i % a.T + 1 >= n) row = g * a.E + ngram_row(n, (u32)a.E, [&](int back) { return (u32)a.tokens[i - back]; });
      a.rows[i * a.G + g] = (i32)row;
      look_up(a.table, row, a.W, a.y + (i * a.G + g) * a.W);
    });
}

static void ngram_embed_one(const ngram_embed_one_args& a, Team& team) {
  Range share = team.share(a.R);
  for (i64 r = share.begin; r < share.end; r++)
    each_table(a.orders, [&](i64 g, int n) {
      const i32* recent = a.recent + r * NGRAM_BYTES - 1;
      i64 row = -1;
      if (a.position[r] + 1 >= n)
        row = g * a.E + ngram_row(n, (u32)a.E, [&](int back) { return (u32)(back ? recent[back] : a.tokens[r]); });
      look_up(a.table, row, a.W, a.y + (r * a.G + g) * a.W);
    });
}

static void ngram_keep(const ngram_keep_args& a, Team& team) {
  if (team.thread) return;
  if (a.row) {
    i32* recent = a.recent + (i64)*a.row * NGRAM_BYTES;
    for (i64 back = 0; back < NGRAM_BYTES && back <= a.position[*a.row]; back++)
      recent[back] = a.tokens[a.position[*a.row] - back];
    return;
  }
  for (i64 r = 0; r < a.R; r++) {
    i32* recent = a.recent + r * NGRAM_BYTES;
    for (int back = NGRAM_BYTES - 1; back > 0; back--) recent[back] = recent[back - 1];
    recent[0] = a.tokens[r];
  }
}

static void ngram_collect(const ngram_collect_args& a, Team& team) {
  Range share = team.share(a.N);
  i64 first = (i64)a.counters[1] * a.N;
  for (i64 i = share.begin; i < share.end; i++) {
    for (i64 g = 0; g < a.G; g++) a.all_rows[(first + i) * a.G + g] = a.rows[i * a.G + g];
    each_vec(0, (i64)a.G * a.W, [&](i64 c, auto lanes) {
      store(a.all_dy + (first + i) * a.G * a.W + c, load(a.dy + i * a.G * a.W + c, lanes), lanes);
    });
  }
}

// A row is one thread's, which goes over all entries in their order: so sums do not depend on the number of threads.
//
// first[row] is the first entry that names the row. It need not be cleared: whatever it held before, an entry is known by
// being an earlier one, and of the same row.
static void adagrad_rows(const adagrad_rows_args& a, Team& team) {
  i64 entries = (i64)a.N * a.G;
  i32* first = (i32*)a.scratch;
  float* sums = a.scratch + (i64)a.G * a.E;  // of each entry that is the first
  float rate = a.rates[a.counters[0] % a.ring];
  auto is_mine = [&](i32 row) { return row >= 0 && row % team.threads == team.thread; };
  for (i64 i = 0; i < entries; i++) {
    i32 row = a.rows[i];
    if (!is_mine(row)) continue;
    i32 before = first[row];
    bool is_first = before < 0 || before >= i || a.rows[before] != row;
    if (is_first) first[row] = (i32)i;
    const float* grad = a.dy + i * a.W;
    float* sum = sums + (i64)first[row] * a.W;
    each_vec(0, a.W, [&](i64 c, auto lanes) {
      vec more = load(grad + c, lanes);
      store(sum + c, is_first ? more : load(sum + c, lanes) + more, lanes);
    });
  }
  for (i64 i = 0; i < entries; i++) {
    i32 row = a.rows[i];
    if (!is_mine(row) || first[row] != i) continue;
    const float* sum = sums + i * a.W;
    float squares = 0;
    for (i64 c = 0; c < a.W; c++) squares += sum[c] * sum[c];
    a.squares[row] += squares / (float)a.W;
    float step = rate / (__builtin_sqrtf(a.squares[row]) + a.eps);
    each_vec(0, a.W, [&](i64 c, auto lanes) {
      float* at = a.table + (i64)row * a.W + c;
      store(at, load(at, lanes) - step * load(sum + c, lanes), lanes);
    });
  }
}
