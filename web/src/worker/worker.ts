// The page's worker: Python plans and drives, an engine computes. `methods` is what the page can call.
import { parse, text as json } from "../generated/protocol.ts";
import type { AdviceRequest, Difference, Likely, Prompt, Teaching } from "../generated/protocol.ts";
import type { PublishFacts, Scale, TeachingRequest } from "../generated/protocol.ts";
import { openFiles } from "../storage/files.ts";
import { Keeper } from "../storage/keeper.ts";
import { type Check, Hand } from "./hand.ts";
import { Shelf } from "../storage/shelf.ts";
import { lastLine } from "./answers.ts";
import * as assets from "./assets.ts";
import { standing } from "./bases.ts";
import { type Publishing, publishing } from "./publishing.ts";
import { capsuleOf, inspected, replayed, type ReplayWish } from "./capsules.ts";
import { estimated, type Wanted } from "./estimate.ts";
import { capabilities } from "../players/features.ts";
import { type Look, Looker, type Mattering, scaledFile } from "./inside.ts";
import { Lender } from "../players/lending.ts";
import { checkedRun, differences, exported, library, rename } from "./library.ts";
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
import { type Piece, Trouble } from "./run.ts";
import { survey } from "./survey.ts";
import { advised, visit, type Wish as Visit } from "./texts.ts";
import { borrowThreads } from "../players/thread.ts";
import { type Stop, travel, type Travel } from "./travel.ts";
import { webPage } from "./webpage.ts";
import { withoutPart } from "./without.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const START = 8192; // bytes of a text, of which core sees the encoding

let python: Python;
let shelf: Shelf;
let hand: Hand;
let looker: Looker;

const methods = {
  capabilities,

  /** Comes first where the page makes the threads: lending.ts. */
  threads: async (port: MessagePort): Promise<void> => {
    const lender = new Lender(port);
    borrowThreads(() => lender.thread());
  },

  /** Trains, until what the run ends with is kept. The model in the worker stays there until "started" is heard. */
  start: (wish: Start, { tell }: Line<RunEvent>): Promise<Doubt | void> => hand.start(wish, tell),

  /** Ends the run after the step in progress. */
  stop: async (): Promise<void> => hand.stop(),

  /** Takes a file's model to the worker, to write. */
  open: async (
    wish: Pick<Start, "engine" | "threads" | "sure"> & { resume: ModelBytes },
    { tell }: Line<TrialEvent>,
  ): Promise<Started | Doubt> => {
    await hand.requireRest();
    return hand.take(wish, tell as (event: RunEvent) => void);
  },

  check: (file: Check) => hand.check(file),

  /** A run of the library, put in hand as a file would be; of an earlier step: as a run that leaves it there, and may do
   *  so without a part. */
  take: async ({ run: id, step, without }: { run: string; step?: number; without?: string }): Promise<CheckedFile> => {
    await hand.requireRest();
    const changed = without ? (bytes: Bytes): Promise<Bytes> => withoutPart(bytes, without, python) : undefined;
    const reopened = step === undefined ? await Keeper.reopened(shelf, id) : await Keeper.forked(shelf, id, step, changed);
    if (!reopened.keeper) {
      shelf.locks.release(id);
      const lost = `${reopened.lost} It belongs to no run any more: what it learns from now on is a new one.`.trim();
      return hand.check({ name: "rescued.tinygpt", bytes: reopened.bytes }, lost);
    }
    const checked = await checkedRun(reopened, python.file);
    hand.putAway();
    await hand.hold(reopened.keeper);
    return moving(checked, checked.file.bytes.buffer);
  },

  /** Of the adapters in hand, or of a file's: the model that they are for, or the plain model that the two make. */
  part: async ({ which, file: given }: { which: "base" | "merged"; file?: ModelBytes }): Promise<SavedFile> => {
    if (!given) await hand.requireRest();
    const file = given ?? (await hand.model().saved());
    if (!file.base) throw new Error("the model in hand has no adapter");
    if (which === "merged") return (await hand.merge(file))!;
    const base = await standing(file, "", python.file);
    return { bytes: base.bytes, name: base.title, step: 0 };
  },

  /** The plain model with parts that count for more, less or nothing; while training, as it is at the next step. */
  scaled: async ({ scales, file: given }: { scales: Scale[]; file?: ModelBytes }): Promise<SavedFile> => {
    const file = given ?? (await hand.model().asFile());
    return scaledFile((await hand.merge(file))?.bytes ?? file.bytes, scales, python);
  },

  /** The model as it is, as a file; while training, at the next step. */
  save: async (): Promise<SavedFile> => {
    const file = await hand.model().asFile();
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
    const file = given ?? (await hand.model().asFile());
    return webPage((await hand.merge(file))?.bytes ?? file.bytes, title, prompt, python);
  },

  life: async ({ file: given }: { file?: ModelBytes }): Promise<Omit<Life, "title">> => {
    const file = given ?? (await hand.model().asFile());
    const { parameters, progress } = (await ModelFile.open(file.bytes, python.file)).front;
    return { parameters, film: progress.film, history: progress.history };
  },

  /** What the Hub is given of the model: its file, its weights for others, its card. */
  published: async ({ file: given, ...facts }: PublishFacts & { file?: ModelBytes }): Promise<Publishing> => {
    const file = given ?? (await hand.model().asFile());
    return publishing((await hand.merge(file))?.bytes ?? file.bytes, facts, python);
  },

  /** The run under way, soon: the tab may be gone. */
  keep: async (): Promise<void> => {
    if (hand.run?.training) await hand.run.keepSoon();
  },

  /** A text, as far as `stop` where that is written; while training, between two blocks of steps. */
  write: (prompt: Prompt & { stop?: string }, line: Line<Piece>): Promise<void> => hand.model().write(prompt, line),

  /** How likely each byte is to be drawn next, the most likely first. */
  weigh: (prompt: Prompt): Promise<Likely[]> => hand.model().weigh(prompt),

  look: (look: Look) => looker.answer(look, hand.run),

  matter: (asked: Mattering, line: Line<never>) => looker.mattered(asked, hand.run, line.signal),

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

  library: (): Promise<Library> => library(shelf, hand.held),

  rename: async ({ run: id, title }: { run: string; title: string }): Promise<Library> => {
    await rename(id, title, shelf, hand.held);
    return library(shelf, hand.held);
  },

  delete: async (id: string): Promise<Library> => {
    if (hand.run?.training && hand.keeper?.folder.id === id) throw new Error("this run is under way; stop it first");
    await shelf.remove(id);
    if (hand.keeper?.folder.id === id) hand.keeper = null;
    return library(shelf, hand.held);
  },

  compare: (ids: string[]): Promise<Difference[]> => differences(ids, shelf),

  export: (ids: string[]) => exported(ids, shelf),

  /** A run's capsule. */
  share: (id: string) => capsuleOf(id, shelf, python),

  /** A text of each of its snapshots. */
  travel: async (asked: Travel, line: Line<Stop>): Promise<void> => {
    if (hand.run?.training) throw new Error("a run is under way; stop it first");
    await travel(asked, shelf, python, line);
  },

  estimate: async ({ text, ...wanted }: Wanted & { text: Text }, line: Line<TrialEvent>) => {
    await hand.requireRest();
    return estimated(wanted, await hand.textOf(text), python, line);
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
  hand = new Hand(python, shelf);
}

const ready = start().catch((error: unknown) => Promise.reject(new Error(`Python did not start: ${lastLine(error)}`)));
answerCalls(methods, ready, (error): Failure => (error instanceof Trouble ? error.failure : { message: lastLine(error) }));
