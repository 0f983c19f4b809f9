// What labs show of mutants and of what a reader derived.
import { describe, expect, it } from "vitest";
import facts from "../src/generated/labs.json";
import { heats, inWords } from "../src/lab/heat";
import { mutantsIn, recordedRun, suspects } from "../src/lab/mutants";
import type { Comparison } from "../src/lab/protocol";
import { type Sources, texts } from "../src/lab/sources";

const stated = facts as Sources;

describe("the mutants", () => {
  const mutants = mutantsIn(stated);

  it("are fourteen, each with its degree, three hints, and an op in a file that it changes", () => {
    expect(mutants.length).toBe(14);
    for (const { degree, hints, op, path, patch, symptom, name } of mutants) {
      expect(["easy", "medium", "hard"]).toContain(degree);
      expect(hints.length).toBe(3);
      expect(patch).toContain(`+++ b/tinygpt/${path}`);
      expect(texts(stated)[path]).toContain(`def ${op}(`);
      expect(symptom).not.toContain(op);
      expect(recordedRun(name).rows.length).toBe(120);
    }
  });

  it("are among more suspects, all of which are there", () => {
    const all = suspects(mutants);
    expect(all.length).toBeGreaterThan(20);
    for (const { op, path } of all) expect(texts(stated)[path]).toContain(`def ${op}(`);
  });
});

it("kernels to write are our files with some lines out", () => {
  for (const { file, before, solution, after, starter } of stated.write) {
    expect(before + solution + after).toBe(texts(stated)[`kernels/${file}`]);
    expect(starter).not.toBe(solution);
  }
  expect(stated.write.length).toBeGreaterThanOrEqual(10);
});

describe("where a tensor is wrong", () => {
  const row: Comparison = {
    what: "the specification",
    output: "dx",
    sizes: { N: 1, C: 3 },
    shape: [1, 3],
    right: false,
    bound: 1e-12,
    heat: [[0, 1e-6, null]],
    worst: null,
    row: 0,
    column: 2,
    got: null,
    wanted: 0.5,
  };

  it("is hotter where it is further off", () => {
    const [[right, wrong, none]] = heats(row) as [[number, number, number]];
    expect(right).toBe(0);
    expect(wrong).toBeGreaterThan(0.9);
    expect(none).toBe(1);
  });

  it("is said in words also where it is behind the tensor", () => {
    const outside = { ...row, shape: [3], heat: [[0, 0, 0]], worst: 0, outside: true };
    expect(inWords(outside)).toBe("What follows dx in memory was overwritten, where C = 3, N = 1: a place past its end was written.");
  });

  it("is said in words", () => {
    expect(inWords(row)).toBe(
      "dx is wrong in 2 of 3 places, where C = 3, N = 1. At row 0, column 2 (from 0) it is NaN or infinite, and by the specification 0.500000.",
    );
  });
});
