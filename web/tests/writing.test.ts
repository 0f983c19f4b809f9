// What is written, by whom, and what was seen inside: never under the name of another model.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { arrive, begin, checked, chosen, FakeWorker, file, model, settle, steps } from "./fake-worker";
import { Run } from "../src/state/run.svelte";
import { Writing } from "../src/state/writing.svelte";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

const machine = { engine: "wasm", threads: 1 } as const;
const order = { preset: "tiny", recipe: "modern", changes: {}, text: async () => new Uint8Array(9), textName: "a text", ...machine };
const other = chosen("other.tinygpt");

let run: Run;
let writing: Writing;
let worker: FakeWorker;

beforeEach(async () => {
  vi.useFakeTimers();
  FakeWorker.opened = [];
  run = new Run();
  writing = new Writing(run);
  run.connect();
  worker = FakeWorker.last;
  await worker.ready();
  await arrive(run, worker, checked("first.tinygpt", 40));
});

/** The first model has written "AB", and may not be done. */
async function written(done = true): Promise<void> {
  writing.write(machine);
  await settle();
  await worker.answer("open", model);
  worker.tell("write", { bytes: [65, 66], seconds: 1 });
  if (done) await worker.answer("write", undefined);
}

describe("another model in hand", () => {
  it("begins with an empty page", async () => {
    await written();
    expect(writing.draft.made).toEqual([65, 66]);
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect([writing.draft.bytes, writing.draft.toFirst, writing.draft.place]).toEqual([[], null, null]);
  });

  it("gets nothing of what the one before is still writing", async () => {
    await written(false);
    const { signal } = worker.sent.at(-1)!;
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect(signal!.aborted).toBe(true);
    worker.tell("write", { bytes: [67], seconds: 2 });
    await worker.answer("write", undefined);
    expect([writing.draft.made, writing.draft.writing]).toEqual([[], false]);
  });

  it("that is trained anew takes the text away, and one that goes on does not", async () => {
    await written();
    await begin(worker, run.goOn({ steps: 200 }, order));
    expect(writing.draft.made).toEqual([65, 66]);
    worker.hear({ event: "stopped", reason: "stopped", step: 41 });
    await worker.answer("start", undefined);
    await begin(worker, run.train(order));
    expect(writing.draft.made).toEqual([]);
  });

  it("is not shown with what was seen inside the one before", async () => {
    const seen = { text: new Uint8Array(2), first: 0, losses: new Float32Array(1), heads: 0, tensor: null };
    const looked = { ...seen, attention: [], lenses: [], flow: [], parts: [], tensors: [] };
    void run.inside.look();
    await worker.answer("look", { ...looked, step: 40 });
    expect(run.inside.seen?.step).toBe(40);
    void run.inside.look();
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect(run.inside.seen).toBeNull();
    await worker.answer("look", { ...looked, step: 41 }); // of the first: it was under way
    expect(run.inside.seen).toBeNull();
  });
});

describe("a second model", () => {
  it("goes with 'no other model', however it was chosen", () => {
    for (const beside of ["shakespeare-small", undefined]) {
      writing.compare(other, beside);
      expect([writing.second !== null, writing.beside]).toEqual([true, beside ?? "=file"]);
      const second = FakeWorker.last;
      writing.compare(undefined, "");
      expect([writing.second, writing.beside, second.terminated]).toEqual([null, "", true]);
    }
  });

  it("that was what an adapter stands on goes with the adapter", async () => {
    void writing.compareWith("base");
    await worker.answer("part", file("base.tinygpt", 0));
    expect([writing.second !== null, writing.beside]).toEqual([true, "=base"]);
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect([writing.second, writing.beside]).toEqual([null, ""]);
  });
});

describe("what was said of a run goes with it", () => {
  async function trained(): Promise<void> {
    await begin(worker, run.train(order), { advice: ["The text is short."] });
    worker.hear(steps(0, 100));
    worker.hear({ event: "unkept", step: 100, text: "The browser's storage is full." });
    worker.hear({ event: "advice", step: 100, kind: "plateau", text: "Try another rate." });
    worker.hear({ event: "stopped", reason: "finished", step: 100 });
    await worker.answer("start", undefined);
    run.library.share("a-run", () => undefined);
    await worker.fail("share", { message: "this run is not kept yet" });
  }
  const messages = () => [run.advice, run.unkept, run.ended, run.library.problem, run.lost];

  it("when a file is loaded", async () => {
    await trained();
    expect(messages()).toEqual([
      ["The text is short.", "Try another rate."],
      "The browser's storage is full.",
      "finished",
      "this run is not kept yet",
      false,
    ]);
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect(messages()).toEqual([[], "", null, "", false]);
  });

  it("when another begins, before its first step", async () => {
    await trained();
    const asked = run.train(order);
    await settle();
    expect([run.advice, run.library.problem]).toEqual([[], ""]);
    await begin(worker, asked);
    expect(messages()).toEqual([[], "", null, "", false]);
  });

  it("when its GPU is lost, with the offer to go on without", async () => {
    await begin(worker, run.train(order));
    worker.hear(steps(0, 20));
    await worker.fail("start", { message: "the GPU is lost", instead: file("kept.tinygpt", 10), lost: true });
    expect(run.lost).toBe(true);
    await arrive(run, worker, checked("second.tinygpt", 50));
    expect(run.lost).toBe(false);
  });
});
