// The library's side of the worker: what is on the shelf, as the page shows it and as files.
import { safeName } from "../lib/bytes.ts";
import { downloadZip } from "client-zip";
import type { Reopened } from "../storage/keeper.ts";
import type { Folder, Stored } from "../storage/folder.ts";
import type { Shelf } from "../storage/shelf.ts";
import { type CoreEvent, type Difference, type Json, type Meta, parse } from "../generated/protocol.ts";
import { ModelFile, type Reader } from "./modelfile.ts";
import type { CheckedFile, Damaged, Library, Shelved } from "./protocol.ts";
import { lastLine } from "./answers.ts";

/** The run of the model in hand, if it is one's, and whether it is under way. */
export interface InHand {
  run: string | null;
  training: boolean;
}

export async function rename(id: string, title: string, shelf: Shelf, inHand: InHand): Promise<void> {
  const folder = await shelf.hold(id);
  const meta = await folder.meta();
  if (meta) await folder.putMeta({ ...meta, title });
  if (inHand.run !== id) shelf.locks.release(id);
}

export async function differences(ids: string[], shelf: Shelf): Promise<Difference[]> {
  const found = await Promise.all(ids.map((id) => shelf.folder(id).facts()));
  return shelf.differences(found.map((facts) => facts?.config ?? { model: {}, train: {} }));
}

/** Each run is read on its own. Nothing is deleted: what cannot be read is listed as damaged. */
export async function library(shelf: Shelf, inHand: InHand): Promise<Library> {
  const ids = await shelf.ids();
  const elsewhere = await shelf.locks.elsewhere(ids);
  const runs: Shelved[] = [];
  const damaged: Damaged[] = [];
  for (const id of ids) {
    const folder = shelf.folder(id);
    const facts = await folder.facts().catch(() => null);
    if (facts) runs.push({ ...facts, elsewhere: elsewhere.has(id) });
    else if (elsewhere.has(id) || (inHand.training && inHand.run === id))
      continue; // its first checkpoint is being written
    else damaged.push({ id, ...(await folder.damage().catch(unreadable)) });
  }
  runs.sort((a, b) => (a.savedAt < b.savedAt ? 1 : -1));
  const { usage, quota } = (await navigator.storage?.estimate?.()) ?? {};
  return { durable: shelf.files.durable, runs, damaged, used: usage ?? null, available: quota ?? null };
}

function unreadable(error: unknown): Omit<Damaged, "id"> {
  return { title: null, text: `The browser cannot read its folder (${lastLine(error)}).`, model: false, bytes: 0 };
}

/** A run's model with all that is known of it, for the page. */
export async function checkedRun({ keeper, bytes, lines, meta, base, lost }: Reopened, reader: Reader): Promise<CheckedFile> {
  const { config, parameters, progress } = (await ModelFile.open(bytes, reader)).front;
  const { step, loss, history, sample } = progress;
  const kept = {
    run: keeper.folder.id,
    title: meta.title,
    text: meta.text,
    events: lines.map((line) => parse(line as Json<CoreEvent>)),
  };
  const file = { bytes, name: fileName(meta, step), step, ...(base ? { base } : {}) };
  return { file, config, parameters, loss, history, sample, learnt: meta.text, leftOut: lost, kept };
}

function fileName({ title, base }: Meta, step: number): string {
  return `${safeName(title)}-step${step}.${base ? "safetensors" : "tinygpt"}`;
}

type ZipEntry = { name: string; input: Blob | Uint8Array<ArrayBuffer> };

/** One run as a model file, or several as a zip: their models, events, texts, and what adapters stand on. A damaged run
 *  is a zip with all of its files as they are, and a model of it if there is one that is whole. */
export async function exported(ids: string[], shelf: Shelf): Promise<{ name: string; blob: Blob }> {
  const files: ZipEntry[] = [];
  const [texts, bases] = [new Set<string>(), new Set<string>()];
  for (const id of ids) {
    const folder = shelf.folder(id);
    const [model, meta] = [await folder.model().catch(() => null), await folder.meta().catch(() => null)];
    if (!model || !meta) {
      files.push(...(await remains(folder, model)));
      continue;
    }
    const name = fileName(meta, model.record.step);
    if (ids.length === 1) return { name, blob: new Blob([model.bytes], { type: "application/octet-stream" }) };
    const { lines } = await folder.log(model.record);
    files.push({ name: `${id}/${name}`, input: new Blob([model.bytes]) });
    files.push({ name: `${id}/run.json`, input: new Blob([JSON.stringify(meta)]) });
    files.push({ name: `${id}/events.jsonl`, input: new Blob(lines.map((line) => `${line}\n`)) });
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
  return { name: ids.length === 1 ? `tinygpt-damaged-${ids[0]}.zip` : "tinygpt-library.zip", blob: await downloadZip(files).blob() };
}

async function remains(folder: Folder, model: Stored | null): Promise<ZipEntry[]> {
  const whole = model ? [{ name: `${folder.id}/rescued-step${model.record.step}.tinygpt`, input: new Blob([model.bytes]) }] : [];
  const all = await folder.contents().catch(() => []);
  return [...whole, ...all.map(({ name, blob }) => ({ name: `${folder.id}/files/${name}`, input: blob }))];
}
