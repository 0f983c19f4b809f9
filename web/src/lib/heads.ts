// What an attention head does, in words: computed from where it looks over a text, and said only where it is clear.
import { attended } from "./seen.ts";

const CLEAR = 0.4; // of all that it takes, on average
const FEWEST = 4; // bytes before the first that counts: behind the very first ones there is nothing else to look at
const SPACE = 32;

export interface Habit {
  what: string; // in words, to follow "looks at"
  share: number; // of what it takes
}

/** The share that a head gives to each kind of place, the largest first. */
export function habits(attention: Float32Array, bytes: Uint8Array, head: number): Habit[] {
  const length = bytes.length;
  const kinds: [what: string, places: (at: number) => number[]][] = [
    ["the letter itself", (at) => [at]],
    ["the letter before", (at) => [at - 1]],
    ["the letter before that", (at) => [at - 2]],
    ["the start of the text", () => [0]],
    ["the last space", (at) => [bytes.lastIndexOf(SPACE, at - 1)]],
    ["the same letter, earlier", (at) => earlier(bytes, at)],
    ["what followed the same letter earlier", (at) => earlier(bytes, at).map((place) => place + 1)],
  ];
  const sums = kinds.map(() => 0);
  let counted = 0;
  for (let at = FEWEST; at < length; at++) {
    counted += 1;
    const row = attended(attention, length, head, at);
    kinds.forEach(([, places], i) => {
      for (const place of places(at)) if (place >= 0 && place <= at) sums[i]! += row[place]!;
    });
  }
  const found = kinds.map(([what], i) => ({ what, share: counted ? sums[i]! / counted : 0 }));
  return found.sort((a, b) => b.share - a.share);
}

function earlier(bytes: Uint8Array, at: number): number[] {
  const places = [];
  for (let place = 0; place < at - 1; place++) if (bytes[place] === bytes[at]) places.push(place);
  return places;
}

/** What it looks at, where that is clear over the text. */
export function caption(attention: Float32Array, bytes: Uint8Array, head: number): string {
  const [first] = habits(attention, bytes, head);
  return first && first.share >= CLEAR ? `looks at ${first.what}` : "looks at many places";
}
