// The page's worker: Python plans and drives, an engine computes, the page is told. See protocol.ts.
import { mergedFile, type Standing } from "./adapters.ts";
import * as assets from "./assets.ts";
import { findBase, standing } from "./bases.ts";
import { inspected, replayed } from "./capsules.ts";
import { capabilities, reportedMemory } from "./features.ts";
import { choose } from "./budget.ts";
import { estimated } from "./estimate.ts";
import { Gpu } from "./gpu.ts";
import { Looker } from "./inside.ts";
import { measured } from "./measure.ts";
import { ModelFile, type Origin } from "./modelfile.ts";
import { originsOf } from "./origins.ts";
import type { Teaching, ToWorker } from "./protocol.ts";
import { lastLine, type Plan, type Python, type Session } from "./python.ts";
import { type Kept, Run, say } from "./run.ts";
import { checkedRun, Librarian } from "./library.ts";
import { advised, leave, surveyed, visit } from "./texts.ts";
import type { Trial } from "./trial.ts";
import type { WasmOptions } from "./wasmplayer.ts";
import { openFiles } from "../storage/files.ts";
import { Keeper } from "../storage/keeper.ts";
import { Shelf } from "../storage/shelf.ts";

type Start = Extract<ToWorker, { type: "start" }>;
type Wish = Partial<Omit<Start, "type">> & { type: "start" | "open"; budget?: Record<string, unknown> };
type Text = Uint8Array<ArrayBuffer>;

/** A run that core has found possible. Nothing of it has begun but its GPU. */
interface Prepared {
  session: Session;
  plan: Plan;
  gpu: Gpu | null;
  base: Standing | null; // null: it is a whole model
  keeper: Keeper | null; // null: the model only writes
  text: Text;
  /** What it goes on from, given the model that was in the worker. */
  state: (inHand: Kept | null) => Kept | null;
}

let python: Python;
let shelf: Shelf;
let librarian: Librarian;
let run: Run | null = null;
let looker: Looker;
let keeper: Keeper | null = null; // of the model in hand, where that is a run's
let choosing: Trial | null = null; // of a run that is to end in time

/** What a run goes on from, and what adapters stand on. */
interface Beginning {
  file: ModelFile | null; // null: it is new, or goes on from the model in the worker
  from: Origin | null;
  base: Standing | null;
}

async function beginningOf({ resume, adapt }: Wish): Promise<Beginning> {
  const { reader } = python;
  if (!resume) return { file: null, from: null, base: null };
  const given = resume === "in hand" ? null : resume;
  if (adapt) return { file: null, from: null, base: await standing(given ?? (await inHand().saved()), adapt.title, reader) };
  const file = given && (await ModelFile.open(given.bytes, reader));
  if (!file) return { file, from: inHand().stands(), base: inHand().base };
  return { file, from: file.origin, base: file.front.adapter ? await standing(given!, "", reader) : null };
}

async function prepare(wish: Wish): Promise<Prepared> {
  const { file, from, base } = await beginningOf(wish);
  const kept = wish.type === "start" ? await keeperOf(wish.run) : null;
  const text = wish.type === "start" ? await textOf(wish.text!) : null;
  const gpu = wish.engine === "webgpu" ? await Gpu.open() : null;
  try {
    const session = python.session({
      preset: wish.preset ?? "",
      recipe: wish.recipe ?? "",
      changes: wish.changes ?? {},
      bytes: text?.length ?? null,
      ...(wish.title ? { title: wish.title } : {}),
      ...(wish.budget ? { budget: wish.budget } : {}),
      ...(wish.prompt ? { prompt: wish.prompt } : {}),
      ...(from ? { from } : {}),
      ...(base ? { base: { config: base.config, sha256: base.sha256 } } : {}),
      ...(wish.adapt ? { lora: wish.adapt.lora } : {}),
      ...(kept ? { kept: await kept.folder.found() } : {}),
      ...(gpu ? { device: gpu.facts() } : {}),
      ...(gpu && !gpu.info.software ? {} : { memory: { reported: reportedMemory() } }),
    });
    const plan = JSON.parse(session.plan()) as Plan;
    const read = (): Kept | null => file && { header: session.header_text(), state: plan.compact ? file.packed() : file.body() };
    const label = { title: wish.title ?? wish.preset ?? "", textName: wish.textName ?? "", ...(base ? { base } : {}) };
    if (text) kept!.begin(from?.progress.step ?? 0, label, text);
    return { session, plan, gpu, base, keeper: kept, text: text ?? new Uint8Array(), state: (aside) => (from && !file ? aside : read()) };
  } catch (error) {
    gpu?.close();
    throw error;
  }
}

async function textOf(text: Text | string): Promise<Text> {
  const found = typeof text === "string" ? await shelf.text(text) : text;
  if (!found) throw new Error("the text of this run cannot be read any more; choose one");
  return found;
}

/** Of the run in hand, or of a new one. */
async function keeperOf(id: string | undefined): Promise<Keeper> {
  if (id === undefined) return Keeper.fresh(shelf);
  return keeper?.folder.id === id ? keeper : (await Keeper.reopened(shelf, id)).keeper;
}

/** The run that is in hand from now on, under its lock; the lock of the one before is let go of. */
async function hold(next: Keeper | null): Promise<void> {
  if (next) await shelf.hold(next.folder.id);
  if (keeper && keeper.folder.id !== next?.folder.id) keeper.release();
  keeper = next;
}

/** What to start where a time was given instead of a size; null: nothing, it was stopped. */
async function within(seconds: number, start: Start): Promise<Wish | null> {
  try {
    const text = await textOf(start.text);
    const answer = await choose(start, seconds, text, python, (trial) => (choosing = trial));
    if ("stopped" in answer) return null;
    const { preset, recipe, changes, budget } = answer.request;
    return { ...start, text, preset, recipe, changes, ...(budget ? { budget } : {}) };
  } finally {
    choosing = null;
  }
}

function inHand(): Run {
  if (!run) throw new Error("there is no model yet; train one or load one first");
  return run;
}

async function take(wish: Wish): Promise<void> {
  const prepared = await prepare(wish);
  const { gpu, plan } = prepared;
  if (plan.doubt && !wish.sure) {
    gpu?.close();
    say({ type: "doubt", message: plan.doubt });
    return;
  }
  run = await replace(prepared, wish);
  if (prepared.keeper) await hold(prepared.keeper);
  if (wish.type === "start") await run.train();
}

/** Puts the new run in the place of the one before. Should it fail, the page is given the model of that as a file. */
async function replace(prepared: Prepared, wish: Wish): Promise<Run> {
  const before = run;
  let aside: Kept | null;
  try {
    aside = before && !before.lost ? await before.export() : null;
  } catch (error) {
    prepared.gpu?.close();
    throw error;
  }
  before?.close();
  run = null;
  try {
    return await begin(prepared, wish, aside);
  } catch (error) {
    say({ type: "error", message: lastLine(error), ...(aside ? { instead: await before!.file(aside) } : {}) });
    throw new Said();
  }
}

/** An error that the page has been told of. */
class Said extends Error {}

async function begin({ session, plan, gpu, base, keeper: kept, text, state }: Prepared, wish: Wish, aside: Kept | null): Promise<Run> {
  const options: Omit<WasmOptions, "kernels"> = { threads: wish.threads ?? 0 };
  if (wish.build) options.build = wish.build;
  const made = new Run(session, plan, gpu, options, base, kept, python.reader);
  try {
    await made.begin(wish.type === "open" ? "opened" : "started", text, state(aside));
    return made;
  } catch (error) {
    made.close();
    throw error;
  }
}

/** A file's facts, once all of it was looked at. The model in the worker is given up for it. */
async function check({ name, bytes, inHand: near }: Extract<ToWorker, { type: "check" }>): Promise<void> {
  try {
    const { front } = await ModelFile.open(bytes, python.reader);
    const { config, parameters, progress, leftOut } = front;
    const { step, loss, history, sample } = progress;
    const base = front.adapter ? await findBase(front, await nearest(near), shelf, python.reader) : null;
    const below = base ? { base: { title: base.title, sha256: base.sha256, bytes: base.bytes } } : {};
    say({ type: "checked", file: { bytes, name, step, ...below }, config, parameters, loss, history, sample, leftOut }, [bytes.buffer]);
    putAway();
    await hold(null);
  } catch (error) {
    throw new Error(`the file ${name} cannot be loaded: ${lastLine(error)}`);
  }
}

/** The model in hand, as what adapters could stand on. */
async function nearest(inHand: Extract<ToWorker, { type: "check" }>["inHand"]): Promise<Standing | null> {
  const file = inHand?.file ?? (run && !run.lost ? await run.saved() : null);
  return file && standing(file, inHand?.title ?? "", python.reader);
}

/** Of the adapters in hand: what they stand on, or the plain model that the two make. */
async function part({ which, file: given }: Extract<ToWorker, { type: "part" }>): Promise<void> {
  const { reader } = python;
  try {
    if (!given) requireRest();
    await run?.settled;
    const file = given ?? (await inHand().saved());
    if (!file.base) throw new Error("the model in hand has no adapter");
    const base = await standing(file, "", reader);
    const adapter = await ModelFile.open(file.bytes, reader);
    const below = { bytes: base.bytes, name: base.title, step: 0 };
    say({ type: "parted", file: which === "base" ? below : await mergedFile(base, adapter.weights(), adapter.origin, reader) });
  } catch (error) {
    say({ type: "refused", message: lastLine(error) });
  }
}

function putAway(): void {
  run?.close();
  run = null;
}

/** A run of the library, put in hand as a file would be. */
async function takeRun({ run: id, step }: Extract<ToWorker, { type: "take" }>): Promise<void> {
  const reopened = step === undefined ? await Keeper.reopened(shelf, id) : await Keeper.forked(shelf, id, step);
  const checked = await checkedRun(reopened, python.reader);
  say({ type: "checked", ...checked }, [checked.file.bytes.buffer]);
  putAway();
  await hold(reopened.keeper);
}

function requireRest(): void {
  if (run?.training) throw new Error("a run is under way; stop it first");
}

async function trace({ text, corpus, valFraction }: Extract<ToWorker, { type: "trace" }>): Promise<void> {
  try {
    const found = await textOf(corpus);
    const learnt = python.inside.learnt(found.length, valFraction);
    say({ type: "traced", text, ...originsOf(text, found.subarray(0, learnt), found.subarray(learnt)) });
  } catch (error) {
    say({ type: "untraced", message: lastLine(error) });
  }
}

async function handle(message: ToWorker): Promise<void> {
  switch (message.type) {
    case "check":
      await check(message);
      return;
    case "start": {
      requireRest();
      await run?.settled;
      const wish = message.seconds === undefined ? message : await within(message.seconds, message);
      if (wish) await take(wish);
      else say({ type: "refused", message: "It was stopped before anything had begun" });
      return;
    }
    case "part":
      await part(message);
      return;
    case "open":
      requireRest();
      await run?.settled;
      await take(message);
      return;
    case "take":
      requireRest();
      await run?.settled;
      await takeRun(message);
      return;
    case "look":
      await looker.answer(message, run);
      return;
    case "trace":
      await trace(message);
      return;
    case "library":
    case "rename":
    case "delete":
    case "compare":
    case "export":
    case "travel":
    case "share":
      await librarian.serve(message, { run: keeper?.folder.id ?? null, training: run?.training ?? false });
      if (message.type === "delete" && keeper && !shelf.locks.has(keeper.folder.id)) keeper = null;
      return;
    case "measure":
      say({ type: "measured", ...(await measured(message, python)) });
      return;
    case "inspect":
      say({ type: "inspected", ...(await inspected(message.capsule, shelf, python)) });
      return;
    case "replay":
      say({ type: "judged", ...(await replayed(message, shelf, python)) });
      return;
    case "estimate":
      try {
        requireRest();
        say({ type: "estimated", ...(await estimated(message, await textOf(message.text), python)) });
      } catch (error) {
        say({ type: "unestimated", id: message.id, message: lastLine(error) });
      }
      return;
    case "survey":
      say(surveyed(message));
      return;
    case "advise":
      say(advised(message, python));
      return;
    case "teaching": {
      const told = JSON.parse(python.asked.teaching(JSON.stringify({ config: message.config, lora: message.lora }))) as Teaching;
      say({ type: "teaching", id: message.id, ...told });
      return;
    }
    case "visit":
      await visit(message, python, say);
      return;
    case "leave":
      leave();
      return;
    case "stop":
      run?.requestStop();
      choosing?.stop();
      return;
    case "hush":
      run?.hush(message.id);
      return;
    case "keep":
      if (run?.training) await run.ask(message);
      return;
    default:
      await inHand().ask(message);
  }
}

const ready = (async () => {
  assets.fetchAhead();
  python = await assets.python();
  looker = new Looker(python);
  shelf = new Shelf(await openFiles(), python.shelf);
  librarian = new Librarian(shelf, python);
  say({ type: "ready", capabilities: await capabilities() });
})();

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  ready.then(() => handle(data)).catch((error: unknown) => {
    if (!(error instanceof Said)) say({ type: "error", message: lastLine(error) });
  });
};
ready.catch((error: unknown) => say({ type: "error", message: `Python did not start: ${lastLine(error)}` }));
