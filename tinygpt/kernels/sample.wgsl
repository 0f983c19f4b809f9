// The next byte: of the likeliest ones that top-k and top-p leave, the one that a draw falls on. A workgroup per text, or
// with HAS_ROW one for text row[0]; an invocation per byte. Needs philox.wgsl.
override ROOM: u32;
override HAS_ROW: bool;

const BYTES = 256u;
const CHOICE_WORDS = 16u;
const SAMPLE = 4u;  // core/rng.py
// core/ops/sample.py: words of `choice`, of `cursor`, and what ends a text.
const SEED = 0u;
const FIRST = 1u;
const TEMPERATURE = 2u;
const TOP_P = 3u;
const TOP_K = 4u;
const STOP = 8u;
const WRITTEN = 0u;
const OVER = 1u;
const STOPPED = 1;
const NO_NUMBER = 2;

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> choice: array<i32>;
@group(0) @binding(2) var<storage, read> row: array<i32>;
@group(0) @binding(3) var<storage, read_write> written: array<i32>;
@group(0) @binding(4) var<storage, read_write> token: array<i32>;
@group(0) @binding(5) var<storage, read_write> position: array<i32>;
@group(0) @binding(6) var<storage, read_write> cursor: array<i32>;

var<workgroup> own: array<f32, BYTES>;
var<workgroup> order: array<u32, BYTES>;  // bytes by falling logit, equal ones by byte
var<workgroup> sums: array<f32, BYTES>;  // of the weights up to each of them
var<workgroup> infinite: atomic<u32>;
var<workgroup> kept: atomic<u32>;
var<workgroup> chosen: atomic<u32>;

// How many bytes come before `me`.
fn rank(me: u32) -> u32 {
  let mine = own[me];
  var before = 0u;
  for (var other = 0u; other < BYTES; other++) {
    let logit = own[other];
    before += select(0u, 1u, logit > mine || (logit == mine && other < me));
  }
  return before;
}

// sums[i] = weights[0] + … + weights[i]; all invocations together.
fn prefix_sum(weight: f32, me: u32) {
  sums[me] = weight;
  workgroupBarrier();
  for (var apart = 1u; apart < BYTES; apart *= 2u) {
    var sum = sums[me];
    if (me >= apart) {
      sum += sums[me - apart];
    }
    workgroupBarrier();
    sums[me] = sum;
    workgroupBarrier();
  }
}

@compute @workgroup_size(256)
fn sample(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) me: u32) {
  var text = group.x;
  if (HAS_ROW) {
    text = u32(row[0]);
  }
  let choices = text * CHOICE_WORDS;
  let logit = logits[group.x * BYTES + me];
  let is_number = (bitcast<u32>(logit) & 0x7f800000u) != 0x7f800000u;
  own[me] = select(0.0, logit, is_number);  // all ranks are taken, so `order` is whole
  if (me == 0u) {
    atomicStore(&infinite, 0u);
    atomicStore(&kept, BYTES - 1u);
    atomicStore(&chosen, BYTES - 1u);
  }
  workgroupBarrier();
  if (!is_number) {
    atomicAdd(&infinite, 1u);
  }
  order[rank(me)] = me;
  workgroupBarrier();

  let temperature = bitcast<f32>(choice[choices + TEMPERATURE]);
  let candidates = select(BYTES, u32(choice[choices + TOP_K]), choice[choices + TOP_K] > 0);
  let below_top = own[order[me]] - own[order[0]];
  prefix_sum(select(0.0, exp(below_top / max(temperature, 1e-30)), me < candidates), me);

  let goal = bitcast<f32>(choice[choices + TOP_P]) * sums[candidates - 1u];
  if (sums[me] >= goal) {
    atomicMin(&kept, me);
  }
  workgroupBarrier();
  let last = min(atomicLoad(&kept), candidates - 1u);
  let place = u32(cursor[2u * text + WRITTEN]);
  let key = vec2u(u32(choice[choices + SEED]), SAMPLE);
  let words = philox(key, vec4u(u32(choice[choices + FIRST]) + place, 0u, 0u, 0u));
  let draw = f32(words.x >> 8u) / 16777216.0 * sums[last];
  if (sums[me] > draw) {
    atomicMin(&chosen, me);
  }
  workgroupBarrier();

  if (me != 0u || cursor[2u * text + OVER] != 0) {
    return;
  }
  if (atomicLoad(&infinite) > 0u) {
    cursor[2u * text + OVER] = NO_NUMBER;
    return;
  }
  let byte = order[select(min(atomicLoad(&chosen), last), 0u, temperature == 0.0)];
  written[text * ROOM + place % ROOM] = i32(byte);
  token[text] = i32(byte);
  position[text]++;
  cursor[2u * text + WRITTEN]++;
  if (((u32(choice[choices + STOP + byte / 32u]) >> (byte % 32u)) & 1u) == 1u) {
    cursor[2u * text + OVER] = STOPPED;
  }
}
