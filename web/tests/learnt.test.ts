// "Learnt where" compares with the text that the model in hand learnt from, whatever is chosen under Train.
import { gzipSync } from "node:zlib";
import { beforeEach, expect, it, vi } from "vitest";
import { arrive, begin, checked, FakeWorker } from "./fake-worker";
import { site } from "../src/lib/site";
import { Run } from "../src/state/run.svelte";
import { Setup } from "../src/state/setup.svelte";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

const bytes = new TextEncoder().encode("a text of the user's");
const order = {
  preset: "tiny",
  recipe: "modern",
  changes: {},
  text: async () => bytes,
  textName: "mine",
  engine: "wasm",
  threads: 1,
} as const;
const fetched = vi.fn(async (_address: string) => new Response(gzipSync("Call me Ishmael.")));

let run: Run;
let setup: Setup;
let worker: FakeWorker;

beforeEach(async () => {
  vi.useFakeTimers();
  fetched.mockClear();
  vi.stubGlobal("fetch", fetched);
  run = new Run();
  setup = new Setup(run);
  run.connect();
  worker = FakeWorker.last;
  await worker.ready();
});

it("a run of this tab has its own text, also when another is chosen later", async () => {
  await begin(worker, run.train(order));
  setup.corpus = site.corpora[1]!;
  expect(await setup.learnt()).toEqual({ name: "mine", text: bytes });
});

it("a model of the site's has the text that its file names", async () => {
  const moby = site.corpora.find(({ name }) => name === "moby-dick")!;
  await arrive(run, worker, checked("moby-dick.tinygpt", 10, { learnt: { name: "moby-dick", sha256: moby.sha256 } }));
  setup.source = "hub"; // nothing is fetched yet there
  const learnt = await setup.learnt();
  expect([learnt.name, learnt.text]).toEqual([moby.title, new TextEncoder().encode("Call me Ishmael.")]);
  expect(fetched.mock.calls[0]![0]).toContain(moby.file);
});

it("one whose text is not the site's is looked for in the storage, and said to be missing by name", async () => {
  await arrive(run, worker, checked("shakespeare-huge.tinygpt", 10, { learnt: { name: "shakespeare-full", sha256: "08a7" } }));
  const { text, name } = await setup.learnt();
  expect([text, name]).toEqual(["08a7", "shakespeare-full"]);
  void run.inside.trace(text, name, 0.1);
  expect(worker.asked("trace")).toMatchObject({ corpus: "08a7", name: "shakespeare-full" });
  await worker.fail("trace", { message: "this model learnt from shakespeare-full, which is not at hand" });
  expect(run.inside.untraced).toBe("This model learnt from shakespeare-full, which is not at hand.");
});

it("a file that does not say is not compared with anything", async () => {
  await arrive(run, worker, checked("some.tinygpt", 10));
  await expect(setup.learnt()).rejects.toThrow("does not say which text it learnt from");
});

it("a run of the library keeps the name of its text when it goes on", async () => {
  const text = { sha256: "0a", bytes: 5, name: "kept text" };
  await arrive(run, worker, checked("x", 10, { learnt: text, kept: { run: "a-run", title: "x", text, events: [] } }));
  await begin(worker, run.goOn({ steps: 200 }, { text: async () => "0a", textName: "", engine: "wasm", threads: 1 }));
  expect(run.model?.learnt).toEqual({ name: "kept text", text: "0a" });
});
