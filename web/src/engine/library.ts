// The library's side of the worker: what is on the shelf, as the page shows it and as files.
import { downloadZip } from "client-zip";
import type { Reopened } from "../storage/keeper.ts";
import type { Shelf } from "../storage/shelf.ts";
import { ModelFile, type Reader } from "./modelfile.ts";
import type { CheckedFile, CoreEvent, Library, Shelved } from "./protocol.ts";

export async function library(shelf: Shelf): Promise<Library> {
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
export async function checkedRun({ keeper, bytes, lines, meta }: Reopened, reader: Reader): Promise<CheckedFile> {
  const { config, parameters, progress, leftOut } = (await ModelFile.open(bytes, reader)).front;
  const { step, loss, history, sample } = progress;
  const kept = {
    run: keeper.folder.id,
    title: meta.title,
    text: meta.text,
    events: lines.map((line) => JSON.parse(line) as CoreEvent),
  };
  return { file: { bytes, name: fileName(meta.title, step), step }, config, parameters, loss, history, sample, leftOut, kept };
}

function fileName(title: string, step: number): string {
  return `${title.replace(/[^\p{L}\p{N}. _-]+/gu, "-").slice(0, 60) || "run"}-step${step}.tinygpt`;
}

/** One run as a model file, or several as a zip: their models, events and texts. */
export async function exported(ids: string[], shelf: Shelf): Promise<{ name: string; blob: Blob }> {
  const files: { name: string; input: Blob | Uint8Array<ArrayBuffer> }[] = [];
  const texts = new Set<string>();
  for (const id of ids) {
    const folder = shelf.folder(id);
    const [model, meta] = [await folder.model(), await folder.meta()];
    if (!model || !meta) continue;
    const name = fileName(meta.title, model.record.step);
    if (ids.length === 1) return { name, blob: new Blob([model.bytes], { type: "application/octet-stream" }) };
    files.push({ name: `${id}/${name}`, input: new Blob([model.bytes]) });
    files.push({ name: `${id}/run.json`, input: new Blob([JSON.stringify(meta)]) });
    files.push({ name: `${id}/events.jsonl`, input: new Blob([await folder.events(model.record.events)]) });
    texts.add(meta.text.sha256);
  }
  if (files.length === 0) throw new Error("there is nothing to export");
  for (const sha256 of texts) {
    const text = await shelf.text(sha256);
    if (text) files.push({ name: `texts/${sha256}.txt`, input: new Blob([text]) });
  }
  return { name: "tinygpt-library.zip", blob: await downloadZip(files).blob() };
}
