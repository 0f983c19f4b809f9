// The model in hand: a run in a player, or none. A new run is prepared first, and takes its place once nothing can go wrong.
import { parse, text as json } from "../generated/protocol.ts";
import type { ChosenBudget, Origin, Plan, Session } from "../generated/protocol.ts";
import { reportedMemory } from "../players/features.ts";
import { Gpu } from "../players/gpu.ts";
import { Keeper } from "../storage/keeper.ts";
import type { Shelf } from "../storage/shelf.ts";
import { mergedFile, type Standing } from "./adapters.ts";
import { lastLine } from "./answers.ts";
import { findBase, standing } from "./bases.ts";
import { choose } from "./budget.ts";
import type { InHand } from "./library.ts";
import { ModelFile } from "./modelfile.ts";
import type { CheckedFile, Doubt, ModelBytes, RunEvent, SavedFile, Start, Started, Text } from "./protocol.ts";
import type { Python } from "./python.ts";
import { moving } from "./remote.ts";
import { type Kept, Trouble, WorkerRun } from "./run.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A run that is to start, or with no text a model that is to write. */
type Wish = Pick<Start, "engine" | "threads"> & Partial<Start> & { budget?: ChosenBudget };

/** A file to check; adapters may be for the model in hand, of a file or of the worker. */
export interface Check {
  name: string;
  bytes: Bytes;
  inHand?: { title: string; file: ModelBytes | null };
}

/** A run that core has found possible. Nothing of it has begun but its GPU. */
interface Prepared {
  session: Session;
  plan: Plan;
  gpu: Gpu | null;
  base: Standing | null; // null: it is a whole model
  keeper: Keeper | null; // null: the model only writes
  text: Bytes;
  /** What it continues from, given the model that was in the worker. */
  state: (inHand: Kept | null) => Kept | null;
}

/** What a run goes on from, and what adapters stand on. */
interface Beginning {
  file: ModelFile | null; // null: it is new, or goes on from the model in the worker
  from: Origin | null;
  base: Standing | null;
}

export class Hand {
  run: WorkerRun | null = null;
  keeper: Keeper | null = null; // of the model in hand, where that is a run's
  private choosing: AbortController | null = null; // of a run that is to end in time
  private readonly python: Python;
  private readonly shelf: Shelf;

  constructor(python: Python, shelf: Shelf) {
    this.python = python;
    this.shelf = shelf;
  }

  private async beginningOf({ resume, adapt }: Wish): Promise<Beginning> {
    const { file: reader } = this.python;
    if (!resume) return { file: null, from: null, base: null };
    const given = resume === "in hand" ? null : resume;
    if (adapt) return { file: null, from: null, base: await standing(given ?? (await this.model().saved()), adapt.title, reader) };
    const file = given && (await ModelFile.open(given.bytes, reader));
    if (!file) return { file, from: this.model().stands(), base: this.model().base };
    return { file, from: file.origin, base: file.front.adapter ? await standing(given!, "", reader) : null };
  }

  private async prepare(wish: Wish): Promise<Prepared> {
    const { file, from, base } = await this.beginningOf(wish);
    const text = wish.text === undefined ? null : await this.textOf(wish.text);
    const kept = text ? await this.keeperOf(wish.run) : null;
    const gpu = wish.engine === "webgpu" ? await Gpu.open() : null;
    try {
      const session = this.python.session.Session(
        json({
          preset: wish.preset ?? "",
          recipe: wish.recipe ?? "",
          changes: wish.changes ?? {},
          bytes: text?.length ?? null,
          ...(wish.textName ? { textName: wish.textName } : {}),
          ...(wish.title ? { title: wish.title } : {}),
          ...(wish.budget ? { budget: wish.budget } : {}),
          ...(from ? { origin: from } : {}),
          ...(base ? { base: { config: base.config, sha256: base.sha256 } } : {}),
          ...(wish.adapt ? { lora: wish.adapt.lora } : {}),
          ...(kept ? { kept: await kept.folder.found() } : {}),
          ...(gpu ? { device: gpu.facts() } : {}),
          ...(gpu && !gpu.info.software ? {} : { memory: { reported: reportedMemory() } }),
        }),
      );
      const plan = parse(session.plan());
      const read = (): Kept | null => file && { header: session.header_text(), state: plan.compact ? file.packed() : file.body() };
      const label = { title: wish.title ?? wish.preset ?? "", textName: wish.textName ?? "", ...(base ? { base } : {}) };
      const past = { steps: Number((from?.config ?? plan.config).train["steps"]), history: from?.progress.history ?? [] };
      if (text) kept!.begin(from?.progress.step ?? 0, label, text, past);
      return { session, plan, gpu, base, keeper: kept, text: text ?? new Uint8Array(), state: (aside) => (from && !file ? aside : read()) };
    } catch (error) {
      gpu?.close();
      throw error;
    }
  }

  async textOf(text: Text): Promise<Bytes> {
    const found = typeof text === "string" ? await this.shelf.text(text) : text;
    if (!found) throw new Error("the text of this run cannot be read any more; choose one");
    return found;
  }

  /** Of the run in hand, or of a new one. */
  private async keeperOf(id: string | undefined): Promise<Keeper> {
    if (id === undefined) return Keeper.fresh(this.shelf);
    if (this.keeper?.folder.id === id) return this.keeper;
    return (await Keeper.reopened(this.shelf, id)).keeper ?? Keeper.fresh(this.shelf);
  }

  /** The run that is in hand from now on, under its lock; the lock of the one before is let go of. */
  async hold(next: Keeper | null): Promise<void> {
    if (next) await this.shelf.hold(next.folder.id);
    if (this.keeper && this.keeper.folder.id !== next?.folder.id) this.keeper.release();
    this.keeper = next;
  }

  /** Trains, until what the run ends with is kept. The model before stays until "started" is heard. */
  async start(wish: Start, tell: (event: RunEvent) => void): Promise<Doubt | void> {
    await this.requireRest();
    const chosen = wish.seconds === undefined ? wish : await this.within(wish.seconds, wish, tell);
    if (!chosen) throw new Error("It was stopped before anything had begun");
    const started = await this.take(chosen, tell);
    if ("doubt" in started) return started;
    tell({ event: "started", ...started });
    await this.run!.train();
  }

  stop(): void {
    this.run?.requestStop();
    this.choosing?.abort();
  }

  /** What to start where a time was given instead of a size; null: nothing, it was stopped. */
  private async within(seconds: number, start: Start, tell: (event: RunEvent) => void): Promise<Wish | null> {
    this.choosing = new AbortController();
    try {
      const text = await this.textOf(start.text);
      const answer = await choose(start, seconds, text, this.python, { tell, signal: this.choosing.signal });
      if ("stopped" in answer) return null;
      const { preset, recipe, changes, budget } = answer.request;
      return { ...start, text, preset, recipe, changes: { ...start.changes, ...changes }, ...(budget ? { budget } : {}) };
    } finally {
      this.choosing = null;
    }
  }

  model(): WorkerRun {
    if (!this.run) throw new Error("there is no model yet; train one or load one first");
    return this.run;
  }

  /** Has the model in a player, or a doubt whether it fits. */
  async take(wish: Wish, tell: (event: RunEvent) => void): Promise<Started | Doubt> {
    const prepared = await this.prepare(wish);
    const { gpu, plan } = prepared;
    if (plan.doubt && !wish.sure) {
      gpu?.close();
      return { doubt: plan.doubt };
    }
    const started = await this.replace(prepared, wish, tell);
    if (prepared.keeper) await this.hold(prepared.keeper);
    return started;
  }

  /** Puts the new run in the place of the one before. Should it fail, the page is given the model of that as a file. */
  private async replace(prepared: Prepared, wish: Wish, tell: (event: RunEvent) => void): Promise<Started> {
    const { session, plan, gpu, base, keeper: kept, text, state } = prepared;
    const before = this.run;
    let aside: Kept | null;
    try {
      aside = before && !before.lost ? await before.export() : null;
    } catch (error) {
      gpu?.close();
      throw error;
    }
    before?.close();
    this.run = null;
    const made = new WorkerRun(session, plan, gpu, { threads: wish.threads }, base, kept, this.python.file, tell);
    try {
      const started = await made.begin(text, state(aside));
      this.run = made;
      return started;
    } catch (error) {
      made.close();
      throw new Trouble({ message: lastLine(error), ...(aside ? { instead: await before!.file(aside) } : {}) });
    }
  }

  /** A file's facts, once all of it was looked at. The model in the worker is given up for it. */
  async check({ name, bytes, inHand: near }: Check, lost = ""): Promise<CheckedFile> {
    try {
      const { front } = await ModelFile.open(bytes, this.python.file);
      const { config, parameters, progress, learnt } = front;
      const leftOut = [front.leftOut, lost].filter(Boolean).join(" ");
      const { step, loss, history, sample } = progress;
      const base = front.adapter ? await findBase(front, await this.nearest(near), this.shelf, this.python.file) : null;
      const below = base ? { base: { title: base.title, sha256: base.sha256, bytes: base.bytes } } : {};
      this.putAway();
      await this.hold(null);
      const file = { bytes, name, step, ...below };
      return moving({ file, config, parameters, loss, history, sample, learnt, leftOut }, bytes.buffer);
    } catch (error) {
      throw new Error(`the file ${name} cannot be loaded: ${lastLine(error)}`);
    }
  }

  /** The model in hand, as what adapters could be for. */
  private async nearest(inHand: Check["inHand"]): Promise<Standing | null> {
    const file = inHand?.file ?? (this.run && !this.run.lost ? await this.run.saved() : null);
    return file && standing(file, inHand?.title ?? "", this.python.file);
  }

  /** The plain model that a file's adapters and their base make; null of a whole model. */
  async merge(file: ModelBytes): Promise<SavedFile | null> {
    if (!file.base) return null;
    const base = await standing(file, "", this.python.file);
    const adapter = await ModelFile.open(file.bytes, this.python.file);
    return mergedFile(base, adapter.weights(), adapter.origin, this.python.file);
  }

  putAway(): void {
    this.run?.close();
    this.run = null;
  }

  async requireRest(): Promise<void> {
    if (this.run?.training) throw new Error("a run is under way; stop it first");
    await this.run?.settled.catch(() => undefined);
  }

  /** What the library has to know of it. */
  get held(): InHand {
    return { run: this.keeper?.folder.id ?? null, training: this.run?.training ?? false };
  }
}
