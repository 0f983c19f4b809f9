// What is asked about a text inside the model.
import { beforeEach, expect, it, vi } from "vitest";
import { arrive, checked, FakeWorker, settle } from "./fake-worker";
import { changesInWords } from "../src/lib/parts";
import { Run } from "../src/state/run.svelte";
import type { Looked } from "../src/worker/protocol";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

let run: Run;
let worker: FakeWorker;

beforeEach(async () => {
  FakeWorker.opened = [];
  run = new Run();
  run.connect();
  worker = FakeWorker.last;
  await worker.ready();
  await arrive(run, worker, checked("first.tinygpt", 40));
});

async function answered(text: Uint8Array<ArrayBuffer>): Promise<void> {
  void run.inside.look();
  await settle();
  const seen = { step: 40, text, first: 0, heads: 0, attention: [], lenses: [], flow: [], parts: ["blocks.1"], tensors: [], tensor: null };
  await worker.answer("look", { ...seen, losses: new Float32Array(text.length - 1) } as unknown as Looked);
}

it("explains the bytes that were written, though they are no text, until somebody edits them", async () => {
  const written = [72, 0xff, 0xc3, 101];
  run.inside.explain(written, [["blocks.1", 0]]);
  await answered(Uint8Array.from(written));
  expect(worker.asked("look")).toMatchObject({ text: Uint8Array.from(written), scales: [["blocks.1", 0]] });
  expect(worker.asked("matter")).toMatchObject({ at: 2, text: Uint8Array.from(written) });
  run.inside.text = "Hé";
  await answered(Uint8Array.of(72, 0xc3, 0xa9));
  expect(worker.asked("look")).toMatchObject({ text: Uint8Array.of(72, 0xc3, 0xa9) });
  expect(worker.count("matter")).toBe(1);
});

it("says in words what was changed", () => {
  expect(changesInWords([["blocks.1", 0]])).toBe("without layer 2");
  expect(
    changesInWords([
      ["ngrams", 0],
      ["blocks.0.head.2", 0],
      ["blocks.2.mlp", 0.5],
    ]),
  ).toBe("without the n-grams and head 3 of layer 1; the MLP of layer 3 × 0.5");
});
