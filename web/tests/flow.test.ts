// The drawing of a model: lengths that are those of its numbers, and places that do not overlap.
import { describe, expect, it } from "vitest";
import { type Box, fewest, layout, stopsAt } from "../src/lib/flow";

const floats = (...values: number[]): Float32Array<ArrayBuffer> => Float32Array.from(values);

/** Two letters, two numbers each, after each of these parts. */
function stream(...parts: string[]): { part: string; stream: Float32Array<ArrayBuffer>; made: null }[] {
  return parts.map((part, i) => ({ part, stream: floats(9, 9, 3 * (i + 1), 4 * (i + 1)), made: null }));
}

const blocks = (layers: number): string[] => Array.from({ length: layers }, (_, i) => [`blocks.${i}.attn`, `blocks.${i}.mlp`]).flat();

it("measures the stream at the chosen letter, and what each part adds there", () => {
  const seen = { flow: stream("", "ngrams", "blocks.0.attn"), text: new Uint8Array(5), first: 3 };
  expect(stopsAt(seen, 1).map(({ part, after, added }) => [part, after, added])).toEqual([
    ["", 5, 5],
    ["ngrams", 10, 5],
    ["blocks.0.attn", 15, 5],
  ]);
});

it("counts how few units make half of an answer", () => {
  expect(fewest(floats(1, -3, 1, 1))).toBe(1);
  expect(fewest(floats(1, 1, 1, 1))).toBe(2);
  expect(fewest(floats(0, 0))).toBe(0);
});

describe.each([
  [1120, false, 3],
  [700, false, 12],
  [354, true, 6],
])("in %d pixels", (room, tall, layers) => {
  const seen = { flow: stream("", "ngrams", ...blocks(layers)), text: new Uint8Array(2), first: 0 };
  const at = layout(stopsAt(seen, 1), room, tall);

  it("has a place for each part, each layer and each guess", () => {
    expect(Object.keys(at.boxes)).toHaveLength(2 * layers + 1);
    expect([at.layers.length, at.guesses.length, at.strips.length]).toEqual([layers, layers + 1, 2 * layers + 2]);
  });

  it("lets nothing overlap, and fits the room where there is enough", () => {
    const boxes = [...Object.values(at.boxes), ...at.guesses, ...at.strips, at.letter, at.next];
    for (const [i, one] of boxes.entries()) {
      for (const other of boxes.slice(i + 1)) expect(overlap(one, other), JSON.stringify([one, other])).toBe(false);
      expect(one.left >= 0 && one.top >= 0 && one.left + one.width <= at.width && one.top + one.height <= at.height).toBe(true);
    }
    if (tall || layers === 3) expect(at.width).toBeLessThanOrEqual(room);
  });
});

function overlap(a: Box, b: Box): boolean {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height && b.top < a.top + a.height;
}
