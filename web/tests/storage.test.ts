// What is kept of runs, with the page's own Python: whatever happens to a file, nothing is deleted and the run is not lost.
import { readFileSync } from "node:fs";
import { beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { exported, library } from "../src/worker/library";
import { ModelFile, provenStep } from "../src/worker/modelfile";
import { parse } from "../src/generated/protocol";
import type { Python } from "../src/worker/python";
import { site } from "../src/lib/site";
import { MemoryFiles } from "../src/storage/files";
import { Keeper, type Reopened } from "../src/storage/keeper";
import { Shelf } from "../src/storage/shelf";
import { python as startPython } from "./python";
import { keepRun, NO_PAST, TEXT } from "./toy-run";

const AT_REST = { run: null, training: false };
const garbage = Uint8Array.from({ length: 300 }, (_, i) => (i * 151 + 7) % 256);

let python: Python;
let files: MemoryFiles;
let shelf: Shelf;
let one: string;
let other: string;

let kept: Map<string, Uint8Array<ArrayBuffer>>; // the files of both, as they were written

beforeEach(() => {
  vi.stubGlobal("navigator", {}); // no locks, no estimate
  files = new MemoryFiles();
  Object.assign(files, { durable: true, held: new Map(kept) }); // memory would be for one run only
  shelf = new Shelf(files, python.shelf, (file) => provenStep(file, python.file));
});

beforeAll(async () => {
  vi.stubGlobal("navigator", {});
  python = await startPython();
  const written = Object.assign(new MemoryFiles(), { durable: true });
  const first = new Shelf(written, python.shelf, async () => null);
  one = await keepRun(first, python, "one");
  other = await keepRun(first, python, "other", [10]);
  kept = (written as unknown as { held: typeof kept }).held;
});

const listed = () => library(shelf, AT_REST);
const titles = async () => (await listed()).runs.map(({ title }) => title).toSorted();
const path = (name: string) => `runs/${one}/${name}`;

async function bytesOf(name: string): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await (await files.read(path(name)))!.arrayBuffer());
}

async function flip(name: string, at: number): Promise<void> {
  const bytes = (await bytesOf(name)).slice();
  bytes[at]! ^= 255;
  await files.write(path(name), bytes);
}

async function reopened(): Promise<Reopened> {
  const found = await Keeper.reopened(shelf, one);
  if (!found.keeper) throw new Error("the run has no meta");
  return found;
}

async function stepOf(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  return (await ModelFile.open(bytes, python.file)).front.progress.step;
}

describe("a run that is whole", () => {
  it("is listed, and opened at its newest checkpoint with its log", async () => {
    expect(await titles()).toEqual(["one", "other"]);
    const [shown] = (await listed()).runs.filter(({ id }) => id === one);
    expect([shown!.step, shown!.stops.map(({ step }) => step)]).toEqual([30, [10, 30]]);
    const { bytes, lines, meta, lost } = await reopened();
    expect([await stepOf(bytes), lines.length, meta.text.name, lost]).toEqual([30, 6, "a text", ""]);
    expect(await shelf.text(meta.text.sha256)).toEqual(TEXT);
  });

  it("can be left at a snapshot, which is no loss", async () => {
    const { keeper, bytes, lines, lost } = await Keeper.forked(shelf, one, 10);
    expect([await stepOf(bytes), lines.length, lost]).toEqual([10, 2, ""]);
    expect(keeper.folder.id).not.toBe(one);
    await expect(Keeper.forked(shelf, one, 15)).rejects.toThrow("step 15 of this run cannot be read any more");
  });

  it("has two copies of its meta from the first write on, and after it was renamed", async () => {
    for (const slot of [0, 1])
      expect(JSON.parse(new TextDecoder().decode(await bytesOf(`meta.${slot}.json`)))).toMatchObject({ title: "one" });
    const folder = shelf.folder(one);
    await folder.putMeta({ ...(await folder.meta())!, title: "another name" });
    for (const slot of [0, 1]) {
      await files.write(path(`meta.${slot}.json`), garbage);
      expect(await titles()).toEqual(slot === 0 ? ["another name", "other"] : ["other"]);
    }
  });

  it("is deleted with its text, unless another run has that or may have it", async () => {
    const { sha256 } = (await shelf.folder(one).meta())!.text;
    await shelf.remove(one);
    expect(await shelf.text(sha256)).not.toBeNull();
    const third = await keepRun(shelf, python, "third", [10]);
    for (const slot of [0, 1]) await files.remove(`runs/${other}/meta.${slot}.json`);
    await shelf.remove(third);
    expect(await shelf.text(sha256)).not.toBeNull();
    await shelf.remove(other);
    expect(await shelf.text(sha256)).toBeNull();
  });
});

const NAMES = [
  "meta.0.json",
  "meta.1.json",
  "model.0.json",
  "model.1.json",
  "model.0.tinygpt",
  "model.1.tinygpt",
  "step-10.json",
  "step-10.tinygpt",
  "events.jsonl",
];
const DAMAGES: Record<string, (name: string) => Promise<void>> = {
  truncated: async (name) => files.write(path(name), (await bytesOf(name)).slice(0, -20)),
  emptied: async (name) => files.write(path(name), new Uint8Array()),
  "made garbage": async (name) => files.write(path(name), garbage),
  "made other JSON": async (name) => files.write(path(name), new TextEncoder().encode('{"sequence": 99}')),
  removed: async (name) => files.remove(path(name)),
};

describe.each(Object.keys(DAMAGES))("one file that was %s", (how) => {
  it.each(NAMES)("costs no run: %s", async (name) => {
    const before = (await files.names(`runs/${one}`)).length;
    await DAMAGES[how]!(name);
    expect(await titles()).toEqual(["one", "other"]);
    expect((await listed()).damaged).toEqual([]);
    expect(await files.names(`runs/${one}`)).toHaveLength(before - Number(how === "removed"));

    const { keeper, bytes, lines, lost } = await reopened();
    const at = await stepOf(bytes);
    expect(at).toBe(name === "model.0.tinygpt" || (name === "model.0.json" && how === "emptied") ? 20 : 30); // slot 0 has the newest
    if (name === "model.0.tinygpt") expect(lost).toContain("The checkpoint of step 30 is damaged: this is step 20.");
    if (name === "events.jsonl") expect(lost).toContain("Its log is damaged");
    expect(lines.every((line) => JSON.parse(line).event)).toBe(true);

    // It continues, and what it keeps next is what is found then.
    const found = await keeper.folder.found();
    const [slot, sequence] = JSON.parse(
      (python.shelf as unknown as { next_of(records: string): string }).next_of(JSON.stringify(found.records)),
    ) as [number, number];
    const record = { ...(await listed()).runs.find(({ id }) => id === one)!, sequence, step: 40 };
    keeper.begin(at, { title: "one", textName: "a text" }, TEXT, NO_PAST);
    keeper.note(40, JSON.stringify({ event: "eval", step: 40, val_loss: 3, best: true }));
    await keeper.keep({ slot, record, weights: null, snapshot: false, drop: [] }, bytes);
    const again = await reopened();
    expect([again.lost, again.lines.length]).toEqual(["", lines.length + 1]);
    for (const copy of [0, 1])
      expect(JSON.parse(new TextDecoder().decode(await bytesOf(`meta.${copy}.json`)))).toMatchObject({ title: "one" });
    expect((await listed()).runs.find(({ id }) => id === one)!.step).toBe(40);
  });
});

describe("a run of which more is damaged", () => {
  it("goes back to a snapshot where both checkpoints are gone, and the next checkpoint counts again", async () => {
    for (const slot of [0, 1]) await files.write(path(`model.${slot}.tinygpt`), garbage);
    const { keeper, bytes, lines, lost } = await reopened();
    expect([await stepOf(bytes), lines.length]).toEqual([10, 2]);
    expect(lost).toBe("The checkpoint of step 30 is damaged: this is step 10.");
    const { records } = await keeper.folder.found();
    expect(JSON.parse(python.shelf.order_of(JSON.stringify(records)))).toEqual([]);
  });

  it("goes back to the weights alone where the optimizer's part is damaged, if they are whole", async () => {
    for (const name of ["model.0", "model.1", "step-10"]) {
      const { length } = await bytesOf(`${name}.tinygpt`);
      await flip(`${name}.tinygpt`, length - 1); // the last tensor's last slot
    }
    const { bytes, lost } = await reopened();
    const { front } = await ModelFile.open(bytes, python.file);
    expect([front.progress.step, front.slots, front.progress.tokens_seen]).toEqual([30, [], 7]);
    expect(lost).toContain("The state of its optimizer is damaged");
    const whole = Float32Array.from({ length: 1 }, (_, at) => Math.sin(30 + at));
    expect((await ModelFile.open(bytes, python.file)).weights()[0]).toBe(whole[0]);
  });

  it("reads the weights of a file whose header is damaged", async () => {
    for (const name of ["model.0", "model.1", "step-10"]) await flip(`${name}.tinygpt`, 20);
    expect(await stepOf((await reopened()).bytes)).toBe(30);
  });

  it.each(["the last parameter", "a row of a table"])("never takes weights that are not whole: %s", async (flipped) => {
    for (const name of ["model.0", "model.1", "step-10"]) {
      const text = JSON.parse(new TextDecoder().decode(await bytesOf(`${name}.json`))) as object;
      const { pieces, bytes, tables, rows } = parse(python.shelf.salvage(JSON.stringify(text)))!;
      const end = tables!.bitmap + rows * (tables!.row + tables!.square);
      const at = flipped === "a row of a table" ? bytes + tables!.bitmap : pieces.at(-1)![0];
      await flip(`${name}.tinygpt`, (await bytesOf(`${name}.tinygpt`)).length - end - bytes + at);
    }
    await expect(reopened()).rejects.toThrow("no model of this run can be read any more; its files can be saved in the library");
    const { name, blob } = await exported([one], shelf);
    expect([name, blob.size > 1000]).toEqual([`tinygpt-damaged-${one}.zip`, true]);
  });

  it("opens a file that proves itself where every record is lost", async () => {
    for (const name of ["model.0", "model.1", "step-10"]) await files.write(path(`${name}.json`), garbage);
    const { runs, damaged } = await listed();
    expect([runs.length, damaged.length, damaged[0]!.title, damaged[0]!.model]).toEqual([1, 1, "one", true]);
    const { bytes, lines, lost } = await reopened();
    expect([await stepOf(bytes), lines.length, lost]).toEqual([30, 6, ""]);
  });

  it("is listed as damaged where both copies of its meta are lost, and its model can be opened and saved", async () => {
    for (const slot of [0, 1]) await files.write(path(`meta.${slot}.json`), garbage);
    const { runs, damaged } = await listed();
    expect(runs.map(({ title }) => title)).toEqual(["other"]);
    expect(damaged).toMatchObject([{ id: one, title: null, model: true }]);
    const { keeper, bytes } = await Keeper.reopened(shelf, one);
    expect([keeper, await stepOf(bytes)]).toEqual([null, 30]);
    const zip = new TextDecoder("latin1").decode(await (await exported([one], shelf)).blob.arrayBuffer());
    for (const name of ["rescued-step30.tinygpt", "files/model.1.tinygpt", "files/events.jsonl", "files/meta.0.json"])
      expect(zip).toContain(name);
  });

  it("keeps a log that cannot be read beside the new one", async () => {
    await files.write(path("events.jsonl"), garbage);
    const { keeper, bytes } = await reopened();
    keeper.begin(30, { title: "one", textName: "a text" }, TEXT, NO_PAST);
    keeper.note(40, '{"event":"eval","step":40,"val_loss":3,"best":true}');
    await keeper.keep({ slot: 1, record: { sequence: 9, step: 40 }, weights: null, snapshot: false, drop: [] }, bytes);
    expect(await bytesOf("events.damaged.jsonl")).toEqual(garbage);
    expect(new TextDecoder().decode(await bytesOf("events.jsonl"))).toBe('{"event":"eval","step":40,"val_loss":3,"best":true}\n');
  });

  it("hides no other run when even its folder cannot be read", async () => {
    const names = files.names.bind(files);
    files.names = async (folder) => {
      if (folder === `runs/${one}`) throw new DOMException("it is a file", "TypeMismatchError");
      return names(folder);
    };
    expect(await titles()).toEqual(["other"]);
    expect((await listed()).damaged).toMatchObject([{ id: one, model: false, bytes: 0 }]);
  });
});

it("a run whose first checkpoint was torn is neither deleted nor shown while it is under way", async () => {
  const begun = Keeper.fresh(shelf);
  begun.begin(0, { title: "begun", textName: "a text" }, TEXT, NO_PAST);
  const torn = begun.keep({ slot: 0, record: { sequence: 1, step: 5 }, weights: null, snapshot: false, drop: [] }, new Uint8Array(9));
  await torn;
  await files.write(`runs/${begun.folder.id}/model.0.json`, new Uint8Array());
  expect((await library(shelf, { run: begun.folder.id, training: true })).damaged).toEqual([]);
  expect((await listed()).damaged).toMatchObject([{ title: "begun" }]);
  expect(await shelf.ids()).toHaveLength(3);
});

it("a bundled model says which text it learnt from, and a run's file here does not", async () => {
  const bundled = readFileSync(`${import.meta.dirname}/../../tinygpt/store/bundled/models/moby-dick.tinygpt`);
  const { front } = await ModelFile.open(new Uint8Array(bundled), python.file);
  expect(front.learnt).toEqual({ name: "moby-dick", sha256: site.corpora.find(({ name }) => name === "moby-dick")!.sha256 });
  expect((await ModelFile.open((await reopened()).bytes, python.file)).front.learnt).toBeNull();
});
