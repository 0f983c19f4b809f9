// One loss of one run, wherever the page states it: while it trains, at rest, in the library, after a reload.
import { beforeAll, beforeEach, expect, it, vi } from "vitest";
import { arrive, begin, checked, FakeWorker } from "./fake-worker";
import { library } from "../src/worker/library";
import type { Python } from "../src/worker/python";
import type { CoreEvent } from "../src/worker/protocol";
import { Run } from "../src/state/run.svelte";
import { MemoryFiles } from "../src/storage/files";
import { Keeper } from "../src/storage/keeper";
import { Shelf } from "../src/storage/shelf";
import { python as startPython } from "./python";
import { TEXT } from "./toy-run";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

const order = {
  preset: "tiny",
  recipe: "modern",
  changes: {},
  text: async () => TEXT,
  textName: "a text",
  engine: "wasm",
  threads: 1,
} as const;
const record = {
  loss: 0,
  best: null,
  history: [],
  validations: [],
  config: { model: {}, train: { steps: 100 } },
  parameters: 1,
  engine: "wasm",
};
const noisy = (step: number): number => 5 - step / 50 + 0.3 * Math.sin(37 * step);

let python: Python;
let shelf: Shelf;
let keeper: Keeper;
let run: Run;
let worker: FakeWorker;

beforeAll(async () => {
  python = await startPython();
});

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal("navigator", {});
  shelf = new Shelf(Object.assign(new MemoryFiles(), { durable: true }), python.shelf, async () => null);
  keeper = Keeper.fresh(shelf);
  run = new Run();
  run.connect();
  worker = FakeWorker.last;
  await worker.ready();
});

/** Page and keeper are told of the same steps, and the last one is kept. */
async function train(from: number, to: number): Promise<void> {
  for (let first = from; first < to; first += 10) {
    const rows = Array.from({ length: 10 }, (_, i): [number, number, number, number] => [first + i + 1, noisy(first + i + 1), 1, 0.001]);
    const steps: CoreEvent = { event: "steps", rows, tokens_per_s: 1, eta_s: 1 };
    worker.hear(steps);
    keeper.note(first + 10, JSON.stringify(steps));
  }
  await keeper.keep(
    { slot: 0, record: { ...record, sequence: to, step: to }, weights: null, snapshot: false, drop: [] },
    new Uint8Array(9),
  );
  worker.hear({ event: "stopped", reason: "stopped", step: to });
  await worker.answer("start", undefined);
}

const inLibrary = async () => (await library(shelf, { run: null, training: false })).runs[0]!.loss;

it("a new run's", async () => {
  await begin(worker, run.train(order));
  keeper.begin(0, { title: "new", textName: "a text" }, TEXT, { steps: 100, history: [] });
  await train(0, 40);
  expect(run.loss).not.toBe(noisy(40));
  expect(await inLibrary()).toBeCloseTo(run.loss!, 12);
});

it("that of a file's model that goes on", async () => {
  const history: [number, number][] = [
    [1, 5],
    [11, 4.5],
    [20, 4.2],
  ];
  await arrive(run, worker, checked("a.tinygpt", 20, { history }));
  await begin(worker, run.goOn({ steps: 300 }, order));
  keeper.begin(20, { title: "a", textName: "a text" }, TEXT, { steps: 100, history });
  await train(20, 40);
  expect(await inLibrary()).toBeCloseTo(run.loss!, 12);
});

it("that of a run which was kept, opened again and continued", async () => {
  await begin(worker, run.train(order));
  keeper.begin(0, { title: "kept", textName: "a text" }, TEXT, { steps: 100, history: [] });
  await train(0, 40);
  const opened = await Keeper.reopened(shelf, keeper.folder.id);
  if (!opened.keeper) throw new Error("it has no meta");
  ({ keeper } = opened);
  const events = opened.lines.map((line) => JSON.parse(line) as CoreEvent);
  const history: [number, number][] = [
    [1, 5],
    [40, 4],
  ]; // what the file remembers, beside the log
  await arrive(run, worker, checked("kept", 40, { history, kept: { run: "a-run", title: "kept", text: opened.meta.text, events } }));
  expect(await inLibrary()).toBeCloseTo(run.loss!, 12);
  await begin(worker, run.goOn({ steps: 300 }, order));
  keeper.begin(40, { title: "kept", textName: "a text" }, TEXT, { steps: 100, history });
  await train(40, 60);
  expect(await inLibrary()).toBeCloseTo(run.loss!, 12);
});
