// The page's side of a run: what it makes of whatever the worker says, or of its silence.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { checked, chosen, FakeWorker, file, model, settle, started, steps } from "./fake-worker";
import type { Shelved } from "../src/worker/protocol";
import type { Order } from "../src/state/kinds";
import { Run } from "../src/state/run.svelte";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

const machine = { engine: "wasm", threads: 1 } as const;
const order: Order = {
  preset: "tiny",
  recipe: "modern",
  changes: {},
  text: async () => new Uint8Array(100),
  textName: "a text",
  ...machine,
};
const stopped = { event: "stopped", reason: "stopped", step: 20 } as const;

let run: Run;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("confirm", () => {
    throw new Error("nobody is to be asked");
  });
  FakeWorker.opened = [];
  run = new Run();
  run.connect();
});

async function train(more: Partial<Order> = {}): Promise<void> {
  void run.train({ ...order, ...more });
  await settle();
}

/** A run of 100 steps that has made 20, the last of which may be kept. */
async function training(kept: number | null = null): Promise<FakeWorker> {
  const worker = FakeWorker.last;
  await worker.ready();
  await train();
  worker.hear(started, steps(0, 20));
  if (kept !== null) worker.hear({ event: "checkpoint", step: kept, kind: "last" });
  vi.advanceTimersByTime(1000);
  return worker;
}

describe("a worker that dies", () => {
  it("takes a model with it that was not kept, and says so", async () => {
    const worker = await training();
    worker.die("out of memory");
    await settle();
    expect(worker.terminated).toBe(true);
    expect(run.model).toBeNull();
    expect(run.state.name).toBe("broken");
    expect(run.notice?.text).toBe(
      "The engine's worker died (out of memory). The model in it is lost: continue from a saved file, or train a new one.",
    );
    expect(FakeWorker.opened).toHaveLength(1);
  });

  it("is opened again where the run was kept, which is offered", async () => {
    (await training(12)).die("");
    expect(run.notice?.text).toContain("The model as of step 12 is kept: continue from there.");
    expect(FakeWorker.opened).toHaveLength(2);
    await FakeWorker.last.ready({ runs: [{ id: "a-run", elsewhere: false } as Shelved] });
    expect(run.state.name).toBe("idle");
    expect(run.library.offer?.id).toBe("a-run");
  });

  it("leaves a model that is in a file", async () => {
    const worker = FakeWorker.last;
    await worker.ready();
    void run.load(chosen("loaded.tinygpt"));
    await settle();
    await worker.answer("check", checked("loaded.tinygpt", 40));
    worker.die("");
    await settle();
    expect(run.model?.title).toBe("loaded.tinygpt");
    expect(run.notice?.text).toContain("Press Train to start it again.");
  });

  it("answers whoever waits for a text with nothing", async () => {
    const worker = await training();
    const answer = run.ask(machine, (calls) => calls.write({ prompt: [65], settings: {} }));
    worker.die("");
    expect(await answer).toBeNull();
  });
});

it("a worker that does not start in time is given up", async () => {
  vi.advanceTimersByTime(29_999);
  expect(run.state.name).toBe("loading");
  vi.advanceTimersByTime(1);
  expect(run.state.name).toBe("broken");
  expect(run.notice?.text).toContain("it did not start in time");
  await train();
  await FakeWorker.last.ready();
  vi.advanceTimersByTime(60_000);
  expect(FakeWorker.opened).toHaveLength(2);
  expect(run.state.name).toBe("planning");
});

it("a worker whose Python does not start is of no use", async () => {
  await FakeWorker.last.fail("capabilities", { message: "Python did not start: no memory" });
  expect([run.state.name, run.notice?.text]).toEqual(["broken", "Python did not start: no memory."]);
});

describe("a refusal", () => {
  it("is said and ends nothing", async () => {
    const worker = await training();
    const answer = run.ask(machine, (calls) => calls.write({ prompt: [65], settings: {} }));
    await worker.fail("write", { message: "the prompt is empty" });
    expect(await answer).toBeNull();
    expect(run.state.name).toBe("training");
    expect(run.notice).toEqual({ kind: "error", text: "The prompt is empty." });
  });

  it("of a run that was stopped before it began leaves the page at rest", async () => {
    await FakeWorker.last.ready();
    await train({ seconds: 60 });
    expect(run.state).toMatchObject({ name: "planning", measuring: true });
    run.stop();
    await FakeWorker.last.fail("start", { message: "It was stopped before anything had begun" });
    expect([run.state.name, run.model]).toEqual(["idle", null]);
  });

  it("of a text that cannot be had starts nothing", async () => {
    await FakeWorker.last.ready();
    await train({ text: () => Promise.reject(new Error("There is no text.")) });
    expect([run.state.name, run.notice?.text, FakeWorker.last.count("start")]).toEqual(["idle", "There is no text.", 0]);
  });
});

describe("a lost GPU", () => {
  it("goes back to what was kept of the model", async () => {
    const worker = await training(12);
    await worker.fail("start", { message: "the GPU is lost", instead: file("kept.tinygpt", 12), lost: true });
    expect([run.step, run.model?.step, run.model?.file?.name, run.lost]).toEqual([12, 12, "kept.tinygpt", true]);
    expect(run.curve.steps.at(-1)).toBe(12);
    expect(run.notice?.text).toContain("Your model is as it was at step 12.");
    expect([run.state.name, run.ended]).toEqual(["idle", "stopped"]);
  });

  it("says that nothing is left where nothing was kept", async () => {
    await (await training()).fail("start", { message: "the GPU is lost", instead: null, lost: true });
    expect(run.model).toBeNull();
    expect(run.notice?.text).toContain("The model was not kept yet");
  });

  it("while a model writes is no mere refusal", async () => {
    const worker = await training(20);
    worker.hear(stopped);
    await worker.answer("start", undefined);
    void run.ask(machine, (calls) => calls.weigh({ prompt: [65], settings: {} }));
    await worker.fail("weigh", { message: "the GPU is lost", instead: file("kept.tinygpt", 20), lost: true });
    expect([run.state.name, run.lost, run.model?.file?.step]).toEqual(["idle", true, 20]);
  });
});

describe("a doubt", () => {
  beforeEach(() => FakeWorker.last.ready());

  it("that is confirmed starts the same run, sure", async () => {
    const asked = vi.fn(() => true);
    vi.stubGlobal("confirm", asked);
    await train();
    await FakeWorker.last.answer("start", { doubt: "this takes 7 GB" });
    expect(asked).toHaveBeenCalledWith(expect.stringContaining("This takes 7 GB."));
    expect(FakeWorker.last.asked("start")).toMatchObject({ preset: "tiny", sure: true });
    expect(run.state.name).toBe("planning");
  });

  it("that is dismissed starts nothing", async () => {
    vi.stubGlobal("confirm", () => false);
    await train();
    await FakeWorker.last.answer("start", { doubt: "this takes 7 GB" });
    expect(FakeWorker.last.count("start")).toBe(1);
    expect([run.state.name, run.model]).toEqual(["idle", null]);
  });
});

it("kernels that are compiled are counted, for a run and for a model that is to write", async () => {
  const worker = FakeWorker.last;
  await worker.ready();
  await train();
  worker.hear({ event: "compiling", made: 3, of: 9 });
  expect(run.state).toMatchObject({ name: "planning", compiled: { made: 3, of: 9 } });
  worker.hear(started);
  expect(run.state).toEqual({ name: "training" });
});

it("a model that is only in a file goes to the worker before it is asked", async () => {
  const worker = FakeWorker.last;
  await worker.ready();
  void run.load(chosen("loaded.tinygpt"));
  await settle();
  await worker.answer("check", checked("loaded.tinygpt", 40));
  const answer = run.ask(machine, (calls) => calls.weigh({ prompt: [65], settings: {} }));
  await settle();
  expect([run.state.name, worker.count("open"), worker.count("weigh")]).toEqual(["writing", 1, 0]);
  await worker.answer("open", model);
  await worker.answer("weigh", [[66, 1]]);
  expect([await answer, run.state.name, run.model?.file]).toEqual([[[66, 1]], "idle", null]);
});

it("a run that diverges returns to the step that was kept", async () => {
  const worker = await training(12);
  worker.hear({ event: "eval", step: 20, val_loss: 9, best: false });
  worker.hear({ event: "stopped", reason: "diverged", step: 12, message: "the loss is no number at step 21" });
  expect([run.step, run.model?.step, run.curve.steps.at(-1), run.val]).toEqual([12, 12, 12, null]);
  expect(run.notice).toEqual({ kind: "error", text: "The loss is no number at step 21." });
  expect(run.state.name).toBe("idle");
});

it("the same advice twice is shown once", async () => {
  const advice = { event: "advice", step: 20, kind: "plateau", text: "Try a lower learning rate." } as const;
  (await training()).hear(advice, advice);
  expect(run.advice).toEqual(["Try a lower learning rate."]);
});

describe("what is kept and what is not saved", () => {
  it("while it trains, any kept step will do; at rest it is the last one", async () => {
    const worker = await training();
    expect([run.kept, run.unsaved]).toEqual([false, true]);
    worker.hear({ event: "checkpoint", step: 12, kind: "last" });
    expect([run.kept, run.unsaved]).toEqual([true, false]);
    worker.hear(stopped);
    expect([run.kept, run.unsaved]).toEqual([false, true]);
    worker.hear({ event: "checkpoint", step: 20, kind: "last" });
    expect([run.kept, run.unsaved]).toEqual([true, false]);
  });

  it("storage that fails, or that ends with the tab, keeps nothing", async () => {
    const worker = await training(20);
    worker.hear({ event: "unkept", step: 20, text: "The browser's storage is full." });
    expect([run.kept, run.unkept]).toEqual([false, "The browser's storage is full."]);
    worker.hear({ event: "checkpoint", step: 20, kind: "last" });
    run.library.refresh();
    await worker.answer("library", { durable: false, runs: [], damaged: [], used: null, available: null });
    expect([run.kept, run.unkept, run.unsaved]).toEqual([false, "", true]);
  });

  it("a file that was saved, and a run that was deleted", async () => {
    const worker = await training(20);
    worker.hear(stopped);
    run.forget(["a-run"]);
    expect(worker.asked("delete")).toBe("a-run");
    expect([run.model?.run, run.unsaved]).toEqual([null, true]);
    const delivered: string[] = [];
    void run.files.save((_, name) => delivered.push(name));
    await worker.answer("save", file("tiny, step 20.tinygpt", 20));
    expect(delivered).toEqual(["tiny, step 20.tinygpt"]);
    expect(run.unsaved).toBe(false);
  });
});
