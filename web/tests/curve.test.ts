import { expect, it } from "vitest";
import { Curve } from "../src/lib/curve";

function grown(steps: number): Curve {
  const curve = new Curve(steps);
  for (let step = 1; step <= steps; step++) {
    curve.addStep(step, 5 - step / 100, 1, 0.001, 1000);
    if (step % 10 === 0) curve.addValidation(5.5 - step / 100, [4, 6]);
  }
  return curve;
}

it("has one value per step in every column", () => {
  const curve = grown(40);
  for (const column of [curve.train, curve.smooth, curve.val, curve.low, curve.high, curve.norm, curve.rate, curve.speed])
    expect(column).toHaveLength(40);
  expect(curve.val.filter((value) => value !== null)).toEqual([5.4, 5.3, 5.2, 5.1]);
});

it("smooths without going below what was measured", () => {
  const curve = new Curve(1000);
  for (const [step, loss] of [5, 3, 1, 1, 1, 1].entries()) curve.addStep(step, loss);
  expect(Math.min(...curve.smooth)).toBeGreaterThanOrEqual(1);
  expect(new Curve(10).smoothed).toBeNull();
});

it("goes back to a step as if the later ones had never been", () => {
  const earlier = grown(40).until(25);
  const again = grown(25);
  expect(earlier.steps.at(-1)).toBe(25);
  expect(earlier.train).toEqual(again.train);
  expect([earlier.lastValidation, earlier.bestValidation]).toEqual([5.3, 5.3]);
  expect(earlier.low[19]).toBe(4);
});

it("takes no validation before the first step", () => {
  const curve = new Curve(10);
  curve.addValidation(3);
  expect(curve.lastValidation).toBeNull();
});
