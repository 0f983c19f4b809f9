// What figures compute: a softmax that arrives is the softmax, and the puzzle's checker says what the chapter's does.
import { expect, test } from "vitest";
import { online } from "../src/figures/online";
import { conflicts, height, least, TENSORS } from "../src/figures/puzzle";

test("score by score, the answer is that of all at once", () => {
  const [scores, values] = [
    [0.4, 1.6, 0.9, 3.0, 2.2, 3.6],
    [3, -2, 1, 4, -1, 2],
  ];
  const shares = scores.map((score) => Math.exp(score - 3.6));
  const sum = shares.reduce((one, other) => one + other);
  const states = online(scores, values);
  expect(states.at(-1)!.weighted / states.at(-1)!.sum).toBeCloseTo(
    shares.reduce((all, share, at) => all + share * values[at]!, 0) / sum,
    12,
  );
  expect(states.map(({ factor }) => factor < 1)).toEqual([false, true, false, true, false, true]);
});

test("the checker names the two that meet and when, and knows the lowest plan", () => {
  expect(conflicts({ x: 0, a: 4, b: 8, h: 4, dx: 0, y: 10 })[0]).toEqual({ one: "a", other: "b", op: 2 });
  const solved = { x: 0, b: 4, h: 8, y: 16, a: 8, dx: 4 };
  expect(conflicts(solved)).toEqual([]);
  expect(height(solved)).toBe(least());
  expect(least()).toBe(18);
  for (const { name } of TENSORS.filter(({ name }) => name !== "dx"))
    expect(conflicts({ ...solved, [name]: solved[name as keyof typeof solved] === 0 ? 4 : 0 })).not.toEqual([]);
});
