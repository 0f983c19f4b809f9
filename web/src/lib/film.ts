// A run as a film: what it wrote on its way, over its seconds, and the curve of its loss.

export interface Frame {
  step: number;
  seconds: number;
  text: string;
}

export interface Film {
  title: string;
  parameters: number;
  text: string; // that it learned from
  frames: Frame[]; // at least one, in order
  curve: [step: number, seconds: number, loss: number][];
}

export function lengthOf({ frames, curve }: Film): number {
  return Math.max(frames.at(-1)!.seconds, curve.at(-1)?.[1] ?? 0, 1e-6);
}

/** Time runs as its square root: the first seconds, in which noise turns into letters, have a large part of the slider. */
export function placeOf(film: Film, seconds: number): number {
  return Math.sqrt(Math.min(1, seconds / lengthOf(film)));
}

export function secondsAt(film: Film, place: number): number {
  return lengthOf(film) * place ** 2;
}

/** What is on the screen by then. */
export function frameAt(film: Film, seconds: number): Frame {
  return film.frames.findLast((frame) => frame.seconds <= seconds + 1e-9) ?? film.frames[0]!;
}

/** The point of the curve by then; null before the first. */
export function pointAt({ curve }: Film, seconds: number): Film["curve"][number] | null {
  return curve.findLast(([, at]) => at <= seconds + 1e-9) ?? curve[0] ?? null;
}

/** The curve as a line through points of a box 1 wide and 1 high: the highest loss on top. */
export function outlineOf(film: Film): [x: number, y: number][] {
  const losses = film.curve.map(([, , loss]) => loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  return film.curve.map(([, seconds, loss]) => [placeOf(film, seconds), high > low ? (high - loss) / (high - low) : 0.5]);
}

const MIXED = 0x9e3779b1; // neighbours are far apart
const NOISE = "¶§æ¤ð×þ·¬øµ±¥ß÷«Ø°»";

/** Bytes that are no letter, and control characters, as marks that a typeface has: each place has its own. */
export function noised(text: string): string {
  return text.replace(
    /[\ufffd\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g,
    (_, at: number) => NOISE[(Math.imul(at + 1, MIXED) >>> 16) % NOISE.length]!,
  );
}

const UNTRAINED_LENGTH = 420;

/** What a model writes before its first step: every byte is as likely as every other. */
export function untrained(random: () => number = Math.random): string {
  const bytes = Array.from({ length: UNTRAINED_LENGTH }, () => Math.floor(256 * random()));
  return noised(bytes.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "\ufffd")).join(""));
}
