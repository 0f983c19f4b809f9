// Where the model is that adapters stand on: in hand, kept in this browser, or one of ours.
import { fileOf, siteModels } from "../lib/models.ts";
import type { Shelf } from "../storage/shelf.ts";
import { baseOf, type Standing } from "./adapters.ts";
import type { Front, RunConfig } from "../generated/protocol.ts";
import { ModelFile, type Reader } from "./modelfile.ts";
import type { SavedFile } from "./protocol.ts";

/** What a file's adapters stand on, or the file's own model, for others to stand on. */
export async function standing(file: Pick<SavedFile, "bytes" | "base">, title: string, reader: Reader): Promise<Standing> {
  const { base } = file;
  return baseOf(await ModelFile.open(base?.bytes ?? file.bytes, reader), base?.title ?? title, reader);
}

/** `inHand`: what is looked at first, if anything is. */
export async function findBase({ adapter, config }: Front, inHand: Standing | null, shelf: Shelf, reader: Reader): Promise<Standing> {
  const { name, baseSha256 } = adapter!;
  if (inHand?.sha256 === baseSha256) return inHand;
  const found =
    (await keptBase(baseSha256, shelf, reader)) ??
    (await runLike(baseSha256, config, shelf, reader)) ??
    (await ourModel(baseSha256, reader));
  if (found) return found;
  const which = `the sha256 of its weights begins with ${baseSha256.slice(0, 12)}`;
  throw new Error(`the adapter '${name}' stands on a model that is not here (${which}); open that model first, then this file again`);
}

async function keptBase(sha256: string, shelf: Shelf, reader: Reader): Promise<Standing | null> {
  const bytes = await shelf.base(sha256);
  if (!bytes) return null;
  const title = await shelf.baseTitle(sha256);
  return baseOf(await ModelFile.open(bytes, reader), title, reader);
}

/** A run of the library that has these weights. */
async function runLike(sha256: string, wanted: RunConfig, shelf: Shelf, reader: Reader): Promise<Standing | null> {
  const like = (other: RunConfig): boolean =>
    !other.lora && Object.keys(wanted.model).every((name) => other.model[name] === wanted.model[name]);
  for (const { id, title, config } of await shelf.facts()) {
    const model = like(config) ? await shelf.folder(id).model() : null;
    if (!model) continue;
    const found = await baseOf(await ModelFile.open(model.bytes, reader), title, reader);
    if (found.sha256 === sha256) return found;
  }
  return null;
}

async function ourModel(sha256: string, reader: Reader): Promise<Standing | null> {
  const ours = (await siteModels()).find((model) => model.weightsSha256 === sha256);
  if (!ours) return null;
  const { name, arrayBuffer } = fileOf(ours);
  return baseOf(await ModelFile.open(new Uint8Array(await arrayBuffer()), reader), name, reader);
}
