// Where did it learn that: the stretches of a text that stand in another one, as tinygpt/inside/origins.py finds them.
//
// The source is read once by the suffix automaton of the text, whose states stand for all that the text has in it: what
// the source has in common with it at each place is known then, without an index of the source.
import type { Origins } from "./protocol.ts";

const LONG = 24; // bytes: where nothing is held out, stretches from here on count as remembered
const HELD_OUT = 20_000; // bytes of a text that was not learnt, to tell how long stretches are by chance
const BY_CHANCE = 0.99; // of its bytes stand in shorter ones
const MOST = 3; // stretches that are shown
const AROUND = 40; // bytes of the source that are shown before and behind a stretch

/** Of each byte the longest stretch that ends with it and stands in the source, and where that ends there. */
interface Ends {
  lengths: Int32Array;
  places: Int32Array;
}

export function originsOf(text: Uint8Array, source: Uint8Array, heldOut: Uint8Array): Origins {
  const { lengths, places } = endsIn(text, source);
  const covered = coveredBy(lengths);
  const byChance = heldOut.length >= LONG ? quantile(coveredBy(endsIn(heldOut.subarray(0, HELD_OUT), source).lengths)) : LONG;
  const whole = Array.from(lengths.keys()).filter((end) => lengths[end]! > 0 && lengths[end + 1] !== lengths[end]! + 1);
  whole.sort((a, b) => lengths[b]! - lengths[a]! || a - b);
  const stretches = whole.slice(0, MOST).map((end) => {
    const length = lengths[end]!;
    const place = places[end]! + 1 - length;
    const part = (from: number, to: number) => new TextDecoder().decode(source.subarray(Math.max(0, from), to));
    const behind = place + length;
    return {
      start: end + 1 - length,
      length,
      place,
      before: part(place - AROUND, place),
      text: part(place, behind),
      behind: part(behind, behind + AROUND),
    };
  });
  const remembered = covered.filter((length) => length > byChance).length / Math.max(1, covered.length);
  return { covered, byChance, remembered, stretches };
}

function endsIn(text: Uint8Array, source: Uint8Array): Ends {
  const automaton = new Automaton(text);
  automaton.read(source);
  return automaton.ends();
}

/** Of each byte the longest stretch that it stands in, from those that end at each: the longest are laid first. */
function coveredBy(lengths: Int32Array): Int32Array {
  const covered = new Int32Array(lengths.length);
  const free = Int32Array.from({ length: lengths.length + 1 }, (_, i) => i); // on the way to the next place that is free
  const next = (i: number): number => {
    while (free[i] !== i) i = free[i] = free[free[i]!]!;
    return i;
  };
  const ends = Array.from(lengths.keys()).sort((a, b) => lengths[b]! - lengths[a]!);
  for (const end of ends)
    for (let i = next(end + 1 - lengths[end]!); i <= end; i = next(i)) {
      covered[i] = lengths[end]!;
      free[i] = i + 1;
    }
  return covered;
}

function quantile(values: Int32Array): number {
  const sorted = values.slice().sort();
  const place = BY_CHANCE * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!];
  return Math.floor(low + (high - low) * (place % 1));
}

class Automaton {
  private readonly symbols = new Int16Array(256).fill(-1); // of the bytes that the text has, their number
  private readonly width: number;
  private readonly next: Int32Array; // by state and symbol; 0: none, for nothing leads back to the start
  private readonly link: Int32Array; // the state of the longest ending that is another's
  private readonly longest: Int32Array; // of a state's words, the length
  private readonly prefixes: Int32Array; // of each byte, the state of the text up to it
  private readonly found: Int32Array; // of a state's words, the length of the longest that was read,
  private readonly foundAt: Int32Array; // and where it ended
  private size = 1;

  constructor(text: Uint8Array) {
    const used = [...new Set(text)];
    used.forEach((byte, i) => (this.symbols[byte] = i));
    const states = 2 * text.length + 1;
    this.width = used.length;
    this.next = new Int32Array(states * this.width);
    [this.link, this.longest, this.found, this.foundAt] = [0, 0, 0, 0].map(() => new Int32Array(states)) as [
      Int32Array,
      Int32Array,
      Int32Array,
      Int32Array,
    ];
    this.link[0] = -1;
    this.prefixes = new Int32Array(text.length);
    let last = 0;
    text.forEach((byte, i) => (this.prefixes[i] = last = this.append(last, this.symbols[byte]!)));
  }

  private append(last: number, symbol: number): number {
    const { next, link, longest, width } = this;
    const made = this.size++;
    longest[made] = longest[last]! + 1;
    let at = last;
    for (; at >= 0 && !next[at * width + symbol]; at = link[at]!) next[at * width + symbol] = made;
    if (at < 0) return made;
    const known = next[at * width + symbol]!;
    link[made] = longest[known] === longest[at]! + 1 ? known : this.split(known, at, symbol);
    return made;
  }

  /** The state's shorter words, which have more endings, as one of their own. */
  private split(known: number, from: number, symbol: number): number {
    const { next, link, longest, width } = this;
    const made = this.size++;
    longest[made] = longest[from]! + 1;
    next.copyWithin(made * width, known * width, (known + 1) * width);
    link[made] = link[known]!;
    link[known] = made;
    for (let at = from; at >= 0 && next[at * width + symbol] === known; at = link[at]!) next[at * width + symbol] = made;
    return made;
  }

  read(source: Uint8Array): void {
    const { symbols, width, next, link, longest, found, foundAt } = this;
    let [state, length] = [0, 0];
    for (let i = 0; i < source.length; i++) {
      const symbol = symbols[source[i]!]!;
      if (symbol < 0) {
        state = length = 0;
        continue;
      }
      while (state && !next[state * width + symbol]) length = longest[(state = link[state]!)]!;
      const to = next[state * width + symbol]!;
      if (to) length += 1;
      state = to;
      if (length > found[state]!) {
        found[state] = length;
        foundAt[state] = i;
      }
    }
  }

  /** What was read ends with all endings of it. */
  ends(): Ends {
    const { link, longest, found, foundAt } = this;
    const order = Int32Array.from({ length: this.size - 1 }, (_, i) => i + 1).sort((a, b) => longest[a]! - longest[b]!);
    for (let i = order.length - 1; i >= 0; i--) {
      const state = order[i]!;
      const shorter = link[state]!;
      if (shorter <= 0 || !found[state] || found[shorter] === longest[shorter]) continue;
      found[shorter] = longest[shorter]!;
      foundAt[shorter] = foundAt[state]!;
    }
    for (const state of order) {
      if (found[state]) continue;
      found[state] = found[link[state]!]!;
      foundAt[state] = foundAt[link[state]!]!;
    }
    const [lengths, places] = [this.prefixes.map((state) => found[state]!), this.prefixes.map((state) => foundAt[state]!)];
    return { lengths, places };
  }
}
