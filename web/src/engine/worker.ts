// The page's worker: Python plans and drives, the WebAssembly engine computes, the page is told. See protocol.ts.
import wasmUrl from "@micropython/micropython-webassembly-pyscript/micropython.wasm?url";
import { capabilities } from "./features.ts";
import { bridge, lastLine, type Page, type Plan, type Python, type Session, startPython } from "./python.ts";
import { readModelFile, stateBytes, stateOf, writeModelFile } from "./modelfile.ts";
import type { PlayerOptions } from "./player.ts";
import type { CoreEvent, FromWorker, ToWorker } from "./protocol.ts";
import { WasmEngine } from "./wasm.ts";

const SOURCES = import.meta.glob<string>(["../../../tinygpt/__init__.py", "../../../tinygpt/core/*.py"], {
  query: "?raw",
  import: "default",
  eager: true,
});

type Start = Extract<ToWorker, { type: "start" }>;
type Asked = Extract<ToWorker, { type: "save" | "sample" }>;

const say = (message: FromWorker, transfer: Transferable[] = []): void => postMessage(message, { transfer });

async function kernels(file: string): Promise<ArrayBuffer> {
  const response = await fetch(`${import.meta.env.BASE_URL.replace(/\/$/, "")}/kernels/${file}`);
  if (!response.ok) throw new Error(`the kernels ${file} are not on this site (${response.status})`);
  return response.arrayBuffer();
}

/** A run, and the model it leaves. */
class Run implements Page {
  private stop = false;
  private asked: Asked[] = [];
  private fault: unknown = null;
  training = false;
  private readonly session: Session;
  private readonly plan: Plan;
  private readonly engine: WasmEngine;

  private constructor(session: Session, plan: Plan, engine: WasmEngine) {
    this.session = session;
    this.plan = plan;
    this.engine = engine;
    session.attach(bridge(engine, (error) => (this.fault = error)), this);
  }

  static async begin(python: Python, { preset, changes, text, prompt, resume, threads, build }: Start): Promise<Run> {
    const file = resume ? readModelFile(resume) : null;
    const session = python.session({
      preset,
      changes,
      bytes: text.length,
      ...(prompt ? { prompt } : {}),
      ...(file ? { header: file.header, step: file.step } : {}),
    });
    const plan = JSON.parse(session.plan()) as Plan;
    const options: PlayerOptions = { kernels, threads: threads ?? 0 };
    if (build) options.build = build;
    const engine = await WasmEngine.create(plan.recipe, options);
    try {
      engine.loadCorpus(text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes));
      if (file) await engine.importState(await stateOf(file, plan.recipe));
    } catch (error) {
      engine.close();
      throw error;
    }
    const { config, parameters, trainBytes, valBytes, advice } = plan;
    const arenaBytes = 4 * plan.recipe.arena;
    say({ type: "started", config, engine: engine.describe(), parameters, arenaBytes, trainBytes, valBytes, advice });
    return new Run(session, plan, engine);
  }

  async train(): Promise<void> {
    this.training = true;
    try {
      const { reason, step, error } = JSON.parse(await this.session.train());
      if (error) say({ type: "error", message: error });
      else say({ type: "stopped", reason, step });
    } catch (error) {
      say({ type: "error", message: sentenceOf(this.fault ?? error) });
    } finally {
      this.training = false;
    }
    await this.attend();
  }

  requestStop(): void {
    this.stop = true;
  }

  /** Now, or between two steps. */
  async ask(request: Asked): Promise<void> {
    this.asked.push(request);
    if (!this.training) await this.attend();
  }

  private async attend(): Promise<void> {
    if (this.asked.length === 0) return;
    try {
      await this.session.attend();
    } catch (error) {
      say({ type: "error", message: sentenceOf(this.fault ?? error) });
    }
  }

  close(): void {
    this.engine.close();
  }

  // --- what Python asks of the page
  now(): number {
    return performance.now() / 1000;
  }

  emit(event: string): void {
    say({ type: "event", event: JSON.parse(event) as CoreEvent });
  }

  stopping(): boolean {
    return this.stop;
  }

  requests(): string {
    const asked = JSON.stringify(this.asked);
    this.asked = [];
    return asked;
  }

  async save(header: string, step: number): Promise<void> {
    const state = stateBytes(this.plan.recipe, await this.engine.exportState());
    const bytes = await writeModelFile(JSON.parse(header) as Record<string, unknown>, state);
    const { layers, d_model } = this.plan.config.model;
    say({ type: "saved", bytes, name: `tinygpt-${layers}x${d_model}-step${step}.tinygpt` }, [bytes.buffer]);
  }

  sampled(text: string): void {
    say({ type: "sampled", text });
  }

  refused(message: string): void {
    say({ type: "error", message });
  }
}

function sentenceOf(error: unknown): string {
  return lastLine(error);
}

let run: Run | null = null;
let python: Python;

async function handle(message: ToWorker): Promise<void> {
  switch (message.type) {
    case "start":
      if (run?.training) throw new Error("a run is under way; stop it first");
      run?.close();
      run = null;
      run = await Run.begin(python, message);
      await run.train();
      return;
    case "stop":
      run?.requestStop();
      return;
    default:
      if (!run) throw new Error("there is no model yet; train one or load one first");
      await run.ask(message);
  }
}

const ready = (async () => {
  const files: Record<string, string> = {};
  for (const [path, text] of Object.entries(SOURCES)) files[path.replace(/^.*\/tinygpt\//, "")] = text;
  python = await startPython(files, wasmUrl);
  say({ type: "ready", capabilities: capabilities(), ...python.facts() });
})();

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  ready.then(() => handle(data)).catch((error: unknown) => say({ type: "error", message: sentenceOf(error) }));
};
ready.catch((error: unknown) => say({ type: "error", message: `Python did not start: ${sentenceOf(error)}` }));
