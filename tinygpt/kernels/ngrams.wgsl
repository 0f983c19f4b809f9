// y[n,g] = the row of table g that the last bytes up to token n pick; an invocation per word of four floats. Tokens are
// windows of T; with HAS_RECENT each is the newest of a text, at position[n], and recent[n] has the bytes before it.
// Needs hash.wgsl.
override N: u32;
override T: u32;
override G: u32;
override E: u32;  // rows of a table, a power of two
override W: u32;
override ORDERS: u32;  // bit n is set where there is a table for the last n bytes
override HAS_RECENT: bool;

const NGRAM_BYTES = 8u;

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> table: array<vec4f>;
@group(0) @binding(2) var<storage, read> position: array<i32>;
@group(0) @binding(3) var<storage, read> recent: array<i32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4f>;
@group(0) @binding(5) var<storage, read_write> rows: array<i32>;

fn order_of(number: u32) -> u32 {
  var left = number;
  for (var n = 1u; n <= NGRAM_BYTES; n++) {
    if (((ORDERS >> n) & 1u) == 1u) {
      if (left == 0u) {
        return n;
      }
      left -= 1u;
    }
  }
  return 0u;
}

// The byte so many before token i; `back` 0 is the token itself.
fn byte_before(i: u32, back: u32) -> u32 {
  if (HAS_RECENT && back > 0u) {
    return u32(recent[i * NGRAM_BYTES + back - 1u]);
  }
  return u32(tokens[i - back]);
}

// The n bytes as a number, where there is a row for each, else a hash of them.
fn row_of(i: u32, n: u32) -> u32 {
  let is_number = n < 4u && (1u << (8u * min(n, 3u))) <= E;
  var number = select(n, 0u, is_number);
  for (var turn = 0u; turn < NGRAM_BYTES; turn++) {
    let back = NGRAM_BYTES - 1u - turn;
    if (back < n) {
      let byte = byte_before(i, back);
      number = select((number ^ byte) * 16777619u, 256u * number + byte, is_number);
    }
  }
  return select(mixed(number) & (E - 1u), number, is_number);
}

@compute @workgroup_size(256)
fn ngram_embed(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let word = id.x + id.y * (256u * groups.x);
  let words = W / 4u;
  if (word >= N * G * words) {
    return;
  }
  let i = word / (G * words);
  let number = word / words % G;
  let n = order_of(number);
  var known = i % T + 1u;
  if (HAS_RECENT) {
    known = u32(position[i]) + 1u;
  }
  var row = -1;
  var value = vec4f();
  if (known >= n) {
    row = i32(number * E + row_of(i, n));
    value = table[u32(row) * words + word % words];
  }
  y[word] = value;
  if (!HAS_RECENT && word % words == 0u) {
    rows[i * G + number] = row;
  }
}
