// The page's one line to the worker: what runs, what it reported, and what the user asked of it.
import { Curve } from "../lib/curve";
import { count } from "../lib/format";
import { site } from "../lib/site";
import type { Capabilities, CoreEvent, FromWorker, ToWorker } from "../engine/protocol";
import { parseModelFile, type ModelFile } from "../lib/modelFile";
import type { Means, Model, Notice, Order, Phase, Sample } from "./kinds";

type Started = Extract<FromWorker, { type: "started" }>;
type Start = Extract<ToWorker, { type: "start" }>;

const READY_WITHIN = 30_000; // ms
const SHOW_EVERY = 80; // ms: steps may come faster than a screen shows them

export class Run {
  phase = $state<Phase>("loading");
  capabilities = $state.raw<Capabilities | null>(null);
  started = $state.raw<Started | null>(null);
  model = $state.raw<Model | null>(null);
  notice = $state.raw<Notice | null>(null);
  advice = $state.raw<string[]>([]);
  samples = $state.raw<Sample[]>([]);
  unsaved = $state(false);
  /** While a GPU's kernels are compiled. */
  compiled = $state.raw<{ made: number; of: number } | null>(null);
  /** The GPU is lost; the model in hand is the last state of it that was kept, if any. */
  lost = $state(false);

  // As of the last time the numbers were shown.
  step = $state(0);
  steps = $state(0);
  loss = $state<number | null>(null);
  val = $state<number | null>(null);
  best = $state<number | null>(null);
  tokensPerSecond = $state(0);
  secondsLeft = $state(0);
  /** The same object for a whole run; `shown` changes when it has grown. */
  curve = $state.raw(new Curve(1));
  shown = $state(0);

  private worker: Worker | null = null;
  private patience: ReturnType<typeof setTimeout> | undefined;
  private pending: ReturnType<typeof setTimeout> | undefined;
  private latest: Extract<CoreEvent, { event: "step" }> | null = null;
  private title = "";
  private prompt = "";
  private asked: Model | null = null; // to write, as soon as it can
  private past: Curve | null = null; // the curve that a continued run goes on from
  private onSaved: ((bytes: Uint8Array<ArrayBuffer>, name: string) => void) | null = null;
  private sampleCount = 0;

  get busy(): boolean {
    return this.phase === "starting" || this.phase === "training" || this.phase === "stopping";
  }

  connect(): void {
    this.phase = "loading";
    this.worker = new Worker(new URL("../engine/worker.ts", import.meta.url), { type: "module", name: "tinygpt" });
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
    this.worker.onerror = (event) => this.died(event.message);
    this.worker.onmessageerror = () => this.died("a message could not be read");
    this.patience = setTimeout(() => this.died("it did not start in time"), READY_WITHIN);
  }

  disconnect(): void {
    clearTimeout(this.patience);
    clearTimeout(this.pending);
    this.pending = undefined;
    this.worker?.terminate();
    this.worker = null;
  }

  /** Train a new model. */
  train(order: Order): void {
    this.past = null;
    this.model = null;
    this.unsaved = false;
    this.begin(order, {}, order.preset);
  }

  /** Train the model in hand up to `steps`. */
  continueTo(steps: number, means: Means): void {
    const model = this.model;
    if (!model) return;
    const go = (file: ModelFile) => {
      this.past = this.curve;
      this.model = { ...model, file }; // should the start fail, it is still there
      this.begin({ ...means, preset: site.defaultPreset, changes: { steps } }, { resume: file.bytes }, model.title);
    };
    if (model.file) return go(model.file);
    this.phase = "starting";
    const { config, step } = model;
    this.onSaved = (bytes, name) => go({ name, bytes, config, step, loss: this.loss, history: [], sample: "" });
    this.send({ type: "save" });
  }

  stop(): void {
    this.phase = "stopping";
    this.send({ type: "stop" });
  }

  save(deliver: (bytes: Uint8Array<ArrayBuffer>, name: string) => void): void {
    const file = this.model?.file;
    if (file) return deliver(file.bytes, file.name);
    this.onSaved = (bytes, name) => {
      deliver(bytes, name);
      this.unsaved = false;
    };
    this.send({ type: "save" });
  }

  /** Let the model write on from `prompt`. One that is in a file only goes to the worker first: a run of no steps. */
  write(prompt: string, means: Means): void {
    const model = this.model;
    if (!model) return;
    this.prompt = prompt;
    this.asked = model;
    if (model.file) this.continueTo(Math.max(1, model.step), means);
    else this.ask();
  }

  private ask(): void {
    this.phase = "writing";
    this.send({ type: "sample", prompt: this.prompt, settings: {} });
  }

  /** Put a file's model in hand. */
  load(file: ModelFile): void {
    this.reset(Number(file.config.train["steps"]), file.history);
    this.unsaved = false;
    this.model = { title: file.name, config: file.config, step: file.step, file };
    this.started = null;
    this.step = file.step;
    this.loss = file.loss;
    this.notice = { kind: "info", text: `Loaded ${file.name}: step ${count(file.step)}. It has not left this machine.` };
    if (file.sample) this.addSample(`step ${count(file.step)}, from the file`, file.sample);
  }

  complain(text: string): void {
    this.notice = { kind: "error", text };
  }

  private begin(order: Order, more: Pick<Start, "resume">, title: string): void {
    if (!this.worker) this.connect();
    this.title = title;
    this.phase = "starting";
    this.notice = null;
    this.compiled = null;
    this.lost = false;
    this.advice = [];
    const { preset, changes, text, engine, threads } = order;
    this.send({ type: "start", preset, changes, text, engine, threads, ...more });
  }

  private send(message: ToWorker): void {
    this.worker?.postMessage(message);
  }

  private take(message: FromWorker): void {
    switch (message.type) {
      case "ready":
        clearTimeout(this.patience);
        this.capabilities = message.capabilities;
        if (this.phase === "loading") this.phase = "idle";
        break;
      case "progress":
        this.compiled = message;
        break;
      case "started":
        this.compiled = null;
        this.onStarted(message);
        break;
      case "event":
        this.onEvent(message.event);
        break;
      case "saved": {
        const deliver = this.onSaved;
        this.onSaved = null;
        deliver?.(message.bytes as Uint8Array<ArrayBuffer>, message.name);
        break;
      }
      case "sampled":
        this.addSample(`step ${count(this.step)}, as asked`, this.prompt + message.text);
        this.asked = null;
        this.phase = "idle";
        break;
      case "stopped":
        this.show();
        this.rest();
        if (this.asked) this.ask();
        break;
      case "error":
        this.show();
        this.onSaved = this.asked = null;
        this.compiled = null;
        this.complain(message.message);
        if (message.lost !== undefined) this.onLost(message.message, message.lost);
        else if (this.capabilities) this.rest();
        else this.phase = "broken";
        break;
    }
  }

  private onStarted(message: Started): void {
    const steps = Number(message.config.train["steps"]);
    this.started = message;
    if (this.asked) {
      this.model = { ...this.asked, file: null }; // it keeps its own plan
      return;
    }
    if (this.past) {
      this.steps = steps;
      this.curve = this.past;
    } else {
      this.reset(steps);
    }
    this.advice = message.advice;
    this.model = { title: this.title, config: message.config, step: this.step, file: null };
    this.unsaved = true;
    this.phase = "training";
  }

  private onEvent(event: CoreEvent): void {
    if (event.event === "step") {
      this.curve.addStep(event.step, event.loss);
      this.latest = event;
    } else if (event.event === "eval") {
      this.curve.addValidation(event.val_loss);
      this.val = event.val_loss;
      if (event.best) this.best = event.val_loss;
    } else if (event.event === "sample") {
      this.addSample(`step ${count(event.step)}`, event.text);
    }
    this.pending ??= setTimeout(() => this.show(), SHOW_EVERY);
  }

  private show(): void {
    clearTimeout(this.pending);
    this.pending = undefined;
    if (this.latest) {
      this.step = this.latest.step;
      this.tokensPerSecond = this.latest.tokens_per_s;
      this.secondsLeft = this.latest.eta_s;
      this.loss = this.curve.smoothed;
    }
    this.shown += 1;
  }

  /** A run has ended. */
  private rest(): void {
    if (this.model && !this.model.file) this.model = { ...this.model, step: this.step };
    this.phase = "idle";
  }

  /** The engine is gone, and the model in it: in hand is what was kept, as a file. */
  private onLost(why: string, kept: { bytes: Uint8Array<ArrayBuffer>; name: string } | null): void {
    this.lost = true;
    this.phase = "idle";
    if (!kept || !this.model) {
      this.model = null;
      this.unsaved = false;
      this.complain(`${sentence(why)} The model was not kept yet: train anew, on WebAssembly if it happens again.`);
      return;
    }
    const file = parseModelFile(kept.name, kept.bytes.buffer);
    this.model = { ...this.model, step: file.step, file };
    this.step = file.step;
    this.latest = null;
    this.curve = this.curve.until(file.step);
    this.loss = this.curve.smoothed;
    this.shown += 1;
    this.complain(`${sentence(why)} The model as of step ${count(file.step)} is in hand.`);
  }

  private died(why: string): void {
    const lost = this.model !== null && this.model.file === null;
    this.disconnect();
    this.onSaved = this.asked = null;
    if (lost) {
      this.model = null;
      this.unsaved = false;
    }
    this.complain(
      `The engine's worker died${why ? ` (${why})` : ""}.` +
        (lost ? " The model in it is lost: go on from a saved file, or train anew." : " Press Train to start it again."),
    );
    this.phase = "broken";
  }

  private reset(steps: number, past: [number, number][] = []): void {
    this.curve = new Curve(steps, past);
    this.steps = steps;
    this.step = 0;
    this.latest = null;
    this.loss = this.val = this.best = null;
    this.tokensPerSecond = this.secondsLeft = 0;
    this.samples = [];
    this.shown += 1;
  }

  private addSample(title: string, text: string): void {
    this.sampleCount += 1;
    this.samples = [{ id: this.sampleCount, title, text }, ...this.samples];
  }
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.?$/, ".");
}
