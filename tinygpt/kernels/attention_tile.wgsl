// What attention's forward and backward pass share: one tile of scores and who computes it. D % 4 == 0.
//
// A workgroup owns ROWS rows of one head (queries, or keys) and meets COLUMNS rows of the other kind at a time.
// ACROSS x DOWN invocations share that tile: the one at (x, y) holds the scores of
//   rows y + DOWN i  with  columns x + ACROSS j,   i, j = 0..3,  as a matrix whose column j goes over the rows.
// Of a product with the columns' vectors it holds the same rows, and the quads of floats x + ACROSS c, c < SHARES.
// Rows in workgroup memory are an odd number of vec4 apart, so that neighbours lie in different banks.
// Functions take the remainder of x and y, so that compilers see which places of workgroup memory they mean. Loops over
// quads and columns are written out by four: what the next ones need is then read while these are multiplied.
override B: u32;
override T: u32;
override H: u32;
override D: u32;
override ACROSS: u32;
override DOWN: u32;
override ALIBI: u32;
override SHARES: u32;  // quads an invocation has of each row: ceil(QUADS / ACROSS), 1 to 4

override HEADS: u32 = B * H;
override QUADS: u32 = D / 4u;
override ROWS: u32 = 4u * DOWN;
override COLUMNS: u32 = 4u * ACROSS;
override TILES: u32 = (T + ROWS - 1u) / ROWS;
override INVOCATIONS: u32 = ACROSS * DOWN;
override STRIDE: u32 = QUADS | 1u;        // of rows of vectors, in vec4
override SCORE_STRIDE: u32 = ACROSS | 1u; // of rows of scores, in vec4
override NEXT: u32 = DOWN * STRIDE;  // from a row of vectors to the invocation's next one
override NEXT_SCORE: u32 = DOWN * SCORE_STRIDE;
override NEXT_COLUMN: u32 = ACROSS * STRIDE;

const LOG2_E = 1.44269504f;
const LN_2 = 0.693147181f;
const MASKED = -1e30f;

// An invocation's part of a product: in each share, column i is row i. No array, which compilers may keep in memory.
struct Shares {
  first: mat4x4f,
  second: mat4x4f,
  third: mat4x4f,
  fourth: mat4x4f,
}

// a x + y
fn combine(a: mat4x4f, x: vec4f, y: vec4f) -> vec4f {
  return fma(a[0], vec4f(x.x), fma(a[1], vec4f(x.y), fma(a[2], vec4f(x.z), fma(a[3], vec4f(x.w), y))));
}

// a b + c, by fused multiply-adds: a plain matrix product would spend an addition more on every element
fn multiply_add(a: mat4x4f, b: mat4x4f, c: mat4x4f) -> mat4x4f {
  return mat4x4f(combine(a, b[0], c[0]), combine(a, b[1], c[1]), combine(a, b[2], c[2]), combine(a, b[3], c[3]));
}

fn score_scale() -> f32 {
  return 1.0 / sqrt(f32(D));
}

// Scores less ALiBi's share of how far each column is from each row. `column` is that of the first; its others are
// ACROSS apart. In which of the two the queries are does not matter: keys behind them are masked.
fn lowered_by_distance(s: mat4x4f, head: u32, rows: vec4u, column: u32) -> mat4x4f {
  let slope = LOG2_E * exp2(-8.0 * f32(head % H + 1u) / f32(H));
  let far = vec4f(rows) - f32(column);
  let apart = f32(ACROSS);
  return mat4x4f(
    s[0] - slope * abs(far),
    s[1] - slope * abs(far - apart),
    s[2] - slope * abs(far - 2.0 * apart),
    s[3] - slope * abs(far - 3.0 * apart),
  );
}

// Whether there is a quad, or a column, of that number: always, where they are a multiple of four.
fn has_quad(number: u32) -> bool {
  return QUADS % 4u == 0u || number < QUADS;
}

fn has_column(number: u32) -> bool {
  return ACROSS % 4u == 0u || number < ACROSS;
}

// Where the vector of a row of a head begins, in vec4: in a tensor of `parts` times H heads (q, k and v have three).
fn vector_start(head: u32, row: u32, part: u32, parts: u32) -> u32 {
  return ((head / H * T + row) * parts + part) * H * QUADS + head % H * QUADS;
}

// A quad of q, k or v (part 0, 1, 2) of a row; zeros behind the last. The load is without a condition, so that a loop
// of them can be unrolled and all be under way at once.
fn load_quad(head: u32, row: u32, part: u32, quad: u32) -> vec4f {
  let value = qkv[vector_start(head, min(row, T - 1u), part, 3u) + quad];
  return select(vec4f(), value, row < T);
}

// The invocation's rows at height y, counted from the workgroup's first, and its columns.
fn rows_of(y: u32) -> vec4u {
  return y + DOWN * vec4u(0u, 1u, 2u, 3u);
}

fn columns_of(x: u32) -> vec4u {
  return x + ACROSS * vec4u(0u, 1u, 2u, 3u);
}
