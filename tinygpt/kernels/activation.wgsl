// What stands between an MLP's two matmuls, with its slope. It comes before linear_tile.wgsl: see there.
override KIND: u32 = 0;  // as in core/ops/linear.py

struct Activation {
  value: vec4f,
  slope: vec4f,
}

// max(h, 0)^2; NaN stays NaN.
fn squared_relu(h: vec4f) -> Activation {
  let above = select(h, vec4f(0.0), h < vec4f(0.0));
  return Activation(above * above, above + above);
}

// The exact GELU, h * Phi(h) with Phi the normal distribution, and its slope Phi(h) + h * phi(h).
// Both come from the tail Phi(-|h|) = exp(-h^2/2) mills(|h|), which keeps its relative accuracy where (1 + erf) / 2
// would cancel. mills is a ratio of polynomials with positive coefficients: activation.h has the same ones.
fn gelu(h: vec4f) -> Activation {
  let t = min(abs(h), vec4f(13.0));
  let e = select(vec4f(0.0), exp(-0.5 * t * t), t < vec4f(13.0));
  var p = fma(vec4f(0.00397151336), t, vec4f(0.0396482237));
  p = fma(p, t, vec4f(0.180294707));
  p = fma(p, t, vec4f(0.434294939));
  p = fma(p, t, vec4f(0.5));
  var q = fma(vec4f(0.00995494984), t, vec4f(0.0993913114));
  q = fma(q, t, vec4f(0.461712092));
  q = fma(q, t, vec4f(1.19024026));
  q = fma(q, t, vec4f(1.6664747));
  q = fma(q, t, vec4f(1.0));
  let tail = e * (p / q);
  let below = select(1.0 - tail, tail, h < vec4f(0.0));
  return Activation(h * below, fma(h * e, vec4f(0.39894228), below));
}

fn activate(h: vec4f) -> Activation {
  if (KIND == 1) {
    return squared_relu(h);
  }
  return gelu(h);
}
