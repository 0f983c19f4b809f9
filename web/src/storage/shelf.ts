// All runs in the browser's storage, with the texts that they learn from and the models that adapters stand on.
import { parse, text } from "../generated/protocol.ts";
import type { Difference, Meta, RunConfig, ShelfModule, ShelvedRun } from "../generated/protocol.ts";
import { digest } from "../lib/bytes.ts";
import type { Files } from "./files.ts";
import { Folder, type Proof } from "./folder.ts";
import { Locks } from "./locks.ts";

export class Shelf {
  readonly files: Files;
  readonly locks = new Locks();
  private readonly decisions: ShelfModule;
  private readonly proof: Proof;

  constructor(files: Files, decisions: ShelfModule, proof: Proof) {
    this.files = files;
    this.decisions = decisions;
    this.proof = proof;
  }

  folder(id: string): Folder {
    return new Folder(id, this.files, this.decisions, this.proof);
  }

  /** The folder, to write to. */
  async hold(id: string): Promise<Folder> {
    if (!(await this.locks.take(id))) throw new Error("this run is open in another tab; go on there, or close that tab first");
    return this.folder(id);
  }

  ids(): Promise<string[]> {
    return this.files.names("runs");
  }

  /** What can be shown of each run. */
  async facts(): Promise<ShelvedRun[]> {
    const found = await this.each((folder) => folder.facts());
    return found.filter((run) => run !== null);
  }

  /** Stored once, whichever runs learn from it. */
  async putText(text: Uint8Array<ArrayBuffer>): Promise<string> {
    const sha256 = await digest(text);
    if (!(await this.text(sha256))) await this.files.write(`texts/${sha256}`, text);
    return sha256;
  }

  async text(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const file = await this.files.read(`texts/${sha256}`);
    const bytes = file && new Uint8Array(await file.arrayBuffer());
    return bytes && (await digest(bytes)) === sha256 ? bytes : null;
  }

  /** What adapters stand on: a model's file, under the sha256 of its weights, whichever runs have it. */
  async putBase(sha256: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (!(await this.files.read(`bases/${sha256}`))) await this.files.write(`bases/${sha256}`, bytes);
  }

  async base(sha256: string): Promise<Uint8Array<ArrayBuffer> | null> {
    const file = await this.files.read(`bases/${sha256}`);
    return file && new Uint8Array(await file.arrayBuffer());
  }

  /** What runs call it. */
  async baseTitle(sha256: string): Promise<string> {
    const metas = await this.metas();
    return metas.find((meta) => meta?.base?.sha256 === sha256)?.base?.title ?? sha256.slice(0, 12);
  }

  private metas(): Promise<(Meta | null)[]> {
    return this.each((folder) => folder.meta());
  }

  /** Null of a run that cannot be read. */
  private async each<T>(read: (folder: Folder) => Promise<T | null>): Promise<(T | null)[]> {
    return Promise.all((await this.ids()).map((id) => read(this.folder(id)).catch(() => null)));
  }

  /** A run, and what no other run learns from or stands on. Where one does not tell, it may be any of them. */
  async remove(id: string): Promise<void> {
    const folder = await this.hold(id);
    await this.locks.alone(async () => {
      await folder.remove();
      const metas = await this.metas();
      if (metas.includes(null)) return;
      const texts = metas.map((meta) => meta?.text.sha256);
      const bases = metas.map((meta) => meta?.base?.sha256);
      await this.keepOnly("texts", texts);
      await this.keepOnly("bases", bases);
    });
    this.locks.release(id);
  }

  private async keepOnly(folder: string, used: (string | undefined)[]): Promise<void> {
    for (const sha256 of await this.files.names(folder)) if (!used.includes(sha256)) await this.files.remove(`${folder}/${sha256}`);
  }

  differences(configs: RunConfig[]): Difference[] {
    return parse(this.decisions.differences(text(configs)));
  }
}
