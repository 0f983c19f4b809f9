import { expect, it } from "vitest";
import { percent, percents } from "../src/lib/seen";

const LISTS = [
  [0.996, 0.004],
  [0.99951, 0.00049],
  [1 / 3, 1 / 3, 1 / 3],
  [0.3335, 0.3335, 0.333],
  [0.9996, 0.0004],
  [0.9145, 0.0855],
  Array<number>(12).fill(1 / 12),
];

it.each(LISTS)("alternatives never add up to more than 100 %%: %d, %d", (...shares) => {
  const shown = percents(shares).map((text) => Number(text.replace("< 0.1", "0").replace(" %", "")));
  expect(Math.round(10 * shown.reduce((sum, share) => sum + share, 0))).toBeLessThanOrEqual(1000);
});

it("says of a little that it is little, and 100 % of all only", () => {
  expect([1, 0.99999, 0.996, 0.61, 0.0004, 0].map(percent)).toEqual(["100 %", "99.9 %", "99.6 %", "61.0 %", "< 0.1 %", "0 %"]);
  expect(percents([0.996, 0.004])).toEqual(["99.6 %", "0.4 %"]);
});
