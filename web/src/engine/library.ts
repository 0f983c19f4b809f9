// The library's side of the worker: what is on the shelf, as the page shows it and as files.
import { downloadZip } from "client-zip";
import type { Reopened } from "../storage/keeper.ts";
import type { Meta, Shelf } from "../storage/shelf.ts";
import { capsuleOf } from "./capsules.ts";
import { ModelFile, type Reader } from "./modelfile.ts";
import type { CheckedFile, CoreEvent, Library, Shelved, ToWorker } from "./protocol.ts";
import { lastLine, type Python } from "./python.ts";
import { say } from "./run.ts";
import { travel } from "./travel.ts";

export type ToLibrary = Extract<ToWorker, { type: "library" | "rename" | "delete" | "compare" | "export" | "travel" | "share" }>;

/** The run of the model in hand, if it is one's, and whether it is under way. */
interface InHand {
  run: string | null;
  training: boolean;
}

/** Does what the page asks of the library, also while a run is under way; what goes wrong is said and ends nothing. */
export class Librarian {
  private readonly shelf: Shelf;
  private readonly python: Python;

  constructor(shelf: Shelf, python: Python) {
    this.shelf = shelf;
    this.python = python;
  }

  async serve(message: ToLibrary, inHand: InHand): Promise<void> {
    try {
      await this.answer(message, inHand);
    } catch (error) {
      say({ type: "unshelved", message: lastLine(error) });
    }
  }

  private async answer(message: ToLibrary, inHand: InHand): Promise<void> {
    const { shelf } = this;
    switch (message.type) {
      case "compare":
        say({ type: "compared", differences: await differences(message.runs, shelf) });
        return;
      case "export":
        say({ type: "exported", ...(await exported(message.runs, shelf)) });
        return;
      case "share":
        say({ type: "exported", ...(await capsuleOf(message.run, shelf, this.python)) });
        return;
      case "travel":
        if (inHand.training) throw new Error("a run is under way; stop it first");
        await travel(message, shelf, this.python);
        return;
      case "rename":
        await rename(message.run, message.title, shelf, inHand);
        break;
      case "delete":
        if (inHand.training && inHand.run === message.run) throw new Error("this run is under way; stop it first");
        await shelf.remove(message.run);
        break;
    }
    say({ type: "library", ...(await library(shelf)) });
  }
}

async function rename(id: string, title: string, shelf: Shelf, inHand: InHand): Promise<void> {
  const folder = await shelf.hold(id);
  const meta = await folder.meta();
  if (meta) await folder.putMeta({ ...meta, title });
  if (inHand.run !== id) shelf.locks.release(id);
}

async function differences(ids: string[], shelf: Shelf): Promise<[label: string, values: (number | string)[]][]> {
  const found = await Promise.all(ids.map((id) => shelf.folder(id).facts<Shelved>()));
  return shelf.differences(found.map((facts) => facts?.config ?? { model: {}, train: {} }));
}

async function library(shelf: Shelf): Promise<Library> {
  const ids = await shelf.ids();
  const elsewhere = await shelf.locks.elsewhere(ids);
  const runs: Shelved[] = [];
  for (const id of ids) {
    const facts = await shelf.folder(id).facts<Omit<Shelved, "elsewhere">>();
    if (facts) runs.push({ ...facts, elsewhere: elsewhere.has(id) });
    else if (!elsewhere.has(id) && !shelf.locks.has(id)) await shelf.remove(id); // what a tab left that died before its first checkpoint
  }
  runs.sort((a, b) => (a.savedAt < b.savedAt ? 1 : -1));
  const { usage, quota } = (await navigator.storage?.estimate?.()) ?? {};
  return { durable: shelf.files.durable, runs, used: usage ?? null, available: quota ?? null };
}

/** A run's model with all that is known of it, for the page. */
export async function checkedRun({ keeper, bytes, lines, meta, base }: Reopened, reader: Reader): Promise<CheckedFile> {
  const { config, parameters, progress, leftOut } = (await ModelFile.open(bytes, reader)).front;
  const { step, loss, history, sample } = progress;
  const kept = {
    run: keeper.folder.id,
    title: meta.title,
    text: meta.text,
    events: lines.map((line) => JSON.parse(line) as CoreEvent),
  };
  const file = { bytes, name: fileName(meta, step), step, ...(base ? { base } : {}) };
  return { file, config, parameters, loss, history, sample, leftOut, kept };
}

function fileName({ title, base }: Meta, step: number): string {
  return `${title.replace(/[^\p{L}\p{N}. _-]+/gu, "-").slice(0, 60) || "run"}-step${step}.${base ? "safetensors" : "tinygpt"}`;
}

/** One run as a model file, or several as a zip: their models, events, texts, and what adapters stand on. */
async function exported(ids: string[], shelf: Shelf): Promise<{ name: string; blob: Blob }> {
  const files: { name: string; input: Blob | Uint8Array<ArrayBuffer> }[] = [];
  const [texts, bases] = [new Set<string>(), new Set<string>()];
  for (const id of ids) {
    const folder = shelf.folder(id);
    const [model, meta] = [await folder.model(), await folder.meta()];
    if (!model || !meta) continue;
    const name = fileName(meta, model.record.step);
    if (ids.length === 1) return { name, blob: new Blob([model.bytes], { type: "application/octet-stream" }) };
    files.push({ name: `${id}/${name}`, input: new Blob([model.bytes]) });
    files.push({ name: `${id}/run.json`, input: new Blob([JSON.stringify(meta)]) });
    files.push({ name: `${id}/events.jsonl`, input: new Blob([await folder.events(model.record.events)]) });
    texts.add(meta.text.sha256);
    if (meta.base) bases.add(meta.base.sha256);
  }
  if (files.length === 0) throw new Error("there is nothing to export");
  for (const sha256 of texts) {
    const text = await shelf.text(sha256);
    if (text) files.push({ name: `texts/${sha256}.txt`, input: new Blob([text]) });
  }
  for (const sha256 of bases) {
    const base = await shelf.base(sha256);
    if (base) files.push({ name: `bases/${sha256}.tinygpt`, input: new Blob([base]) });
  }
  return { name: "tinygpt-library.zip", blob: await downloadZip(files).blob() };
}
