// The drawing of a model: how long its residual stream is from stop to stop, and where everything is on the screen.
import type { Looked } from "../worker/protocol";

/** A stop of the stream at one letter: lengths of vectors. */
export interface Stop {
  part: string; // that adds to it; none: the letter's own numbers
  after: number; // how long the stream is then
  added: number; // how long what was added is
  numbers: Float32Array; // the stream then
}

export function stopsAt(seen: Pick<Looked, "flow" | "text" | "first">, at: number): Stop[] {
  const rows = seen.flow.map(({ stream }) => rowOf(stream, seen.text.length - seen.first, at));
  return seen.flow.map(({ part }, i) => {
    const [now, before] = [rows[i]!, rows[i - 1]];
    return { part, after: length(now), added: length(before ? now.map((value, c) => value - before[c]!) : now), numbers: now };
  });
}

/** Row number `at` of so many. */
export function rowOf(values: Float32Array, rows: number, at: number): Float32Array {
  const width = values.length / rows;
  return values.subarray(at * width, (at + 1) * width);
}

export function length(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}

/** How few of the values make half of the sum of their squares. */
export function fewest(values: Float32Array): number {
  const squares = Float64Array.from(values, (value) => value * value).sort();
  let left = squares.reduce((sum, square) => sum + square, 0) / 2;
  let count = 0;
  for (let i = squares.length - 1; i >= 0 && left > 0; i--) {
    left -= squares[i]!;
    count += 1;
  }
  return count;
}

// --- where everything is

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface Ribbon {
  into: string; // a path from the stream into the part
  out: string; // and back
  width: number; // of what comes back
}

export interface Layout {
  width: number;
  height: number;
  stream: string; // the outline of the stream, as thick as it is long
  course: string; // its middle
  ribbons: Record<string, Ribbon>; // by part
  boxes: Record<string, Box>; // by part
  strips: Box[]; // the stream's numbers at each stop
  guesses: Box[]; // below the stream: at its beginning, then after each layer
  layers: Box[]; // all of a layer
  letter: Box;
  next: Box; // what comes of it
}

/** Lengths along the stream and across it, in pixels. */
interface Measures {
  start: number; // of the letter
  end: number; // of what comes next
  part: (part: string) => number;
  gap: number; // between parts
  side: number; // across, where parts are
  deep: number; // the parts' size across; where the room decides, 0
  guess: number; // across, where guesses are
}

const THICKEST = 15; // half of the stream, in pixels
const THINNEST = 1.5;
const STRIP = 8; // the numbers' width
const NEAR = 8; // from the stream to its guesses
const LAST = 6; // more than a gap, before what comes next
const TITLE = 18; // of a layer, where that is above its parts

const WIDE: Measures = { start: 60, end: 172, part: () => 0, gap: 13, side: 38, deep: 104, guess: 100 };
const TALL: Measures = { start: 64, end: 150, part: (part) => (part === "ngrams" ? 52 : 76), gap: 15, side: 38, deep: 0, guess: 58 };

/** Where everything is, in pixels of a page whose letters have 16: from left to right, or from above to below where there is no room for that. Parts are on one side of the
 * stream, guesses on the other. */
export function layout(stops: Stop[], room: number, tall: boolean): Layout {
  const own = tall ? TALL : WIDE;
  const parts = stops.slice(1).map(({ part }) => part);
  const size = tall ? own.part : fitted(parts, room, own);
  const deep = tall ? room - own.guess - NEAR - THICKEST - own.side : own.deep;
  const middle = tall ? own.guess + NEAR + THICKEST : deep + own.side + THICKEST;
  const longest = Math.max(1e-9, ...stops.map(({ after }) => after));
  const half = (length: number): number => Math.max(THINNEST, THICKEST * Math.sqrt(length / longest));

  // Along the stream and across it; parts have positive places across.
  const point = (along: number, across: number): string => (tall ? `${middle + across} ${along}` : `${along} ${middle - across}`);
  const box = (along: number, across: number, long: number, wide: number): Box =>
    tall
      ? { left: middle + across, top: along, width: wide, height: long }
      : { left: along, top: middle - across - wide, width: long, height: wide };

  const found: Pick<Layout, "ribbons" | "boxes" | "strips" | "guesses" | "layers"> = {
    ...{ ribbons: {}, boxes: {}, strips: [], guesses: [], layers: [] },
  };
  const edge: [along: number, half: number][] = [];
  let along = own.start;
  const pass = (stop: Stop): void => {
    found.strips.push(box(along, -THICKEST - 5, STRIP, 2 * THICKEST + 10));
    edge.push([along, half(stop.after)], [along + STRIP, half(stop.after)]);
    along += STRIP;
  };
  const [early, lasts] = tall ? [60, 64] : [21, 34]; // beside the end of a layer, or centred under it
  const guess = (): void => void found.guesses.push(box(along - early, -THICKEST - NEAR - own.guess, lasts, own.guess));
  pass(stops[0]!);
  let begun = along;
  for (const stop of stops.slice(1)) {
    const layer = /^blocks\.\d+\./.test(stop.part);
    const first = layer && !stop.part.endsWith(".mlp");
    if (first) {
      guess();
      begun = along;
      if (tall) along += TITLE;
    }
    const long = size(stop.part);
    along += own.gap;
    const place = box(along, own.side, long, deep);
    found.boxes[stop.part] = place;
    const [enters, leaves, near] = [along + 0.2 * long, along + 0.8 * long, own.side];
    const back = along + long + own.gap - 4;
    found.ribbons[stop.part] = {
      into: curve(point, along - own.gap + 2, 0, enters, near),
      out: curve(point, back, 0, leaves, near, true),
      width: 2 * half(stop.added),
    };
    along += long + own.gap;
    pass(stop);
    if (layer && !first) found.layers.push(box(begun, own.side, along - begun, deep));
  }
  guess();
  const until = along + own.gap + LAST;
  edge.push([until, edge.at(-1)![1]]);
  const next = tall
    ? { left: 0, top: until, width: room, height: own.end }
    : { ...box(until, -deep / 2, own.end, deep), top: middle - 74, height: 148 };
  const across = tall ? room : middle + THICKEST + NEAR + own.guess;
  return {
    ...found,
    width: tall ? room : until + own.end,
    height: tall ? until + own.end : across,
    stream: outline(point, edge),
    course: `M${point(own.start, 0)}L${point(until, 0)}`,
    letter: tall ? { left: middle - 26, top: 4, width: 52, height: 52 } : { left: 0, top: middle - 26, width: 52, height: 52 },
    next,
  };
}

/** Sizes of parts side by side, so that all fit the room where that is possible. */
function fitted(parts: string[], room: number, { start, end, gap }: Measures): (part: string) => number {
  const weight = (part: string): number => (part === "ngrams" ? 0.75 : part.endsWith(".mlp") ? 0.8 : 1);
  const left = room - start - end - STRIP - gap - LAST - parts.length * (2 * gap + STRIP);
  const unit = Math.max(66, Math.min(190, left / parts.reduce((sum, part) => sum + weight(part), 0)));
  return (part) => Math.round(weight(part) * unit);
}

type Point = (along: number, across: number) => string;

/** From the stream to a part; `back`: the other way, for what flows there to flow so. */
function curve(point: Point, along: number, across: number, to: number, near: number, back = false): string {
  const bends = `${point(along, near * 0.6)} ${point(to, near * 0.4)}`;
  const other = `${point(to, near * 0.4)} ${point(along, near * 0.6)}`;
  return back ? `M${point(to, near)}C${other} ${point(along, across)}` : `M${point(along, across)}C${bends} ${point(to, near)}`;
}

function outline(point: Point, edge: [along: number, half: number][]): string {
  const side = (sign: number, points: [number, number][]): string =>
    points
      .map(([along, half], i) => {
        const before = points[i - 1];
        if (!before) return point(along, sign * half);
        const mid = (along + before[0]) / 2;
        return `C${point(mid, sign * before[1])} ${point(mid, sign * half)} ${point(along, sign * half)}`;
      })
      .join("");
  return `M${side(1, edge)}L${side(-1, edge.toReversed())}Z`;
}
