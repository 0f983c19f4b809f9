// What is kept of the run in the worker: it takes note of core's events, and writes them with the checkpoints.
import type { Folder, KeepOrder, Meta, Shelf } from "./shelf.ts";

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
  static async reopened(shelf: Shelf, id: string): Promise<Reopened> {
    const folder = await shelf.hold(id);
    const { bytes, events, meta } = await content(folder);
    const base = await baseOf(meta, shelf);
    return { keeper: new Keeper(shelf, folder, meta, events.length), bytes, lines: linesOf(events), meta, ...base };
  }

  /** Of a run that leaves another at one of its snapshots. */
  static async forked(shelf: Shelf, id: string, snapshot: number): Promise<Reopened> {
    const { bytes, events, meta } = await content(shelf.folder(id), snapshot);
    const lines = linesOf(events);
    const keeper = new Keeper(shelf, shelf.folder(newId()), null, 0, lines.map((line) => ({ step: snapshot, line })));
    keeper.forked = { run: id, title: meta.title, step: snapshot };
    keeper.own = meta.text;
    return { keeper, bytes, lines, meta, ...(await baseOf(meta, shelf)) };
  }

  /** The run begins, or goes on, at a step. */
  begin(step: number, label: Label, text: Uint8Array<ArrayBuffer>): void {
    this.pending = this.pending.filter((noted) => noted.step <= step);
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
  async keep(order: KeepOrder, file: Uint8Array<ArrayBuffer>): Promise<void> {
    const { step } = order.record;
    await this.introduce();
    const due = this.pending.filter((noted) => noted.step <= step);
    const lines = new TextEncoder().encode(due.map(({ line }) => `${line}\n`).join(""));
    await this.folder.putEvents(lines, this.events);
    await this.folder.keep(order, file, this.events + lines.length);
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
      if (this.meta?.text.sha256 === sha256) return;
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
  base?: NonNullable<Label["base"]>;
}

async function baseOf({ base }: Meta, shelf: Shelf): Promise<Pick<Reopened, "base">> {
  if (!base) return {};
  const bytes = await shelf.base(base.sha256);
  if (!bytes) throw new Error(`${base.title}, which this adapter stands on, cannot be read any more; export the run, open that model, and load the file`);
  return { base: { ...base, bytes } };
}

/** Sorts by the time it was made. */
function newId(): string {
  const random = crypto.getRandomValues(new Uint32Array(1))[0]!;
  return `${Date.now().toString(36)}-${random.toString(36)}`;
}

async function content(folder: Folder, snapshot?: number): Promise<{ bytes: Uint8Array<ArrayBuffer>; events: Uint8Array<ArrayBuffer>; meta: Meta }> {
  const [model, meta] = [await folder.model(snapshot), await folder.meta()];
  if (!model || !meta) throw new Error("nothing of this run can be read any more; delete it in the library");
  return { bytes: model.bytes, events: await folder.events(model.record.events), meta };
}

function linesOf(events: Uint8Array<ArrayBuffer>): string[] {
  return new TextDecoder().decode(events).split("\n").filter(Boolean);
}
