// The page's worker: Python plans and drives, an engine computes, the page is told. See protocol.ts.
import * as assets from "./assets.ts";
import { capabilities, reportedMemory } from "./features.ts";
import { Gpu } from "./gpu.ts";
import { ModelFile } from "./modelfile.ts";
import type { ToWorker } from "./protocol.ts";
import { lastLine, type Plan, type Python, type Session } from "./python.ts";
import { type Kept, Run, say } from "./run.ts";
import type { WasmOptions } from "./wasmplayer.ts";

type Start = Extract<ToWorker, { type: "start" }>;
type Wish = Partial<Omit<Start, "type">> & { type: "start" | "open" };

/** A run that core has found possible. Nothing of it has begun but its GPU. */
interface Prepared {
  session: Session;
  plan: Plan;
  gpu: Gpu | null;
  /** What it goes on from, given the model that was in the worker. */
  state: (inHand: Kept | null) => Kept | null;
}

let python: Python;
let run: Run | null = null;

async function prepare(wish: Wish): Promise<Prepared> {
  const { resume } = wish;
  const file = resume instanceof Uint8Array ? await ModelFile.open(resume, python.reader) : null;
  const from = resume === "in hand" ? inHand().stands() : file && { config: file.front.config, progress: file.front.progress, slots: file.front.slots };
  const gpu = wish.engine === "webgpu" ? await Gpu.open() : null;
  try {
    const session = python.session({
      preset: wish.preset ?? "",
      recipe: wish.recipe ?? "",
      changes: wish.changes ?? {},
      bytes: wish.text?.length ?? null,
      ...(wish.prompt ? { prompt: wish.prompt } : {}),
      ...(from ? { from } : {}),
      ...(gpu ? { device: gpu.facts() } : {}),
      ...(gpu && !gpu.info.software ? {} : { memory: { reported: reportedMemory() } }),
    });
    const plan = JSON.parse(session.plan()) as Plan;
    const read = (): Kept | null => file && { header: session.header_text(), state: file.body() };
    return { session, plan, gpu, state: (kept) => (resume && !file ? kept : read()) };
  } catch (error) {
    gpu?.close();
    throw error;
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

async function begin({ session, plan, gpu, state }: Prepared, wish: Wish, aside: Kept | null): Promise<Run> {
  const options: Omit<WasmOptions, "kernels"> = { threads: wish.threads ?? 0 };
  if (wish.build) options.build = wish.build;
  const made = new Run(session, plan, gpu, options);
  try {
    await made.begin(wish.type === "open" ? "opened" : "started", wish.text ?? new Uint8Array(), state(aside));
    return made;
  } catch (error) {
    made.close();
    throw error;
  }
}

/** A file's facts, once all of it was looked at. The model in the worker is given up for it. */
async function check({ name, bytes }: Extract<ToWorker, { type: "check" }>): Promise<void> {
  try {
    const { config, parameters, progress, leftOut } = (await ModelFile.open(bytes, python.reader)).front;
    const { step, loss, history, sample } = progress;
    say({ type: "checked", file: { bytes, name, step }, config, parameters, loss, history, sample, leftOut }, [bytes.buffer]);
    run?.close();
    run = null;
  } catch (error) {
    throw new Error(`the file ${name} cannot be loaded: ${lastLine(error)}`);
  }
}

async function handle(message: ToWorker): Promise<void> {
  switch (message.type) {
    case "check":
      await check(message);
      return;
    case "start":
    case "open":
      if (run?.training) throw new Error("a run is under way; stop it first");
      await run?.settled;
      await take(message);
      return;
    case "stop":
      run?.requestStop();
      return;
    default:
      await inHand().ask(message);
  }
}

const ready = (async () => {
  assets.fetchAhead();
  python = await assets.python();
  say({ type: "ready", capabilities: await capabilities() });
})();

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  ready.then(() => handle(data)).catch((error: unknown) => {
    if (!(error instanceof Said)) say({ type: "error", message: lastLine(error) });
  });
};
ready.catch((error: unknown) => say({ type: "error", message: `Python did not start: ${lastLine(error)}` }));
