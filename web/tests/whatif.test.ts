// What if?: what can be forked, what came of it, and a model that begins without a part.
import { beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { FakeWorker, library } from "./fake-worker";
import { forkable, labelOf, obstacle, outcomeOf, revealed, stopsOf, WhatIf } from "../src/lab/whatif.svelte";
import { type ModelHeader, parse, text } from "../src/generated/protocol";
import { ModelFile, writeModelFile } from "../src/worker/modelfile";
import type { Shelved } from "../src/worker/protocol";
import type { Python } from "../src/worker/python";
import { withoutPart } from "../src/worker/without";
import { python as startPython } from "./python";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));
vi.mock("../src/lab/rooms", () => ({
  openRoom: async () => ({ calls: { whatIf: async () => ({ same: 0.01, changes: [] }) }, end: () => undefined }),
}));

const RUN = {
  base: null,
  config: {},
  text: { bytes: 10 },
  step: 100,
  steps: 100,
  validations: [[100, 2]],
  stops: [0, 3, 50, 100].map((step) => ({ step, loss: 2 })),
} as unknown as Shelved;

describe("a run that can be forked", () => {
  it("has come to its end, and has steps before it", () => {
    expect(forkable(RUN)).toBe(true);
    expect(obstacle(RUN)).toBe("");
    expect(stopsOf(RUN).map(({ step }) => step)).toEqual([3, 50]);
  });

  it.each([
    [{ base: { title: "a", sha256: "" } }, "it is an adapter"],
    [{ step: 40 }, "it was stopped at step 40 of 100, so there is no end to compare with"],
    [{ validations: [] }, "it was never validated"],
    [{ stops: [{ step: 100, loss: 2 }] }, "no earlier step of it is kept"],
  ])("is not one of which %j", (more, why) => {
    const run = { ...RUN, ...more } as Shelved;
    expect(obstacle(run)).toBe(why);
    expect(forkable(run)).toBe(false);
  });
});

describe("a run that an address names", () => {
  beforeEach(() => void (FakeWorker.opened = []));

  it.each([
    [{ ...RUN, id: "a", title: "A", step: 40, elsewhere: false }, "A cannot be forked here: it was stopped at step 40 of 100"],
    [{ ...RUN, id: "b", title: "B", elsewhere: false }, "This browser keeps no such run."],
  ])("is refused in a sentence: %#", async (run, why) => {
    const lab = new WhatIf();
    const opened = lab.open("a");
    await FakeWorker.last.answer("library", library({ runs: [run as Shelved] }));
    await opened;
    expect(lab.problem).toContain(why);
  });
});

describe("what came of it", () => {
  it.each([
    [1.9, "better"],
    [2.005, "the same"],
    [2.2, "worse"],
    [NaN, "worse"],
  ])("a validation loss of %d is %s", (loss, is) => {
    expect(outcomeOf([[50, 3], [100, 2]], [[60, 9], [100, loss]], 0.01)).toEqual({ step: 100, original: 2, other: loss, is }); // prettier-ignore
  });

  it("is nothing where no step has both", () => expect(outcomeOf([[100, 2]], [[90, 1]], 0.01)).toBeNull());

  it("is told with what was said before", () => {
    const worse = { step: 100, original: 2, other: 2.2, is: "worse" } as const;
    expect(revealed(worse, "better", "worse")).toBe(
      "On text that neither has read its loss ends at 2.200, and the original's at 2.000: worse. You said better. The coach expected worse, too.",
    );
    expect(revealed(worse, "worse", null)).toMatch(/You said worse, and you were right.$/);
    expect(revealed({ ...worse, other: null }, null, "better")).toBe("It diverged before step 100: worse. The coach expected better.");
  });

  it("is of a change in words", () => {
    const change = { name: "", label: "x", changes: {}, part: "blocks.1.mlp", guess: null, text: "" };
    expect(labelOf(change)).toBe("the MLP of layer 2 set to zero");
    expect(labelOf({ ...change, part: "" })).toBe("x");
  });
});

describe("a model without a part", () => {
  let python: Python;
  beforeAll(async () => void (python = await startPython()));

  it.each(["classic", "modern"])("has zeros there and nowhere else, its optimizer's state included (%s)", async (recipe) => {
    const changes = { layers: 2, d_model: 8, heads: 2, ctx: 8, ngrams: "" };
    const session = python.session.Session(text({ preset: "tiny", recipe, changes, bytes: 4000 }));
    parse(session.plan());
    const header = parse(session.header_text()) as ModelHeader;
    const floats = new Float32Array(header.stateByteLength / 4 - 1).fill(1);
    const bytes = await writeModelFile(header, 7, new Uint8Array(floats.buffer));
    const before = await ModelFile.open(bytes, python.file);
    const after = await ModelFile.open(await withoutPart(bytes, "blocks.1.head.0", python), python.file);
    expect(after.front.slots).toEqual(before.front.slots);
    expect(after.front.progress.step).toBe(before.front.progress.step);
    const state = new Float32Array(after.body().buffer);
    const moving = recipe === "modern" ? 2 : 1; // "live" beside the average of it
    expect(state.filter((value) => value === 0).length).toBe(moving * 8 * 4);
    const weights = after.weights();
    const [, , offset, size] = after.front.pieces.find(([name]) => name === "blocks.1.attn.o_proj.weight")!;
    expect(Array.from(weights.subarray(offset, offset + size), (value, at) => value === (at % 8 < 4 ? 0 : 1))).not.toContain(false);
  });

  it("is refused where there is no such part", async () => {
    const session = python.session.Session(
      text({ preset: "tiny", recipe: "classic", changes: { layers: 1, d_model: 8, heads: 2 }, bytes: 4000 }),
    );
    parse(session.plan());
    const header = parse(session.header_text()) as ModelHeader;
    const bytes = await writeModelFile(header, 7, new Uint8Array(header.stateByteLength - 4));
    await expect(withoutPart(bytes, "blocks.9", python)).rejects.toThrow();
  });
});
