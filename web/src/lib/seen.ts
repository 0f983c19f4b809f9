// Numbers of what was seen inside a model: core/look/inside.py and watching.py make the same, too slowly for a screen.
export const VOCAB = 256;
const BINS = 32; // of a histogram, as core's

/** Probabilities of the rows' bytes, from row number `row` of logits. */
export function probabilities(logits: Float32Array, row: number): Float64Array {
  const own = logits.subarray(row * VOCAB, (row + 1) * VOCAB);
  const top = own.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const powers = Float64Array.from(own, (logit) => Math.exp(logit - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** The likeliest bytes; of two that are as likely, the smaller. */
export function likeliest(p: Float64Array, most: number): { byte: number; p: number }[] {
  const order = Array.from(p, (_, byte) => byte).sort((a, b) => p[b]! - p[a]! || a - b);
  return order.slice(0, most).map((byte) => ({ byte, p: p[byte]! }));
}

/** How undecided it is, in bits. */
export function bits(p: Float64Array): number {
  return -p.reduce((sum, each) => sum + (each > 0 ? each * Math.log2(each) : 0), 0);
}

/** What byte `at` takes of each byte up to itself. */
export function attended(attention: Float32Array, length: number, head: number, at: number): Float32Array {
  const row = (head * length + at) * length;
  return attention.subarray(row, row + at + 1);
}

export interface Summary {
  norm: number;
  mean: number;
  std: number;
  low: number;
  high: number;
  zeros: number; // the share of them
  strange: number; // how many are no numbers
  bins: number[]; // equal stretches from low to high
}

export function summary(values: Float32Array): Summary {
  let [count, sum, squares, zeros, low, high] = [0, 0, 0, 0, Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    count += 1;
    sum += value;
    squares += value * value;
    if (value === 0) zeros += 1;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (count === 0) low = high = 0;
  const bins = new Array<number>(BINS).fill(0);
  const width = (high - low) / BINS || 1;
  for (const value of values) if (Number.isFinite(value)) bins[Math.min(BINS - 1, Math.floor((value - low) / width))]! += 1;
  const mean = count ? sum / count : 0;
  const std = count ? Math.sqrt(Math.max(0, squares / count - mean * mean)) : 0;
  return { norm: Math.sqrt(squares), mean, std, low, high, zeros: count ? zeros / count : 0, strange: values.length - count, bins };
}

const NAMED: Record<number, string> = { 9: "⇥", 10: "⏎", 13: "␍", 32: "␣" };

/** A byte as one sees it: its letter, a sign, or two digits of 16. */
export function byteName(byte: number): string {
  return NAMED[byte] ?? (byte > 32 && byte < 127 ? String.fromCharCode(byte) : byte.toString(16).toUpperCase().padStart(2, "0"));
}

/** Of what is less than all, less than 100 %. */
export function percent(p: number): string {
  return inTenths(p, tenthsOf(p));
}

/** Shares of one whole, the largest first: as they are shown they add up to 100 % at most. */
export function percents(shares: number[]): string[] {
  const tenths = shares.map(tenthsOf);
  const excess = tenths.reduce((sum, each) => sum + each, 0) - 1000;
  if (excess > 0) tenths[0]! -= excess;
  return shares.map((p, i) => inTenths(p, tenths[i]!));
}

function tenthsOf(p: number): number {
  return p >= 1 ? 1000 : Math.min(999, Math.round(1000 * p));
}

function inTenths(p: number, tenths: number): string {
  if (tenths >= 1000) return "100 %";
  if (tenths <= 0) return p > 0 ? "< 0.1 %" : "0 %";
  return `${(tenths / 10).toFixed(1)} %`;
}

/** With three digits. */
export function brief(value: number): string {
  if (value === 0) return "0";
  return Math.abs(value) >= 0.01 && Math.abs(value) < 1e4 ? Number(value.toPrecision(3)).toString() : value.toExponential(1);
}
