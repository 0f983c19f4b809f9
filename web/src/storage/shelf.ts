// Runs in the browser's storage. What is written when and read in which order is decided by core/tab/shelf.py, which says
// what a run's folder holds; here bytes are moved.
import type { Files } from "./files.ts";
import { Locks } from "./locks.ts";

/** core/tab/shelf.py: each text is JSON. */
export interface Decisions {
  order_of(records: string): string;
  next_of(records: string): string;
  facts(request: string): string;
  differences(configs: string): string;
}

/** What Python wants kept: the rest of the record is for the library. */
export interface KeepOrder {
  slot: number;
  record: { sequence: number; step: number };
  header: object;
  snapshot: boolean;
  drop: number[];
}

/** What a run is called, and what it learns from. */
export interface Meta {
  title: string;
  created: string; // ISO 8601
  text: { sha256: string; bytes: number; name: string };
  forked: { run: string; title: string; step: number } | null;
  base?: { title: string; sha256: string }; // of adapters
}

interface Sealed {
  step: number;
  length: number;
  sha256: string;
  events: number; // bytes
}

const SLOTS = [0, 1];
const encoder = new TextEncoder();
const json = (value: unknown): Uint8Array<ArrayBuffer> => encoder.encode(JSON.stringify(value));

export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const made = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(made, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A run's folder. Whoever writes to it holds its lock. */
export class Folder {
  readonly id: string;
  private readonly files: Files;
  private readonly decisions: Decisions;
  private readonly path: string;

  constructor(id: string, files: Files, decisions: Decisions) {
    this.id = id;
    this.files = files;
    this.decisions = decisions;
    this.path = `runs/${id}`;
  }

  private async texts(names: string[]): Promise<(string | null)[]> {
    return Promise.all(names.map(async (name) => (await this.files.read(`${this.path}/${name}`))?.text() ?? null));
  }

  private records(): Promise<(string | null)[]> {
    return this.texts(SLOTS.map((slot) => `model.${slot}.json`));
  }

  private metas(): Promise<(string | null)[]> {
    return this.texts(SLOTS.map((slot) => `meta.${slot}.json`));
  }

  private newest(texts: (string | null)[]): number[] {
    return JSON.parse(this.decisions.order_of(JSON.stringify(texts))) as number[];
  }

  /** What core/tab/shelf.py's Keeping has to know. */
  async found(): Promise<{ records: (string | null)[]; snapshots: (string | null)[]; durable: boolean }> {
    const names = await this.files.names(this.path);
    const snapshots = await this.texts(names.filter((name) => /^step-\d+\.json$/.test(name)));
    return { records: await this.records(), snapshots, durable: this.files.durable };
  }

  /** What the library shows; null: there is nothing to go on from. */
  async facts<Facts>(): Promise<Facts | null> {
    let bytes = 0;
    for (const name of await this.files.names(this.path)) bytes += (await this.files.read(`${this.path}/${name}`))?.size ?? 0;
    const asked = { id: this.id, meta: await this.metas(), bytes, ...(await this.found()) };
    return JSON.parse(this.decisions.facts(JSON.stringify(asked))) as Facts | null;
  }

  async meta(): Promise<Meta | null> {
    const texts = await this.metas();
    const [slot] = this.newest(texts);
    return slot === undefined ? null : (JSON.parse(texts[slot]!) as Meta);
  }

  async putMeta(meta: Meta): Promise<void> {
    const texts = await this.metas();
    const [slot, sequence] = JSON.parse(this.decisions.next_of(JSON.stringify(texts))) as [number, number];
    await this.files.write(`${this.path}/meta.${slot}.json`, json({ ...meta, sequence }));
  }

  /** The newest checkpoint that is whole, or the one of that step. */
  async model(snapshot?: number): Promise<{ bytes: Uint8Array<ArrayBuffer>; record: Sealed } | null> {
    const slots = this.newest(await this.records()).map((slot) => `model.${slot}`);
    const bases = snapshot === undefined ? slots : [`step-${snapshot}`, ...slots];
    for (const base of bases) {
      const found = await this.unsealed(base);
      if (found && (snapshot === undefined || found.record.step === snapshot)) return found;
    }
    return null;
  }

  private async unsealed(base: string): Promise<{ bytes: Uint8Array<ArrayBuffer>; record: Sealed } | null> {
    const [text] = await this.texts([`${base}.json`]);
    const file = await this.files.read(`${this.path}/${base}.tinygpt`);
    if (!text || !file) return null;
    const record = JSON.parse(text) as Sealed;
    const bytes = new Uint8Array(await file.arrayBuffer());
    return bytes.length === record.length && (await digest(bytes)) === record.sha256 ? { bytes, record } : null;
  }

  private async seal(base: string, bytes: Uint8Array<ArrayBuffer>, record: object): Promise<void> {
    await this.files.write(`${this.path}/${base}.json`, new Uint8Array());
    await this.files.write(`${this.path}/${base}.tinygpt`, bytes);
    await this.files.write(`${this.path}/${base}.json`, json(record));
  }

  private async drop(step: number): Promise<void> {
    for (const end of ["json", "tinygpt"]) await this.files.remove(`${this.path}/step-${step}.${end}`);
  }

  /** A checkpoint, whose events end at so many bytes; the record is written last. */
  async keep({ slot, record, snapshot, drop }: KeepOrder, bytes: Uint8Array<ArrayBuffer>, events: number): Promise<void> {
    const sealed = { ...record, savedAt: new Date().toISOString(), length: bytes.length, sha256: await digest(bytes), events };
    await this.seal(`model.${slot}`, bytes, sealed);
    for (const step of drop) await this.drop(step);
    if (snapshot) await this.seal(`step-${record.step}`, bytes, sealed).catch(() => this.drop(record.step)); // it can be done without
  }

  async events(length: number): Promise<Uint8Array<ArrayBuffer>> {
    const file = await this.files.read(`${this.path}/events.jsonl`);
    return new Uint8Array((await file?.slice(0, length).arrayBuffer()) ?? []);
  }

  async putEvents(bytes: Uint8Array<ArrayBuffer>, at: number): Promise<void> {
    await this.files.write(`${this.path}/events.jsonl`, bytes, at);
  }

  async remove(): Promise<void> {
    await this.files.remove(this.path);
  }
}

export class Shelf {
  readonly files: Files;
  readonly locks = new Locks();
  private readonly decisions: Decisions;

  constructor(files: Files, decisions: Decisions) {
    this.files = files;
    this.decisions = decisions;
  }

  folder(id: string): Folder {
    return new Folder(id, this.files, this.decisions);
  }

  /** The folder, to write to. */
  async hold(id: string): Promise<Folder> {
    if (!(await this.locks.take(id))) throw new Error("this run is open in another tab; go on there, or close that tab first");
    return this.folder(id);
  }

  ids(): Promise<string[]> {
    return this.files.names("runs");
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

  private async metas(): Promise<(Meta | null)[]> {
    return Promise.all((await this.ids()).map((id) => this.folder(id).meta()));
  }

  /** A run, and what no other run learns from or stands on. */
  async remove(id: string): Promise<void> {
    const folder = await this.hold(id);
    await this.locks.alone(async () => {
      await folder.remove();
      const metas = await this.metas();
      await this.keepOnly("texts", metas.map((meta) => meta?.text.sha256));
      await this.keepOnly("bases", metas.map((meta) => meta?.base?.sha256));
    });
    this.locks.release(id);
  }

  private async keepOnly(folder: string, used: (string | undefined)[]): Promise<void> {
    for (const sha256 of await this.files.names(folder)) if (!used.includes(sha256)) await this.files.remove(`${folder}/${sha256}`);
  }

  differences(configs: unknown[]): [label: string, values: (number | string)[]][] {
    return JSON.parse(this.decisions.differences(JSON.stringify(configs))) as [string, (number | string)[]][];
  }
}
