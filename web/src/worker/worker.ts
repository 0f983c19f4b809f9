// The page's worker: Python plans and drives, an engine computes. `methods` is what the page can call.
import { parse, text as json } from "../generated/protocol.ts";
import type { AdviceRequest, ChosenBudget, Difference, Likely, Origin, Plan, Prompt, Session, Teaching } from "../generated/protocol.ts";
import type { PublishFacts, Scale, TeachingRequest } from "../generated/protocol.ts";
import { openFiles } from "../storage/files.ts";
import { Keeper } from "../storage/keeper.ts";
import { Shelf } from "../storage/shelf.ts";
import { mergedFile, type Standing } from "./adapters.ts";
import { lastLine } from "./answers.ts";
import * as assets from "./assets.ts";
import { findBase, standing } from "./bases.ts";
import { type Publishing, publishing } from "./publishing.ts";
import { choose } from "./budget.ts";
import { capsuleOf, inspected, replayed, type ReplayWish } from "./capsules.ts";
import { estimated, type Wanted } from "./estimate.ts";
import { capabilities, reportedMemory } from "../players/features.ts";
import { Gpu } from "../players/gpu.ts";
import { type Look, Looker, type Mattering, scaledFile } from "./inside.ts";
import { Lender } from "../players/lending.ts";
import { checkedRun, differences, exported, type InHand, library, rename } from "./library.ts";
import { type MeasureEvent, measured } from "./measure.ts";
import { ModelFile, provenStep } from "./modelfile.ts";
import { originsOf } from "./origins.ts";
import type {
  CheckedFile,
  Doubt,
  Failure,
  Library,
  Life,
  ModelBytes,
  Origins,
  RunEvent,
  SavedFile,
  Start,
  Started,
  Text,
} from "./protocol.ts";
import type { TrialEvent, Visiting } from "./protocol.ts";
import type { Python } from "./python.ts";
import { answerCalls, type Line, moving } from "./remote.ts";
import { type Kept, type Piece, Trouble, WorkerRun } from "./run.ts";
import { survey } from "./survey.ts";
import { advised, visit, type Wish as Visit } from "./texts.ts";
import { borrowThreads } from "../players/thread.ts";
import { type Stop, travel, type Travel } from "./travel.ts";
import { webPage } from "./webpage.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** A run that is to start, or with no text a model that is to write. */
type Wish = Pick<Start, "engine" | "threads"> & Partial<Start> & { budget?: ChosenBudget };

/** A file to check; adapters may be for the model in hand, of a file or of the worker. */
interface Check {
  name: string;
  bytes: Bytes;
  inHand?: { title: string; file: ModelBytes | null };
}

const START = 8192; // bytes of a text, of which core sees the encoding

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

let python: Python;
let shelf: Shelf;
let run: WorkerRun | null = null;
let looker: Looker;
let keeper: Keeper | null = null; // of the model in hand, where that is a run's
let choosing: AbortController | null = null; // of a run that is to end in time

/** What a run goes on from, and what adapters stand on. */
interface Beginning {
  file: ModelFile | null; // null: it is new, or goes on from the model in the worker
  from: Origin | null;
  base: Standing | null;
}

async function beginningOf({ resume, adapt }: Wish): Promise<Beginning> {
  const { file: reader } = python;
  if (!resume) return { file: null, from: null, base: null };
  const given = resume === "in hand" ? null : resume;
  if (adapt) return { file: null, from: null, base: await standing(given ?? (await inHand().saved()), adapt.title, reader) };
  const file = given && (await ModelFile.open(given.bytes, reader));
  if (!file) return { file, from: inHand().stands(), base: inHand().base };
  return { file, from: file.origin, base: file.front.adapter ? await standing(given!, "", reader) : null };
}

async function prepare(wish: Wish): Promise<Prepared> {
  const { file, from, base } = await beginningOf(wish);
  const text = wish.text === undefined ? null : await textOf(wish.text);
  const kept = text ? await keeperOf(wish.run) : null;
  const gpu = wish.engine === "webgpu" ? await Gpu.open() : null;
  try {
    const session = python.session.Session(
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

async function textOf(text: Text): Promise<Bytes> {
  const found = typeof text === "string" ? await shelf.text(text) : text;
  if (!found) throw new Error("the text of this run cannot be read any more; choose one");
  return found;
}

/** Of the run in hand, or of a new one. */
async function keeperOf(id: string | undefined): Promise<Keeper> {
  if (id === undefined) return Keeper.fresh(shelf);
  if (keeper?.folder.id === id) return keeper;
  return (await Keeper.reopened(shelf, id)).keeper ?? Keeper.fresh(shelf);
}

/** The run that is in hand from now on, under its lock; the lock of the one before is let go of. */
async function hold(next: Keeper | null): Promise<void> {
  if (next) await shelf.hold(next.folder.id);
  if (keeper && keeper.folder.id !== next?.folder.id) keeper.release();
  keeper = next;
}

/** What to start where a time was given instead of a size; null: nothing, it was stopped. */
async function within(seconds: number, start: Start, tell: (event: RunEvent) => void): Promise<Wish | null> {
  choosing = new AbortController();
  try {
    const text = await textOf(start.text);
    const answer = await choose(start, seconds, text, python, { tell, signal: choosing.signal });
    if ("stopped" in answer) return null;
    const { preset, recipe, changes, budget } = answer.request;
    return { ...start, text, preset, recipe, changes: { ...start.changes, ...changes }, ...(budget ? { budget } : {}) };
  } finally {
    choosing = null;
  }
}

function inHand(): WorkerRun {
  if (!run) throw new Error("there is no model yet; train one or load one first");
  return run;
}

/** Has the model in a player, or a doubt whether it fits. */
async function take(wish: Wish, tell: (event: RunEvent) => void): Promise<Started | Doubt> {
  const prepared = await prepare(wish);
  const { gpu, plan } = prepared;
  if (plan.doubt && !wish.sure) {
    gpu?.close();
    return { doubt: plan.doubt };
  }
  const started = await replace(prepared, wish, tell);
  if (prepared.keeper) await hold(prepared.keeper);
  return started;
}

/** Puts the new run in the place of the one before. Should it fail, the page is given the model of that as a file. */
async function replace(prepared: Prepared, wish: Wish, tell: (event: RunEvent) => void): Promise<Started> {
  const { session, plan, gpu, base, keeper: kept, text, state } = prepared;
  const before = run;
  let aside: Kept | null;
  try {
    aside = before && !before.lost ? await before.export() : null;
  } catch (error) {
    gpu?.close();
    throw error;
  }
  before?.close();
  run = null;
  const made = new WorkerRun(session, plan, gpu, { threads: wish.threads }, base, kept, python.file, tell);
  try {
    const started = await made.begin(text, state(aside));
    run = made;
    return started;
  } catch (error) {
    made.close();
    throw new Trouble({ message: lastLine(error), ...(aside ? { instead: await before!.file(aside) } : {}) });
  }
}

/** A file's facts, once all of it was looked at. The model in the worker is given up for it. */
async function check({ name, bytes, inHand: near }: Check, lost = ""): Promise<CheckedFile> {
  try {
    const { front } = await ModelFile.open(bytes, python.file);
    const { config, parameters, progress, learnt } = front;
    const leftOut = [front.leftOut, lost].filter(Boolean).join(" ");
    const { step, loss, history, sample } = progress;
    const base = front.adapter ? await findBase(front, await nearest(near), shelf, python.file) : null;
    const below = base ? { base: { title: base.title, sha256: base.sha256, bytes: base.bytes } } : {};
    putAway();
    await hold(null);
    const file = { bytes, name, step, ...below };
    return moving({ file, config, parameters, loss, history, sample, learnt, leftOut }, bytes.buffer);
  } catch (error) {
    throw new Error(`the file ${name} cannot be loaded: ${lastLine(error)}`);
  }
}

/** The model in hand, as what adapters could be for. */
async function nearest(inHand: Check["inHand"]): Promise<Standing | null> {
  const file = inHand?.file ?? (run && !run.lost ? await run.saved() : null);
  return file && standing(file, inHand?.title ?? "", python.file);
}

/** The plain model that a file's adapters and their base make; null of a whole model. */
async function merge(file: ModelBytes): Promise<SavedFile | null> {
  if (!file.base) return null;
  const base = await standing(file, "", python.file);
  const adapter = await ModelFile.open(file.bytes, python.file);
  return mergedFile(base, adapter.weights(), adapter.origin, python.file);
}

function putAway(): void {
  run?.close();
  run = null;
}

async function requireRest(): Promise<void> {
  if (run?.training) throw new Error("a run is under way; stop it first");
  await run?.settled.catch(() => undefined);
}

const held = (): InHand => ({ run: keeper?.folder.id ?? null, training: run?.training ?? false });

const methods = {
  capabilities,

  /** Comes first where the page makes the threads: lending.ts. */
  threads: async (port: MessagePort): Promise<void> => {
    const lender = new Lender(port);
    borrowThreads(() => lender.thread());
  },

  /** Trains, until what the run ends with is kept. The model in the worker stays there until "started" is heard. */
  start: async (wish: Start, { tell }: Line<RunEvent>): Promise<Doubt | void> => {
    await requireRest();
    const chosen = wish.seconds === undefined ? wish : await within(wish.seconds, wish, tell);
    if (!chosen) throw new Error("It was stopped before anything had begun");
    const started = await take(chosen, tell);
    if ("doubt" in started) return started;
    tell({ event: "started", ...started });
    await run!.train();
  },

  /** Ends the run after the step in progress. */
  stop: async (): Promise<void> => {
    run?.requestStop();
    choosing?.abort();
  },

  /** Takes a file's model to the worker, to write. */
  open: async (
    wish: Pick<Start, "engine" | "threads" | "sure"> & { resume: ModelBytes },
    { tell }: Line<TrialEvent>,
  ): Promise<Started | Doubt> => {
    await requireRest();
    return take(wish, tell as (event: RunEvent) => void);
  },

  check: (file: Check) => check(file),

  /** A run of the library, put in hand as a file would be; of an earlier step: as a run that leaves it there. */
  take: async ({ run: id, step }: { run: string; step?: number }): Promise<CheckedFile> => {
    await requireRest();
    const reopened = step === undefined ? await Keeper.reopened(shelf, id) : await Keeper.forked(shelf, id, step);
    if (!reopened.keeper) {
      shelf.locks.release(id);
      const lost = `${reopened.lost} It belongs to no run any more: what it learns from now on is a new one.`.trim();
      return check({ name: "rescued.tinygpt", bytes: reopened.bytes }, lost);
    }
    const checked = await checkedRun(reopened, python.file);
    putAway();
    await hold(reopened.keeper);
    return moving(checked, checked.file.bytes.buffer);
  },

  /** Of the adapters in hand, or of a file's: the model that they are for, or the plain model that the two make. */
  part: async ({ which, file: given }: { which: "base" | "merged"; file?: ModelBytes }): Promise<SavedFile> => {
    if (!given) await requireRest();
    const file = given ?? (await inHand().saved());
    if (!file.base) throw new Error("the model in hand has no adapter");
    if (which === "merged") return (await merge(file))!;
    const base = await standing(file, "", python.file);
    return { bytes: base.bytes, name: base.title, step: 0 };
  },

  /** The plain model with parts that count for more, less or nothing; while training, as it is at the next step. */
  scaled: async ({ scales, file: given }: { scales: Scale[]; file?: ModelBytes }): Promise<SavedFile> => {
    const file = given ?? (await inHand().asFile());
    return scaledFile((await merge(file))?.bytes ?? file.bytes, scales, python);
  },

  /** The model as it is, as a file; while training, at the next step. */
  save: async (): Promise<SavedFile> => {
    const file = await inHand().asFile();
    return moving(file, file.bytes.buffer);
  },

  /** The model as a page of one file; adapters are merged into what they are for. */
  page: async ({
    title,
    prompt,
    file: given,
  }: {
    title: string;
    prompt: string;
    file?: ModelBytes;
  }): Promise<{ name: string; blob: Blob }> => {
    const file = given ?? (await inHand().asFile());
    return webPage((await merge(file))?.bytes ?? file.bytes, title, prompt, python);
  },

  life: async ({ file: given }: { file?: ModelBytes }): Promise<Omit<Life, "title">> => {
    const file = given ?? (await inHand().asFile());
    const { parameters, progress } = (await ModelFile.open(file.bytes, python.file)).front;
    return { parameters, film: progress.film, history: progress.history };
  },

  /** What the Hub is given of the model: its file, its weights for others, its card. */
  published: async ({ file: given, ...facts }: PublishFacts & { file?: ModelBytes }): Promise<Publishing> => {
    const file = given ?? (await inHand().asFile());
    return publishing((await merge(file))?.bytes ?? file.bytes, facts, python);
  },

  /** The run under way, soon: the tab may be gone. */
  keep: async (): Promise<void> => {
    if (run?.training) await run.keepSoon();
  },

  /** A text, as far as `stop` where that is written; while training, between two blocks of steps. */
  write: (prompt: Prompt & { stop?: string }, line: Line<Piece>): Promise<void> => inHand().write(prompt, line),

  /** How likely each byte is to be drawn next, the most likely first. */
  weigh: (prompt: Prompt): Promise<Likely[]> => inHand().weigh(prompt),

  look: (look: Look) => looker.answer(look, run),

  matter: (asked: Mattering, line: Line<never>) => looker.mattered(asked, run, line.signal),

  /** In what was learnt of a corpus, or of the kept one of that sha256; what it is called. */
  trace: async ({
    text,
    corpus,
    name,
    valFraction,
  }: {
    text: Bytes;
    corpus: Text;
    name: string;
    valFraction: number;
  }): Promise<Origins> => {
    const found = typeof corpus === "string" ? await shelf.text(corpus) : corpus;
    if (!found) throw new Error(`this model learnt from ${name}, which is not at hand`);
    const learnt = python.inside.learnt(found.length, valFraction);
    return originsOf(text, found.subarray(0, learnt), found.subarray(learnt));
  },

  library: (): Promise<Library> => library(shelf, held()),

  rename: async ({ run: id, title }: { run: string; title: string }): Promise<Library> => {
    await rename(id, title, shelf, held());
    return library(shelf, held());
  },

  delete: async (id: string): Promise<Library> => {
    if (run?.training && keeper?.folder.id === id) throw new Error("this run is under way; stop it first");
    await shelf.remove(id);
    if (keeper?.folder.id === id) keeper = null;
    return library(shelf, held());
  },

  compare: (ids: string[]): Promise<Difference[]> => differences(ids, shelf),

  export: (ids: string[]) => exported(ids, shelf),

  /** A run's capsule. */
  share: (id: string) => capsuleOf(id, shelf, python),

  /** A text of each of its snapshots. */
  travel: async (asked: Travel, line: Line<Stop>): Promise<void> => {
    if (run?.training) throw new Error("a run is under way; stop it first");
    await travel(asked, shelf, python, line);
  },

  estimate: async ({ text, ...wanted }: Wanted & { text: Text }, line: Line<TrialEvent>) => {
    await requireRest();
    return estimated(wanted, await textOf(text), python, line);
  },

  /** What a text is like, from its front. */
  survey: async (text: Bytes) => ({ survey: survey(text), start: Array.from(text.subarray(0, START)) }),

  /** Whether a text suits a run. */
  advise: async (request: AdviceRequest): Promise<string[]> => advised(request, python),

  /** What adapters of a model come to. */
  teaching: async (request: TeachingRequest): Promise<Teaching> => parse(python.asked.teaching(json(request))),

  /** Hugging Face. */
  visit: async (wish: Visit, line: Line<Visiting>) => {
    const found = await visit(wish, python, line);
    return "text" in found ? moving(found, found.text.buffer) : found;
  },

  measure: (asked: { preset: string; text: Bytes }, line: Line<MeasureEvent>) => measured(asked.preset, asked.text, python, line),

  /** A capsule's file. */
  inspect: (capsule: Bytes) => inspected(capsule, shelf, python),

  replay: (wish: ReplayWish, line: Line<TrialEvent>) => replayed(wish, shelf, python, line),
};

export type Methods = typeof methods;

async function start(): Promise<void> {
  assets.fetchAhead();
  python = await assets.python();
  looker = new Looker(python);
  shelf = new Shelf(await openFiles(), python.shelf, (file) => provenStep(file, python.file));
}

const ready = start().catch((error: unknown) => Promise.reject(new Error(`Python did not start: ${lastLine(error)}`)));
answerCalls(methods, ready, (error): Failure => (error instanceof Trouble ? error.failure : { message: lastLine(error) }));
