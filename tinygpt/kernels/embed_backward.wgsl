// dwte[v] (+)= sum of dx[n] over tokens[n] = v;  dwpe[t] (+)= sum over the batch of dx[b, t];  each within its slice.
// The first V * TILES * SLICES workgroups are dwte's, for a token, a tile of columns and a slice each.
override N: u32;
override T: u32;
override C: u32;
override V: u32;
override ACCUMULATE: bool;
override TIED: bool;  // the head's gradient is in dwte, to be added to
override HAS_DWPE: bool;

@group(0) @binding(0) var<storage, read> tokens: array<i32>;
@group(0) @binding(1) var<storage, read> dx: array<Floats>;
@group(0) @binding(2) var<storage, read_write> dwte: array<Floats>;
@group(0) @binding(3) var<storage, read_write> dwpe: array<Floats>;

// A workgroup's invocations are 32 columns (words) by 8 row lanes. It goes over 256 rows at a time.
override TILES = (C / WIDTH + 31u) / 32u;
override SLICE_ROWS = (N + SLICES - 1u) / SLICES;
var<workgroup> found: array<atomic<u32>, 8>;  // one bit per row: it holds the token. Each row lane takes 32 rows.
var<workgroup> partial: array<Floats, 256>;

fn add_token(token: u32, tile: u32, slice: u32, me: u32) {
  let words = C / WIDTH;
  let column = tile * 32u + me % 32u;
  let row_lane = me / 32u % 8u;
  let begin = slice * slice_rows(N);
  let end = min(N, begin + slice_rows(N));
  var sum = Floats();
  for (var turn = 0u; turn < (SLICE_ROWS + 255u) / 256u; turn++) {
    let first = begin + turn * 256u;
    if (first >= end) {
      break;
    }
    if (me < 8u) {
      atomicStore(&found[me % 8u], 0u);
    }
    workgroupBarrier();
    if (first + me < end && u32(tokens[first + me]) == token) {
      atomicOr(&found[row_lane], 1u << (me % 32u));
    }
    workgroupBarrier();
    var rows = atomicLoad(&found[row_lane]);
    for (var bit = 0u; bit < 32u; bit++) {
      if (rows == 0u || column >= words) {
        break;
      }
      let n = first + row_lane * 32u + firstTrailingBit(rows);
      sum += dx[n * words + column];
      rows &= rows - 1u;
    }
    workgroupBarrier();
  }
  partial[me % 256u] = sum;
  workgroupBarrier();
  if (row_lane == 0u && column < words) {
    for (var other = 1u; other < 8u; other++) {
      sum += partial[other * 32u + me % 32u];
    }
    let to = in_slice(token * words + column, slice);
    if (ACCUMULATE || TIED) {
      sum += dwte[to];
    }
    dwte[to] = sum;
  }
}

// Word i of the slices of dwpe one after the other.
fn add_position(i: u32) {
  let words = C / WIDTH;
  let slice = i / (T * words);
  if (slice >= SLICES) {
    return;
  }
  let place = i % (T * words);
  let begin = slice * slice_rows(N);
  let end = min(N, begin + slice_rows(N));
  var sum = Floats();
  for (var turn = 0u; turn < (SLICE_ROWS + T - 1u) / T; turn++) {
    let n = begin + (place / words + T - begin % T) % T + turn * T;
    if (n < end) {
      sum += dx[n * words + place % words];
    }
  }
  let to = in_slice(place, slice);
  if (ACCUMULATE) {
    sum += dwpe[to];
  }
  dwpe[to] = sum;
}

@compute @workgroup_size(256)
fn embed_backward(
  @builtin(workgroup_id) id: vec3u,
  @builtin(num_workgroups) groups: vec3u,
  @builtin(local_invocation_index) me: u32,
) {
  let number = id.x + id.y * groups.x;
  let token_groups = V * TILES * SLICES;
  if (number < token_groups) {
    add_token(number % V, number / V % TILES, number / (V * TILES), me);
  } else if (HAS_DWPE) {
    add_position((number - token_groups) * 256u + me);
  }
}
