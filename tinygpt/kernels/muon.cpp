// Muon: momentum, made orthogonal by Newton and Schulz, for the matrices of all blocks.
//
// Where X is [K, C] with K >= C, its transpose if need be, an iteration is X = X P with P = a + b A + c A^2 and A = X^T X.
// A, P and all products of them are symmetric and commute, so the next A is P A P: only the first one is made of X. What
// several iterations make of X is X Q with Q = P P' P'' .... All products but the first and the last are of C x C, and
// of those only the upper half is computed.
//
// A thread has a matrix to itself, on its desk; those that are left over when all threads have had equally many are
// shared by all.
#include "args.h"
#include "symmetric.h"

struct HiddenMatrix {
  i64 start, outputs, inputs;
};

static HiddenMatrix hidden_matrix(const muon_args& a, i64 number) {
  i64 each = 5 + a.gates, kind = number % each, start = number / each * a.stride;
  i64 square = (i64)a.C * a.C, wide = (i64)a.F * a.C;
  if (kind == 0) return {start, a.C, a.C};
  if (kind < 3) return {start + square + (kind - 1) * a.W * a.C, a.W, a.C};
  if (kind == 3) return {start + a.o_at, a.C, a.C};
  if (kind < each - 1) return {start + a.in_at + (kind - 4) * wide, a.F, a.C};
  return {start + a.out_at, a.C, a.F};
}

struct Desk {
  i64 stride, C;
  float *x, *next_x;         // [K, C]
  float *a, *p, *q, *spare;  // [C, C]
};

static Desk desk_of(const muon_args& args, i64 number) {
  i64 stride = ceil_div(args.C, PANEL) * PANEL + STRIDE_PADDING;
  i64 square = args.C * stride, wide = args.F * stride;
  float* at = args.scratch + number * (2 * wide + 4 * square);
  float* squares = at + 2 * wide;
  return {stride, args.C, at, at + wide, squares, squares + square, squares + 2 * square, squares + 3 * square};
}

struct Momentum {
  const float* grads;
  float* m;
  float clip, momentum;

  vec ahead(i64 i, auto lanes) const {
    float fresh = 1.0f - momentum;
    vec g = load(grads + i, lanes) * clip;
    vec mean = fma(g, splat(fresh), load(m + i, lanes) * momentum);
    store(m + i, mean, lanes);
    return fma(g, splat(fresh), mean * momentum);
  }
};

// x = what the momentum is one step ahead, as [K, C]; columns that the matrix has not are zeros, and stay so.
static void take_momentum(Team& team, const Momentum& momentum, const HiddenMatrix& w, const Desk& desk) {
  if (w.outputs >= w.inputs) {
    Range rows = team.share(w.outputs);
    for (i64 r = rows.begin; r < rows.end; r++)
      each_vec(0, w.inputs, [&](i64 c, auto lanes) {
        store(desk.x + r * desk.stride + c, momentum.ahead(r * w.inputs + c, lanes), lanes);
      });
    return;
  }
  Range squares = team.share(ceil_div(w.inputs, LANES));
  for (i64 r = 0; r < w.outputs; r += LANES)
    each_vec(squares.begin * LANES, min_of(squares.end * LANES, w.inputs), [&](i64 c, auto lanes) {
      i64 rows = min_of(LANES, w.outputs - r), cols = min_of(LANES, w.inputs - c);
      vec square[LANES];
      for (int i = 0; i < LANES; i++) square[i] = i < rows ? momentum.ahead((r + i) * w.inputs + c, lanes) : vec{};
      transpose(square);
      for (int i = 0; i < LANES; i++)
        if (i < cols) store_some(desk.x + (c + i) * desk.stride + r, square[i], rows);
    });
  for (i64 c = squares.begin * LANES; c < min_of(squares.end * LANES, w.inputs); c++)
    for (i64 r = w.outputs; r < desk.C; r++) desk.x[c * desk.stride + r] = 0;
}

// weights = weights keep - rate x
static void step_by(Team& team, float* weights, const HiddenMatrix& w, const Desk& desk, float keep, float rate) {
  if (w.outputs >= w.inputs) {
    Range rows = team.share(w.outputs);
    for (i64 r = rows.begin; r < rows.end; r++)
      each_vec(0, w.inputs, [&](i64 c, auto lanes) {
        float* at = weights + r * w.inputs + c;
        store(at, load(at, lanes) * keep - rate * load(desk.x + r * desk.stride + c, lanes), lanes);
      });
    return;
  }
  Range squares = team.share(ceil_div(w.inputs, LANES));
  for (i64 r = 0; r < w.outputs; r += LANES)
    each_vec(squares.begin * LANES, min_of(squares.end * LANES, w.inputs), [&](i64 c, auto lanes) {
      i64 rows = min_of(LANES, w.outputs - r), cols = min_of(LANES, w.inputs - c);
      vec square[LANES];
      for (int i = 0; i < LANES; i++)
        square[i] = i < cols ? load_some(desk.x + (c + i) * desk.stride + r, rows) : vec{};
      transpose(square);
      for (int i = 0; i < LANES; i++)
        if (i < rows) {
          float* at = weights + (r + i) * w.inputs + c;
          store(at, load(at, lanes) * keep - rate * square[i], lanes);
        }
    });
}

// a = x^T x
static void gram(Team& team, i64 K, i64 C, const Desk& desk) {
  multiply_upper<ColumnsOfA>(team, {desk.x, desk.stride}, desk.x, C, K, desk.stride, desk.a,
                             [](i64, vec sum, auto) { return sum; });
  team.meet();
}

// 1 / |x|, from the diagonal of x^T x
static float inverse_norm(Team& team, i64 C, const Desk& desk) {
  constexpr float EPS = 1e-7f;  // as in torch.optim.Muon
  float squares = 0;
  for (i64 i = 0; i < C; i++) squares += desk.a[i * (desk.stride + 1)];
  team.meet();
  return 1.0f / max_of(__builtin_sqrtf(squares), EPS);
}

// to = left right, all symmetric.
static void multiply_symmetric(Team& team, const float* left, const float* right, i64 C, i64 stride, float* to) {
  multiply_upper<RowsOfA>(team, {left, stride}, right, C, C, stride, to, [](i64, vec sum, auto) { return sum; });
  team.meet();
  mirror(team, C, stride, 1, 0, to);
  team.meet();
}

// p = a + b A + c A^2
static void polynomial(Team& team, const float* coefficients, i64 C, const Desk& desk) {
  vec b = splat(coefficients[1]), c = splat(coefficients[2]);
  multiply_upper<RowsOfA>(
      team, {desk.a, desk.stride}, desk.a, C, C, desk.stride, desk.p,
      [&](i64 place, vec sum, auto lanes) { return fma(c, sum, b * load(desk.a + place, lanes)); });
  team.meet();
  mirror(team, C, desk.stride, 1, coefficients[0], desk.p);
  team.meet();
}

// x = x q scale
static void apply(Team& team, i64 K, i64 C, float scale, Desk& desk) {
  multiply<RowsOfA>(
      team, {desk.x, desk.stride}, K, C, C,
      [&](i64 k, i64) { return Panels{desk.q + k * desk.stride, PANEL, desk.stride, true}; },
      [&](i64 row, i64 col) {
        Matrix out{desk.next_x + row * desk.stride + col, desk.stride};
        return Expected{out, out};
      },
      [&](const Tile& tile, const RowsOfA&, i64 k, i64 block) {
        for_each_vec(tile, [&](i64 row, i64 col, auto lanes, vec product) {
          i64 place = row * desk.stride + col;
          vec sum = k == 0 ? product : product + load(desk.next_x + place, lanes);
          store(desk.next_x + place, k + block == C ? sum * scale : sum, lanes);
        });
      });
  team.meet();
  float* done = desk.x;
  desk.x = desk.next_x;
  desk.next_x = done;
}

static void exchange(float*& a, float*& b) {
  float* c = a;
  a = b;
  b = c;
}

// x = x P P' P'' ..., of x / |x|
static void orthogonalise(Team& team, const muon_args& args, const float* coefficients, i64 K, Desk& desk) {
  i64 C = args.C, stride = desk.stride;
  float scale = 1;
  for (i64 i = 0; i < args.steps; i++) {
    bool first = i % args.every == 0, last = i + 1 == args.steps || (i + 1) % args.every == 0;
    if (first) {
      gram(team, K, C, desk);
      scale = i == 0 ? inverse_norm(team, C, desk) : 1;
      mirror(team, C, stride, scale * scale, 0, desk.a);
      team.meet();
    }
    polynomial(team, coefficients + 3 * i, C, desk);
    if (!last) {
      multiply_symmetric(team, desk.p, desk.a, C, stride, desk.spare);
      multiply_symmetric(team, desk.spare, desk.p, C, stride, desk.a);
    }
    if (first) {
      exchange(desk.q, desk.p);
    } else {
      multiply_symmetric(team, desk.p, desk.q, C, stride, desk.spare);
      exchange(desk.q, desk.spare);
    }
    if (last) apply(team, K, C, scale, desk);
  }
}

static void step_matrix(Team& team, const muon_args& a, i64 number, Desk desk) {
  const float* rates = a.rates + a.columns * (a.counters[0] % a.rows);
  HiddenMatrix w = hidden_matrix(a, number);
  i64 K = max_of(w.outputs, w.inputs);
  take_momentum(team, {a.grads + w.start, a.m + w.start, a.norm[1], a.momentum}, w, desk);
  team.meet();
  orthogonalise(team, a, rates + MUON_COEFFICIENTS, K, desk);
  float factor = w.outputs > w.inputs ? __builtin_sqrtf((float)w.outputs / (float)w.inputs) : 1;
  step_by(team, a.weights + w.start, w, desk, 1.0f - rates[MATRIX_RATES + 1], rates[MATRIX_RATES] * factor);
}

static void muon(const muon_args& a, Team& team) {
  i64 count = (i64)a.layers * (5 + a.gates), shared = team.threads <= a.desks ? count % team.threads : count;
  Team alone{0, 1, team.barrier};
  for (i64 i = team.thread; i < count - shared; i += team.threads) step_matrix(alone, a, i, desk_of(a, team.thread));
  team.meet();
  for (i64 i = count - shared; i < count; i++) {
    step_matrix(team, a, i, desk_of(a, 0));
    team.meet();
  }
}
