// A run in the browser's storage. What is written when and read in which order is decided by core/tab/shelf.py, which says
// what a run's folder holds; here bytes are moved.
import { parse, text } from "../generated/protocol.ts";
import type { Damage, Found, FolderRequest, Json, KeepOrder, Meta, RecoveredRequest } from "../generated/protocol.ts";
import type { ShelfModule, ShelvedRun } from "../generated/protocol.ts";
import { digest } from "../lib/bytes.ts";
import { writeState } from "../worker/modelfile.ts";
import type { Files } from "./files.ts";
import { rowsIn, weightsIn } from "./weights.ts";

/** A checkpoint that is to be written, as a file. */
export type Order = Omit<KeepOrder, "header" | "record"> & { record: Pick<KeepOrder["record"], "sequence" | "step"> };

/** The step of a model file whose own digest proves it whole; null of any other. */
export type Proof = (file: Bytes) => Promise<number | null>;

type Bytes = Uint8Array<ArrayBuffer>;

interface Sealed {
  step: number;
  length: number;
  sha256: string;
  events: number; // bytes
}

/** A model that could be read, and how. */
export interface Stored {
  bytes: Bytes;
  record: Pick<Sealed, "step" | "events">; // Infinity: how much of the log is its own is not known
  kind: RecoveredRequest["kind"];
  newest: number | null; // the step of the newest checkpoint that there was, where that is known and was asked for
}

/** The lines of a run's log up to a step; `end`: where the next one goes, null where some of them cannot be read. */
export interface Log {
  lines: string[];
  end: number | null;
}

const SLOTS = [0, 1];
const EVENTS = "events.jsonl";
const EVENTS_DAMAGED = "events.damaged.jsonl";
const encoder = new TextEncoder();
const json = (value: unknown): Uint8Array<ArrayBuffer> => encoder.encode(JSON.stringify(value));

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether a line of a log says what the page can show. */
function isEvent(line: string, step: number): boolean {
  const event = parsed(line) as { event?: unknown; step?: unknown; rows?: unknown } | null | undefined;
  if (typeof event?.event !== "string") return false;
  if (event.event !== "steps") return typeof event.step === "number" && event.step <= step;
  const whole = (row: unknown): boolean => Array.isArray(row) && typeof row[0] === "number" && typeof row[1] === "number";
  return Array.isArray(event.rows) && event.rows.length > 0 && event.rows.every(whole) && (event.rows as number[][]).at(-1)![0]! <= step;
}

/** A run's folder. Whoever writes to it holds its lock. */
export class Folder {
  readonly id: string;
  private readonly files: Files;
  private readonly decisions: ShelfModule;
  private readonly proof: Proof;
  private readonly path: string;
  private readonly damagedFiles = new Set<string>(); // those whose record is whole

  constructor(id: string, files: Files, decisions: ShelfModule, proof: Proof) {
    this.id = id;
    this.files = files;
    this.decisions = decisions;
    this.proof = proof;
    this.path = `runs/${id}`;
  }

  /** All of its files, as they are; one that the browser cannot read is left out. */
  async contents(): Promise<{ name: string; blob: Blob }[]> {
    const found: { name: string; blob: Blob }[] = [];
    for (const name of await this.files.names(this.path)) {
      const blob = await this.blob(name);
      if (blob) found.push({ name, blob });
    }
    return found;
  }

  /** Null, too, where the browser cannot read it. */
  private async blob(name: string): Promise<Blob | null> {
    return this.files.read(`${this.path}/${name}`).catch(() => null);
  }

  /** Of files that are JSON; MicroPython would also take what is not. */
  private async texts(names: string[]): Promise<(string | null)[]> {
    return Promise.all(
      names.map(async (name) => {
        const text = (await (await this.blob(name))?.text().catch(() => null)) ?? null;
        return text && parsed(text) === undefined ? "" : text;
      }),
    );
  }

  private records(): Promise<(string | null)[]> {
    return this.texts(SLOTS.map((slot) => `model.${slot}.json`));
  }

  private metas(): Promise<(string | null)[]> {
    return this.texts(SLOTS.map((slot) => `meta.${slot}.json`));
  }

  private newest(texts: (string | null)[]): number[] {
    return parse(this.decisions.order_of(text(texts)));
  }

  /** What core/tab/shelf.py's Keeping has to know. */
  async found(): Promise<Found> {
    const names = await this.files.names(this.path);
    const snapshots = await this.texts(names.filter((name) => /^step-\d+\.json$/.test(name)));
    const records = (await this.records()).map((text, slot) => (text && this.damagedFiles.has(`model.${slot}`) ? marked(text) : text));
    return { records, snapshots, durable: this.files.durable };
  }

  private async request(): Promise<FolderRequest> {
    const contents = await this.contents();
    const bytes = contents.reduce((sum, { blob }) => sum + blob.size, 0);
    const files = contents.filter(({ blob }) => blob.size > 0).map(({ name }) => name);
    return { id: this.id, meta: await this.metas(), bytes, files, ...(await this.found()) };
  }

  /** What the library shows; null: it is damaged. */
  async facts(): Promise<ShelvedRun | null> {
    return parse(this.decisions.facts(text(await this.request())));
  }

  /** What the library says of a run that has no facts. */
  async damage(): Promise<Damage & { bytes: number }> {
    const request = await this.request();
    return { ...parse(this.decisions.damage(text(request))), bytes: request.bytes };
  }

  async meta(): Promise<Meta | null> {
    const texts = await this.metas();
    const slot = parse(this.decisions.meta_of(text(texts)));
    return slot === null ? null : parse(texts[slot] as Json<Meta>);
  }

  /** Where one copy of a meta is damaged there are two again. */
  async mendMeta(meta: Meta): Promise<void> {
    const whole = (meta: string | null): boolean => parse(this.decisions.meta_of(text([meta]))) !== null;
    if (!(await this.metas()).every(whole)) await this.putMeta(meta);
  }

  async putMeta(meta: Meta): Promise<void> {
    const texts = await this.metas();
    const [slots, sequence] = parse(this.decisions.copies_of(text(texts)));
    for (const slot of slots) await this.files.write(`${this.path}/meta.${slot}.json`, json({ ...meta, sequence }));
  }

  /** The newest checkpoint that is whole, or what else there is of the run; or the checkpoint or snapshot of that step. */
  async model(snapshot?: number): Promise<Stored | null> {
    const texts = await this.records();
    const slots = this.newest(texts).map((slot) => `model.${slot}`);
    if (snapshot === undefined) return this.best(slots, texts);
    for (const base of [`step-${snapshot}`, ...slots]) {
      const found = await this.unsealed(base);
      if (found?.record.step === snapshot) return { ...found, newest: null };
    }
    return null;
  }

  /** Slots, then snapshots, then weights alone. */
  private async best(slots: string[], texts: (string | null)[]): Promise<Stored | null> {
    const newest = slots.length ? (await this.recordOf(slots[0]!))!.step : null;
    const checkpoints: Omit<Stored, "newest">[] = [];
    for (const base of slots) {
      const found = (await this.unsealed(base)) ?? (await this.proven(base));
      if (found) checkpoints.push(found);
      if (found) break;
    }
    // A record is emptied before its file is written: only one that is not empty, or gone, is a fault.
    for (const slot of SLOTS) {
      const torn = slots.includes(`model.${slot}`) || (texts[slot] === "" && (await this.blob(`model.${slot}.json`))?.size === 0);
      const found = torn ? null : await this.proven(`model.${slot}`);
      if (found) checkpoints.push(found);
    }
    checkpoints.sort((a, b) => b.record.step - a.record.step);
    if (checkpoints.length) return { ...checkpoints[0]!, newest };
    const snapshots = await this.snapshots();
    for (const base of snapshots) {
      const found = (await this.unsealed(base)) ?? (await this.proven(base));
      if (found) return { ...found, newest };
    }
    for (const base of [...slots, ...SLOTS.map((slot) => `model.${slot}`), ...snapshots]) {
      const found = (await this.salvaged(base)) ?? (await this.proven(base));
      if (found) return { ...found, newest };
    }
    return null;
  }

  /** The last one first. */
  private async snapshots(): Promise<string[]> {
    const names = await this.files.names(this.path);
    const steps = names.map((name) => /^step-(\d+)\.tinygpt$/.exec(name)?.[1]).filter((step) => step !== undefined);
    return steps
      .map(Number)
      .sort((a, b) => b - a)
      .map((step) => `step-${step}`);
  }

  private async bytesOf(base: string): Promise<Bytes | null> {
    const read = (await this.blob(`${base}.tinygpt`))?.arrayBuffer();
    return read ? read.then((buffer) => new Uint8Array(buffer)).catch(() => null) : null;
  }

  private async recordOf(base: string): Promise<Sealed | null> {
    const [text] = await this.texts([`${base}.json`]);
    return text ? (parsed(text) as Sealed | null) : null;
  }

  private async unsealed(base: string): Promise<Omit<Stored, "newest"> | null> {
    const record = await this.recordOf(base);
    if (!record) return null;
    const bytes = await this.bytesOf(base);
    if (bytes && bytes.length === record.length && (await digest(bytes)) === record.sha256) {
      return { bytes, record, kind: base.startsWith("step-") ? "snapshot" : "slot" };
    }
    this.damagedFiles.add(base);
    return null;
  }

  /** A file whose record is lost, but which proves itself whole. */
  private async proven(base: string): Promise<Omit<Stored, "newest"> | null> {
    const bytes = await this.bytesOf(base);
    const step = bytes && (await this.proof(bytes));
    return bytes && step !== null ? { bytes, record: { step, events: Infinity }, kind: "file" } : null;
  }

  /** The weights of a damaged file, where they are whole. */
  private async salvaged(base: string): Promise<Omit<Stored, "newest"> | null> {
    const [[stated], bytes, record] = [await this.texts([`${base}.json`]), await this.bytesOf(base), await this.recordOf(base)];
    const salvage = stated ? parse(this.decisions.salvage(stated)) : null;
    if (!salvage || !record || bytes?.length !== record.length) return null;
    const weights = weightsIn(bytes, salvage, salvage.rows);
    if ((await digest(weights)) !== salvage.sha256) return null;
    return { bytes: await writeState(salvage.header, salvage.step, weights), record, kind: "weights" };
  }

  /** What of this run was lost when that was read, in a sentence, or nothing. */
  lost({ record, kind, newest }: Stored, log: Log): string {
    return this.decisions.recovered(text({ step: record.step, kind, newest, log: log.end !== null }));
  }

  private async seal(base: string, bytes: Bytes, record: object): Promise<void> {
    await this.files.write(`${this.path}/${base}.json`, new Uint8Array());
    await this.files.write(`${this.path}/${base}.tinygpt`, bytes);
    await this.files.write(`${this.path}/${base}.json`, json(record));
    this.damagedFiles.delete(base);
  }

  private async drop(step: number): Promise<void> {
    for (const end of ["json", "tinygpt"]) await this.files.remove(`${this.path}/step-${step}.${end}`);
  }

  /** A checkpoint, whose events end at so many bytes; the record is written last. `smooth`: the loss as the page states it. */
  async keep({ slot, record, snapshot, drop, weights }: Order, bytes: Bytes, events: number, smooth: number | null): Promise<void> {
    const rows = weights ? rowsIn(bytes, weights) : 0;
    const proof = weights ? { weights: await digest(weightsIn(bytes, weights, rows)), rows } : {};
    const sealed = {
      ...record,
      ...proof,
      smooth,
      savedAt: new Date().toISOString(),
      length: bytes.length,
      sha256: await digest(bytes),
      events,
    };
    await this.seal(`model.${slot}`, bytes, sealed);
    for (const step of drop) await this.drop(step);
    if (snapshot) await this.seal(`step-${record.step}`, bytes, sealed).catch(() => this.drop(record.step)); // it can be done without
  }

  /** The log of a model that was read. It is optional: lines that cannot be read are left out. */
  async log({ step, events }: Stored["record"]): Promise<Log> {
    const file = await this.blob(EVENTS);
    const text =
      (await file
        ?.slice(0, Math.min(events, file.size))
        .text()
        .catch(() => "")) ?? "";
    const all = text.split("\n").filter(Boolean);
    const lines = all.filter((line) => isEvent(line, step));
    const read = lines.map((line) => `${line}\n`).join("");
    const end = encoder.encode(read).length;
    const whole = text.startsWith(read) && (events === Infinity || events === end);
    return { lines, end: whole ? end : null };
  }

  async putEvents(bytes: Bytes, at: number): Promise<void> {
    await this.files.write(`${this.path}/${EVENTS}`, bytes, at);
  }

  /** A log that cannot be read to its end is written anew; what there was of it stays. */
  async setEventsAside(): Promise<void> {
    const bytes = await (await this.blob(EVENTS))?.arrayBuffer().catch(() => null);
    if (bytes?.byteLength) await this.files.write(`${this.path}/${EVENTS_DAMAGED}`, new Uint8Array(bytes));
  }

  async remove(): Promise<void> {
    await this.files.remove(this.path);
  }
}

/** The record of a file that was found damaged, as core/tab/shelf.py has it. */
function marked(text: string): string {
  const { sequence } = parsed(text) as { sequence?: number };
  return JSON.stringify({ sequence, damaged: true });
}
