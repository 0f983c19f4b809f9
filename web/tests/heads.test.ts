// What is said of an attention head follows from its numbers.
import { describe, expect, it } from "vitest";
import { caption, habits } from "../src/lib/heads";

const TEXT = new TextEncoder().encode("a bcad a bcx");

/** Of two heads; the second one looks at `place`, the first at nothing. */
function map(place: (at: number) => number, share = 1): Float32Array {
  const length = TEXT.length;
  const values = new Float32Array(2 * length * length);
  for (let at = 0; at < length; at++) values[(length + at) * length + Math.max(0, place(at))] = share;
  return values;
}

describe("a head's caption", () => {
  it.each([
    ["the letter before", (at: number) => at - 1],
    ["the letter itself", (at: number) => at],
    ["the start of the text", () => 0],
    ["the last space", (at: number) => TEXT.lastIndexOf(32, at - 1)],
  ])("says that it looks at %s", (what, place) => {
    expect(caption(map(place), TEXT, 1)).toBe(`looks at ${what}`);
    expect(habits(map(place), TEXT, 1)[0]!.share).toBeCloseTo(1);
  });

  it("says nothing where nothing is clear", () => {
    expect(
      caption(
        map((at) => at - 1, 0.3),
        TEXT,
        1,
      ),
    ).toBe("looks at many places");
    expect(
      caption(
        map((at) => at - 1),
        TEXT,
        0,
      ),
    ).toBe("looks at many places");
  });
});
