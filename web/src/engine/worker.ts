// The page's worker: Python plans and drives, an engine computes, the page is told. See protocol.ts.
import wasmUrl from "@micropython/micropython-webassembly-pyscript/micropython.wasm?url";
import type { GpuRecipe, Recipe } from "./contract.ts";
import { capabilities } from "./features.ts";
import { Gpu } from "./gpu.ts";
import { bridge, lastLine, type Page, type Plan, type Python, type Session, startPython } from "./python.ts";
import { readModelFile, stateBytes, stateOf, writeModelFile } from "./modelfile.ts";
import type { PlayerOptions } from "./player.ts";
import type { CoreEvent, FromWorker, ToWorker } from "./protocol.ts";
import { WasmEngine } from "./wasm.ts";
import { WebGpuEngine } from "./webgpu.ts";

const SOURCES = import.meta.glob<string>(["../../../tinygpt/__init__.py", "../../../tinygpt/core/**/*.py"], {
  query: "?raw",
  import: "default",
  eager: true,
});
const SHADERS = import.meta.glob<string>("../../../tinygpt/kernels/*.wgsl", { query: "?raw", import: "default", eager: true });

// A GPU may be lost at any time, so its state is kept now and then: this often, and never more than a twentieth of the time.
const KEEP_FIRST = 5_000; // ms
const KEEP_EVERY = 30_000;
const KEEP_SHARE = 20;

type Start = Extract<ToWorker, { type: "start" }>;
type Asked = Extract<ToWorker, { type: "save" | "sample" }> | { type: "keep" };
type File = { bytes: Uint8Array<ArrayBuffer>; name: string };

const say = (message: FromWorker, transfer: Transferable[] = []): void => postMessage(message, { transfer });

async function kernels(file: string): Promise<ArrayBuffer> {
  const response = await fetch(`${import.meta.env.BASE_URL.replace(/\/$/, "")}/kernels/${file}`);
  if (!response.ok) throw new Error(`the kernels ${file} are not on this site (${response.status})`);
  return response.arrayBuffer();
}

async function shaders(file: string): Promise<string> {
  const text = SHADERS[`../../../tinygpt/kernels/${file}`];
  if (text === undefined) throw new Error(`the kernels ${file} are not on this site`);
  return text;
}

/** A run, and the model it leaves. */
class Run implements Page {
  private stop = false;
  private asked: Asked[] = [];
  private fault: unknown = null;
  training = false;
  private keepAt = performance.now() + KEEP_FIRST;
  private readonly session: Session;
  private readonly plan: Plan;
  private readonly engine: WasmEngine | WebGpuEngine;
  private kept: File | null;

  private constructor(session: Session, plan: Plan, engine: WasmEngine | WebGpuEngine, resumed: Uint8Array | undefined) {
    this.session = session;
    this.plan = plan;
    this.engine = engine;
    this.kept = resumed ? { bytes: new Uint8Array(resumed), name: "resumed.tinygpt" } : null;
    session.attach(bridge(engine, (error) => (this.fault = error)), this);
  }

  static async begin(python: Python, start: Start): Promise<Run> {
    const { preset, changes, text, prompt, resume } = start;
    const file = resume ? readModelFile(resume) : null;
    const gpu = start.engine === "webgpu" ? await Gpu.open() : null;
    let session: Session, plan: Plan;
    try {
      session = python.session({
        preset,
        changes,
        bytes: text.length,
        ...(prompt ? { prompt } : {}),
        ...(file ? { header: file.header, step: file.step } : {}),
        ...(gpu ? { device: gpu.facts() } : {}),
      });
      plan = JSON.parse(session.plan()) as Plan;
    } catch (error) {
      gpu?.close();
      throw error;
    }
    const engine = await makeEngine(plan, gpu, start);
    try {
      engine.loadCorpus(text.subarray(0, plan.trainBytes), text.subarray(plan.trainBytes));
      if (file) await engine.importState(await stateOf(file, plan.recipe));
    } catch (error) {
      engine.close();
      throw error;
    }
    const { config, parameters, trainBytes, valBytes, advice } = plan;
    const arenaBytes = engine.bytes;
    say({ type: "started", config, engine: engine.describe(), parameters, arenaBytes, trainBytes, valBytes, advice });
    return new Run(session, plan, engine, resume);
  }

  async train(): Promise<void> {
    this.training = true;
    try {
      const { reason, step, error } = JSON.parse(await this.session.train());
      if (error) say({ type: "error", message: error });
      else say({ type: "stopped", reason, step });
      this.keepAt = 0;
    } catch (error) {
      this.complain(error);
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
    if (this.asked.length === 0 && !this.keeping) return;
    try {
      await this.session.attend();
    } catch (error) {
      this.complain(error);
    }
  }

  private get lost(): Error | null {
    return this.engine instanceof WebGpuEngine ? this.engine.player.gpu.brokenBy : null;
  }

  private get keeping(): boolean {
    return this.engine.name === "webgpu" && !this.lost && performance.now() >= this.keepAt;
  }

  private complain(error: unknown): void {
    const message = sentenceOf(this.lost ?? this.fault ?? error);
    say({ type: "error", message, ...(this.lost ? { lost: this.kept } : {}) });
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
    const asked = [...this.asked, ...(this.keeping ? [{ type: "keep" }] : [])];
    this.asked = [];
    return JSON.stringify(asked);
  }

  async save(header: string, step: number): Promise<void> {
    const { bytes, name } = await this.file(header, step);
    say({ type: "saved", bytes, name }, [bytes.buffer]);
  }

  async keep(header: string, step: number): Promise<void> {
    const began = performance.now();
    try {
      this.kept = await this.file(header, step);
    } catch (error) {
      console.warn(`the model could not be kept: ${sentenceOf(error)}`); // the one before still is
    }
    const took = performance.now() - began;
    this.keepAt = this.training ? performance.now() + Math.max(KEEP_EVERY, KEEP_SHARE * took) : Infinity;
  }

  private async file(header: string, step: number): Promise<File> {
    const state = stateBytes(this.plan.recipe, await this.engine.exportState());
    const bytes = await writeModelFile(JSON.parse(header) as Record<string, unknown>, state);
    const { layers, d_model } = this.plan.config.model;
    return { bytes, name: `tinygpt-${layers}x${d_model}-step${step}.tinygpt` };
  }

  sampled(text: string): void {
    say({ type: "sampled", text });
  }

  refused(message: string): void {
    say({ type: "error", message });
  }
}

/** The device, if there is one, is the engine's from here on. */
async function makeEngine({ recipe }: Plan, gpu: Gpu | null, { threads, build }: Start): Promise<WasmEngine | WebGpuEngine> {
  if (gpu) {
    const onProgress = (made: number, of: number): void => say({ type: "progress", made, of });
    return WebGpuEngine.create(gpu, recipe as GpuRecipe, { kernels, shaders, onProgress });
  }
  const options: PlayerOptions = { kernels, threads: threads ?? 0 };
  if (build) options.build = build;
  return WasmEngine.create(recipe as Recipe, options);
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
  say({ type: "ready", capabilities: await capabilities(), ...python.facts() });
})();

onmessage = ({ data }: MessageEvent<ToWorker>) => {
  ready.then(() => handle(data)).catch((error: unknown) => say({ type: "error", message: sentenceOf(error) }));
};
ready.catch((error: unknown) => say({ type: "error", message: `Python did not start: ${sentenceOf(error)}` }));
