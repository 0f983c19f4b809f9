// One query per text r over the rows 0 … position[r] of its T in the cache; the newest row's k and v come from qkv and
// join the cache. A workgroup has a tile of 8 columns (words) of a head, by 32 row lanes. It goes over 256 rows at a
// time, with the softmax so far: y = sum of exp(score - top) v, and the same sum without v, to divide by in the end
// (LANES = 256).
override T: u32;
override H: u32;
override D: u32;
override ALIBI: u32;

@group(0) @binding(0) var<storage, read> qkv: array<Floats>;
@group(0) @binding(1) var<storage, read> position: array<i32>;
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;
@group(0) @binding(3) var<storage, read_write> cache_k: array<Floats>;
@group(0) @binding(4) var<storage, read_write> cache_v: array<Floats>;

const LOWEST = -3.4e38;
override WORDS = H * D / WIDTH;      // of a row
override HEAD_WORDS = D / WIDTH;
override TILES = (HEAD_WORDS + 7u) / 8u;

var<workgroup> shares: array<f32, 256>;
var<workgroup> partial: array<Floats, 256>;

// Words `at` of the k and of the v of row j: the newest are not looked for in the cache, where they are being written.
fn key(text: u32, j: u32, newest: u32, at: u32) -> Floats {
  if (j == newest) {
    return qkv[(3u * text + 1u) * WORDS + at];
  }
  return cache_k[(text * T + j) * WORDS + at];
}

fn value(text: u32, j: u32, newest: u32, at: u32) -> Floats {
  if (j == newest) {
    return qkv[(3u * text + 2u) * WORDS + at];
  }
  return cache_v[(text * T + j) * WORDS + at];
}

@compute @workgroup_size(256)
fn attention_one(group: Group, @builtin(local_invocation_index) me: u32) {
  let head = group.id.x / TILES * HEAD_WORDS;
  let column = group.id.x % TILES * 8u + me % 8u;
  let rows = select(0u, 256u, column < HEAD_WORDS);  // surplus columns add nothing
  let text = group.id.y;
  let newest = u32(position[text]);

  var top = LOWEST;
  var sum = 0.0;
  var weighted = Floats();
  for (var first = 0u; first <= newest; first += 256u) {
    let j = first + me;
    var score = LOWEST;
    if (j <= newest) {
      var products = Floats();
      for (var word = 0u; word < HEAD_WORDS; word++) {
        products += qkv[3u * text * WORDS + head + word] * key(text, j, newest, head + word);
      }
      score = sum_of(products) / sqrt(f32(D));
      if (ALIBI != 0u) {
        score -= exp2(-8.0 * f32(head / HEAD_WORDS + 1u) / f32(H)) * f32(newest - j);
      }
    }
    let new_top = max(top, row_max(score, me, group));
    let shrink = exp(top - new_top);
    top = new_top;
    let share = select(0.0, exp(score - top), j <= newest);
    sum = sum * shrink + share;
    weighted *= shrink;
    shares[me] = share;
    workgroupBarrier();
    for (var turn = 0u; turn < 8u; turn++) {
      let row = me / 8u + turn * 32u;
      if (row >= min(rows, newest + 1u - first)) {
        break;
      }
      weighted += shares[row] * value(text, first + row, newest, head + column);
    }
    workgroupBarrier();
  }
  sum = row_sum(sum, me, group);

  partial[me] = weighted;
  workgroupBarrier();
  if (me < 8u && column < HEAD_WORDS) {
    for (var other = 1u; other < 32u; other++) {
      weighted += partial[other * 8u + me % 8u];
    }
    y[text * WORDS + head + column] = weighted / sum;
    cache_k[(text * T + newest) * WORDS + head + column] = qkv[(3u * text + 1u) * WORDS + head + column];
    cache_v[(text * T + newest) * WORDS + head + column] = qkv[(3u * text + 2u) * WORDS + head + column];
  }
}
