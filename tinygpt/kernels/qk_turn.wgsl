// qk_norm and the turn of rotary positions after it, and both of their gradients, one dispatch each: of every head of q
// and k, y = x rstd and its pairs (i, i + D/2) turned; v as it is. LANES invocations per head, each with words of both
// halves. See qk_norm.wgsl, qk_norm_backward.wgsl and rotary.wgsl.
override N: u32;
override T: u32;
override H: u32;
override D: u32;
override EPS: f32;
override HALF: u32 = D / 2u / WIDTH;
override TURNS: u32 = (HALF + LANES - 1u) / LANES;  // words of a half that an invocation takes

struct Pair {
  a: Floats,
  b: Floats,
}

// What the rows of a head share.
struct Head {
  words: u32,  // of a half; a surplus head has none
  first: u32,
  angles: u32,  // where its row's cosines begin
  place: u32,  // of the heads of q, k and v
  measured: u32,  // where its rstd lies
}

fn head_of(number: u32) -> Head {
  let row = number / (3u * H);
  let place = number % (3u * H);
  let words = select(0u, HALF, number < N * 3u * H);
  return Head(words, number * 2u * HALF, row % T * 2u * HALF, place, row * 2u * H + place);
}

@group(0) @binding(0) var<storage, read> qkv: array<Floats>;
@group(0) @binding(1) var<storage, read> angles: array<Floats>;
@group(0) @binding(2) var<storage, read_write> y: array<Floats>;
@group(0) @binding(3) var<storage, read_write> rstd: array<f32>;  // [N, 2H]
@group(0) @binding(4) var<storage, read_write> turned: array<Floats>;

@compute @workgroup_size(256)
fn qk_norm_rotary(group: Group, @builtin(local_invocation_index) me: u32) {
  let head = head_of(row_number(me, group));
  var squares = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= head.words) {
      break;
    }
    let at = head.first + i;
    squares += qkv[at] * qkv[at] + qkv[at + HALF] * qkv[at + HALF];
  }
  var scale = inverseSqrt(row_sum(sum_of(squares), me, group) / f32(D) + EPS);
  let turns_it = head.place < 2u * H;
  if (!turns_it) {
    scale = 1.0;
  } else if (me % LANES == 0u && head.words > 0u) {
    rstd[head.measured] = scale;
  }
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= head.words) {
      break;
    }
    let at = head.first + i;
    let a = qkv[at] * scale;
    let b = qkv[at + HALF] * scale;
    y[at] = a;
    y[at + HALF] = b;
    let c = select(Floats(1.0), angles[head.angles + i], turns_it);
    let s = select(Floats(), angles[head.angles + i + HALF], turns_it);
    turned[at] = a * c - b * s;
    turned[at + HALF] = a * s + b * c;
  }
}

@group(0) @binding(0) var<storage, read> dturned: array<Floats>;
@group(0) @binding(2) var<storage, read> normed: array<Floats>;
@group(0) @binding(3) var<storage, read> kept_rstd: array<f32>;
@group(0) @binding(4) var<storage, read_write> dqkv: array<Floats>;

// The gradient of a pair, turned back.
fn turned_back(head: Head, i: u32) -> Pair {
  let a = dturned[head.first + i];
  let b = dturned[head.first + i + HALF];
  let c = angles[head.angles + i];
  let s = angles[head.angles + i + HALF];
  return Pair(a * c + b * s, b * c - a * s);
}

@compute @workgroup_size(256)
fn rotary_qk_norm_backward(group: Group, @builtin(local_invocation_index) me: u32) {
  let head = head_of(row_number(me, group));
  var products = Floats();
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= head.words) {
      break;
    }
    let d = turned_back(head, i);
    products += d.a * normed[head.first + i] + d.b * normed[head.first + i + HALF];
  }
  let mean = row_sum(sum_of(products), me, group) / f32(D);
  for (var turn = 0u; turn < TURNS; turn++) {
    let i = me % LANES + turn * LANES;
    if (i >= head.words) {
      break;
    }
    let at = head.first + i;
    var d = Pair(dturned[at], dturned[at + HALF]);
    if (head.place < 2u * H) {
      d = turned_back(head, i);
      let scale = kept_rstd[head.measured];
      d = Pair(scale * (d.a - normed[at] * mean), scale * (d.b - normed[at + HALF] * mean));
    }
    dqkv[at] = d.a;
    dqkv[at + HALF] = d.b;
  }
}
