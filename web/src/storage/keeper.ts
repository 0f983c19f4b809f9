// What is kept of the run in the worker: it takes note of core's events, and writes them with the checkpoints.
import { Smoothed } from "../lib/curve.ts";
import { type CoreEvent, type Json, type Meta, parse, type Point } from "../generated/protocol.ts";
import type { Folder, Log, Order } from "./folder.ts";
import type { Shelf } from "./shelf.ts";

/** What a run goes on from, as far as its loss depends on it: its length then, and what its model remembers. */
export interface Past {
  steps: number;
  history: Point[];
}

interface Noted {
  step: number;
  line: string;
}

/** What a run is to be called once it is kept, and what it stands on. */
export interface Label {
  title: string;
  textName: string;
  base?: { title: string; sha256: string; bytes: Uint8Array<ArrayBuffer> };
}

export class Keeper {
  readonly folder: Folder;
  private readonly shelf: Shelf;
  private pending: Noted[];
  private events: number; // bytes of those that are kept
  private logDamaged = false; // all of it is pending then
  private loss: Smoothed | null = null; // of the steps that are kept, as the page states it
  private before: string[] = []; // the lines that are kept already, until it begins
  private meta: Meta | null;
  private forked: Meta["forked"] = null;
  private own: Meta["text"] | null; // what it learnt from so far
  private label: Label = { title: "", textName: "" };
  private text: Uint8Array<ArrayBuffer> | null = null; // until it is kept

  private constructor(shelf: Shelf, folder: Folder, meta: Meta | null, events: number, pending: Noted[] = []) {
    this.shelf = shelf;
    this.folder = folder;
    this.meta = meta;
    this.own = meta?.text ?? null;
    this.events = events;
    this.pending = pending;
  }

  /** Of a run that is not kept yet. Its lock is taken by whoever begins it. */
  static fresh(shelf: Shelf): Keeper {
    return new Keeper(shelf, shelf.folder(newId()), null, 0);
  }

  /** Of a run that was kept, at the checkpoint that is read with it, and the lines of its events. */
  static async reopened(shelf: Shelf, id: string): Promise<Reopened | Rescued> {
    const ours = shelf.locks.has(id);
    const folder = await shelf.hold(id);
    try {
      return await Keeper.read(shelf, folder);
    } catch (error) {
      if (!ours) shelf.locks.release(id);
      throw error;
    }
  }

  private static async read(shelf: Shelf, folder: Folder): Promise<Reopened | Rescued> {
    const { bytes, step, log, meta, lost } = await content(folder);
    if (!meta) return { keeper: null, bytes, lost };
    const base = await baseOf(meta, shelf);
    const keeper = new Keeper(shelf, folder, meta, log.end ?? 0, log.end === null ? log.lines.map((line) => ({ step, line })) : []);
    keeper.logDamaged = log.end === null;
    keeper.before = log.end === null ? [] : log.lines;
    return { keeper, bytes, lines: log.lines, meta, lost, ...base };
  }

  /** Of a run that leaves another at one of its snapshots. One whose model is `changed` there has no past: its steps are
   *  not what made it. */
  static async forked(
    shelf: Shelf,
    id: string,
    snapshot: number,
    changed?: (bytes: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>,
  ): Promise<Reopened> {
    const { bytes: found, log, meta, lost } = await content(shelf.folder(id), snapshot);
    if (!meta) throw new Error("the title of this run cannot be read; open it in the library");
    const bytes = changed ? await changed(found) : found;
    const past = changed ? [] : log.lines.map((line) => ({ step: snapshot, line }));
    const keeper = new Keeper(shelf, shelf.folder(newId()), null, 0, past);
    keeper.forked = { run: id, title: meta.title, step: snapshot };
    keeper.own = meta.text;
    return { keeper, bytes, lines: log.lines, meta, lost, ...(await baseOf(meta, shelf)) };
  }

  /** The run begins, or goes on, at a step. */
  begin(step: number, label: Label, text: Uint8Array<ArrayBuffer>, past: Past): void {
    this.pending = this.pending.filter((noted) => noted.step <= step);
    if (!this.loss) {
      this.loss = new Smoothed(past.steps);
      const told = stepsIn([...this.before, ...this.pending.map(({ line }) => line)]);
      for (const [at, loss] of past.history) if (at < (told[0]?.[0] ?? Infinity)) this.loss.add(loss);
      for (const [, loss] of stepsIn(this.before)) this.loss.add(loss);
      this.before = [];
    }
    this.label = label;
    this.text = text;
  }

  note(step: number, line: string): void {
    this.pending.push({ step, line });
  }

  /** The run has gone back to a step. */
  forget(step: number): void {
    this.pending = this.pending.filter((noted) => noted.step <= step);
  }

  /** The checkpoint as a file, and the events of its steps. */
  async keep(order: Order, file: Uint8Array<ArrayBuffer>): Promise<void> {
    const { step } = order.record;
    await this.introduce();
    const due = this.pending.filter((noted) => noted.step <= step);
    const lines = new TextEncoder().encode(due.map(({ line }) => `${line}\n`).join(""));
    if (this.logDamaged) await this.folder.setEventsAside();
    await this.folder.putEvents(lines, this.events);
    this.logDamaged = false;
    const loss = this.loss?.copy() ?? null;
    for (const [, each] of stepsIn(due.map(({ line }) => line))) loss?.add(each);
    await this.folder.keep(order, file, this.events + lines.length, loss?.value ?? null);
    this.loss = loss;
    this.events += lines.length;
    this.pending = this.pending.filter((noted) => noted.step > step);
  }

  /** Its text and its title, where they are not there yet. */
  private async introduce(): Promise<void> {
    const { text } = this;
    if (!text) return;
    if (!this.shelf.files.durable && !this.meta) for (const id of await this.shelf.ids()) await this.shelf.remove(id); // memory is for one
    await this.shelf.locks.alone(async () => {
      const sha256 = await this.shelf.putText(text);
      const { title, textName, base } = this.label;
      if (base) await this.shelf.putBase(base.sha256, base.bytes);
      if (this.meta?.text.sha256 === sha256) return this.folder.mendMeta(this.meta);
      const below = base ? { base: { title: base.title, sha256: base.sha256 } } : {};
      const before = this.meta ?? { title, created: new Date().toISOString(), forked: this.forked, ...below };
      const name = sha256 === this.own?.sha256 ? this.own.name : textName;
      this.meta = { ...before, text: { sha256, bytes: text.length, name } };
      this.own = this.meta.text;
      await this.folder.putMeta(this.meta);
    });
    this.text = null;
  }

  release(): void {
    this.shelf.locks.release(this.folder.id);
  }
}

export interface Reopened {
  keeper: Keeper;
  bytes: Uint8Array<ArrayBuffer>;
  lines: string[];
  meta: Meta;
  lost: string; // what of it could not be read, in a sentence, or nothing
  base?: NonNullable<Label["base"]>;
}

/** A model of a run of which nothing else is known: it is opened as a file would be. */
export interface Rescued {
  keeper: null;
  bytes: Uint8Array<ArrayBuffer>;
  lost: string;
}

async function baseOf({ base }: Meta, shelf: Shelf): Promise<Pick<Reopened, "base">> {
  if (!base) return {};
  const bytes = await shelf.base(base.sha256);
  if (!bytes)
    throw new Error(
      `${base.title}, which this adapter stands on, cannot be read any more; export the run, open that model, and load the file`,
    );
  return { base: { ...base, bytes } };
}

/** Of each step that lines of a log tell of, its loss. */
function stepsIn(lines: string[]): Point[] {
  const events = lines.map((line) => parse(line as Json<CoreEvent>));
  return events.flatMap((event) => (event.event === "steps" ? event.rows.map(([step, loss]): Point => [step, loss]) : []));
}

/** Sorts by the time it was made. */
function newId(): string {
  const random = crypto.getRandomValues(new Uint32Array(1))[0]!;
  return `${Date.now().toString(36)}-${random.toString(36)}`;
}

interface Content {
  bytes: Uint8Array<ArrayBuffer>;
  step: number;
  log: Log;
  meta: Meta | null;
  lost: string;
}

async function content(folder: Folder, snapshot?: number): Promise<Content> {
  const [model, meta] = [await folder.model(snapshot), await folder.meta()];
  if (!model && snapshot !== undefined) throw new Error(`step ${snapshot} of this run cannot be read any more; choose another one`);
  if (!model) throw new Error("no model of this run can be read any more; its files can be saved in the library");
  const log = await folder.log(model.record);
  return { bytes: model.bytes, step: model.record.step, log, meta, lost: folder.lost(model, log) };
}
