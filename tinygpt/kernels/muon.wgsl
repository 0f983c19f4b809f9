// What Muon does number by number: the momentum, which becomes X, and at the end the step by X.
// Needs muon_matrices.wgsl.
override P: u32;
override FLOATS_BEFORE: u32;  // of the stretch of all blocks
override W: u32;  // rows of k and of v; where they are less than C, X is the transpose, with zeros behind them
override STRIDE: u32;
override O_AT: u32;
override IN_AT: u32;
override OUT_AT: u32;
override MOMENTUM: f32;

const MATRIX_RATES = 3u;

// The matrix that a number of the stretch belongs to, and where its X has it; the numbers that follow it in a word lie
// `apart` floats further on each.
struct Place {
  inside: bool,
  layer: u32,
  kind: u32,
  at: u32,
  apart: u32,
  ends: bool,  // whether its X's row ends here
  is_narrow: bool,  // whether its X has zeros in the columns from W on
}

fn place_of(number: u32) -> Place {
  let layer = number / STRIDE;
  let at = number % STRIDE;
  var kind = 0u;
  var rest = at;
  var inside = true;
  if (at >= C * C) {
    kind = 1u + (at - C * C) / (W * C);
    rest = (at - C * C) % (W * C);
    inside = kind < 3u;
  }
  if (at >= OUT_AT) {
    kind = 4u + GATES;
    rest = at - OUT_AT;
    inside = rest < C * F;
  } else if (at >= IN_AT) {
    kind = 4u + (at - IN_AT) / (F * C);
    rest = (at - IN_AT) % (F * C);
    inside = kind < 4u + GATES;
  } else if (at >= O_AT) {
    kind = 3u;
    rest = at - O_AT;
    inside = rest < C * C;
  }
  if (kind == 4u + GATES) {
    let row = rest / F;
    return Place(inside, layer, kind, x_start(layer, kind) + rest % F * WIDE + row, WIDE, row == C - 1u, false);
  }
  if (W < C && (kind == 1u || kind == 2u)) {
    return Place(inside, layer, kind, x_start(layer, kind) + rest % C * WIDE + rest / C, WIDE, false, true);
  }
  let column = rest % C;
  return Place(inside, layer, kind, x_start(layer, kind) + rest / C * WIDE + column, 1u, column == C - 1u, false);
}

@group(0) @binding(0) var<storage, read> grads: array<Floats>;
@group(0) @binding(1) var<storage, read> norm: array<f32>;
@group(0) @binding(2) var<storage, read_write> m: array<Floats>;
@group(0) @binding(3) var<storage, read_write> x: array<f32>;

// m = momentum m + (1 - momentum) g;  x = (1 - momentum) g + momentum m
@compute @workgroup_size(256)
fn muon_momentum(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let place = place_of(FLOATS_BEFORE + i * WIDTH);
  if (i >= P / WIDTH || !place.inside) {
    return;
  }
  var g = grads[in_slice(i, 0u)];
  for (var slice = 1u; slice < SLICES; slice++) {
    g += grads[in_slice(i, slice)];
  }
  g *= (1.0 - MOMENTUM) * norm[1];
  let mean = MOMENTUM * m[i] + g;
  m[i] = mean;
  let ahead = g + MOMENTUM * mean;
  for (var j = 0u; j < WIDTH; j++) {
    let at = place.at + j * place.apart;
    x[at] = pick(ahead, j);
    for (var padding = 0u; padding < 3u; padding++) {
      if (place.ends && C + padding < WIDE) {
        x[at + 1u + padding] = 0.0;
      }
    }
    if (W < C && place.is_narrow) {  // those W, 2 W, … further on
      for (var turn = 1u; turn <= WIDE / W; turn++) {
        if (at % WIDE + turn * W < WIDE) {
          x[at + turn * W] = 0.0;
        }
      }
    }
  }
}

@group(0) @binding(0) var<storage, read> orthogonal: array<f32>;
@group(0) @binding(1) var<storage, read> scales: array<f32>;
@group(0) @binding(2) var<storage, read> rates: array<f32>;
@group(0) @binding(3) var<storage, read> counters: array<i32>;
@group(0) @binding(4) var<storage, read_write> weights: array<Floats>;

// weights = weights (1 - decay) - lr sqrt(max(1, outputs / inputs)) orthogonal
@compute @workgroup_size(256)
fn muon_update(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {
  let i = id.x + id.y * (256u * groups.x);
  let place = place_of(FLOATS_BEFORE + i * WIDTH);
  if (i >= P / WIDTH || !place.inside) {
    return;
  }
  let row = COLUMNS * (u32(counters[0]) % ROWS) + MATRIX_RATES;
  let is_tall = place.kind >= 4u && place.kind < 4u + GATES;
  let rate = rates[row] * scales[place.layer * matrices_of_block() + place.kind - BEFORE];
  var step = Floats();
  for (var j = 0u; j < WIDTH; j++) {
    step += orthogonal[place.at + j * place.apart] * one_at(j);
  }
  weights[i] = weights[i] * (1.0 - rates[row + 1u]) - rate * select(1.0, sqrt(f32(F) / f32(C)), is_tall) * step;
}

@group(0) @binding(0) var<storage, read> gram: array<f32>;
@group(0) @binding(1) var<storage, read_write> inverse_norms: array<f32>;

const NORM_EPS = 1e-7;  // as in torch.optim.Muon

// 1 / |X| from the diagonal of X^T X; a workgroup is a row (LANES = 256).
@compute @workgroup_size(256)
fn muon_norm(group: Group, @builtin(local_invocation_index) me: u32) {
  let matrix = group_number(group);
  var squares = 0.0;
  for (var turn = 0u; turn < (C + 255u) / 256u; turn++) {
    let i = me + turn * 256u;
    if (i < C) {
      squares += gram[(matrix * WIDE + i) * WIDE + i];
    }
  }
  let sum = row_sum(squares, me, group);
  if (me == 0u) {
    inverse_norms[matrix] = 1.0 / max(sqrt(sum), NORM_EPS);
  }
}
