// A run as a film, and what is said of it in one sentence.
import { describe, expect, it } from "vitest";
import { choices, coached } from "../src/lib/coach";
import { Curve } from "../src/lib/curve";
import { type Film, frameAt, noised, outlineOf, placeOf, pointAt, secondsAt } from "../src/lib/film";
import { inWords } from "../src/lib/format";

const film: Film = {
  title: "small",
  parameters: 9,
  text: "a text",
  frames: [0, 1, 4, 16].map((seconds) => ({ step: 10 * seconds, seconds, text: `after ${seconds}` })),
  curve: [
    [1, 0.1, 5],
    [80, 8, 3],
    [160, 16, 1],
  ],
};

describe("a film", () => {
  it("runs as the square root of time, there and back", () => {
    expect([0, 1, 4, 16].map((seconds) => placeOf(film, seconds))).toEqual([0, 0.25, 0.5, 1]);
    for (const place of [0, 0.3, 1]) expect(placeOf(film, secondsAt(film, place))).toBeCloseTo(place);
  });

  it("shows the text that was there by then, and the loss", () => {
    expect([0, 0.9, 1, 15.9, 99].map((seconds) => frameAt(film, seconds).text)).toEqual([
      "after 0",
      "after 0",
      "after 1",
      "after 4",
      "after 16",
    ]);
    expect([0, 8, 99].map((seconds) => pointAt(film, seconds)![2])).toEqual([5, 3, 1]);
    expect(outlineOf(film).map(([, y]) => y)).toEqual([0, 0.5, 1]);
  });

  it("shows bytes that are no letters as marks, and leaves letters of any script as they are", () => {
    expect(noised("naïve Ωμέγα\n")).toBe("naïve Ωμέγα\n");
    expect(noised("a\ufffd\u0000b")).toMatch(/^a[^\ufffd\u0000]{2}b$/);
  });
});

describe("the coach", () => {
  const run = (loss: number, val: number[] = [], band: [number, number] = [1.5, 2.5]): Curve => {
    const curve = new Curve(100);
    for (let step = 1; step <= 100; step++) {
      curve.addStep(step, loss);
      const measured = val[step / 10 - 1];
      if (measured !== undefined) curve.addValidation(measured, band);
    }
    return curve;
  };
  const said = (curve: Curve, over: { timed: number | null; took: number; passes: number } | null = null, advice: string[] = []): string =>
    coached({ curve, loss: curve.smoothed, val: curve.lastValidation, advice, right: null, over });

  it("says how many letters it chooses among, and where it is among runs that went well", () => {
    expect([Math.log(256), Math.log(5)].map(choices)).toEqual(["256", "5.0"]);
    expect(said(run(2, [2]))).toContain("where runs that went well were");
    expect(said(run(2, [3]))).toContain("a lower learning rate may help");
    expect(said(run(1, [1]))).toContain("better than most");
    expect(said(run(2), null, ["Core's advice."])).toBe("Core's advice.");
  });

  it("says at the end what to try next", () => {
    const ended = { timed: null, took: 60, passes: 9 };
    expect(said(run(1, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), ended)).toContain("a longer text would help most");
    expect(said(run(1.9, [3, 2.9, 2.8, 2.7, 2.6, 2.5, 2.4, 2.3, 2.2, 2]), ended)).toContain("still improving");
    expect(said(run(1.9, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]), ended)).toContain("try a larger one");
    expect(said(run(1.9, [2]), { timed: 180, took: 9, passes: 9 })).toContain("It ended after 9 seconds");
    expect(said(run(1.9, [2]), { timed: 180, took: 9, passes: 0.5 })).not.toContain("It ended");
  });

  it("tells time as people do", () => {
    expect([0.6, 58, 60, 200, 17_076].map(inWords)).toEqual(["1 second", "58 seconds", "1 minute", "3 minutes", "4 h 45 min"]);
  });
});
