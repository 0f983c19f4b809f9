// The page's one line to the worker: what runs, what it reported, and what the user asked of it.
import { bytesOf, textOf } from "../lib/bytes";
import { NotServed } from "../lib/fetched";
import { count, sentence } from "../lib/format";
import { site } from "../lib/site";
import type { Capabilities, Changes, CheckedFile, FromWorker, SavedFile, ToWorker } from "../engine/protocol";
import { Inside } from "./inside.svelte";
import { Estimate } from "./estimate.svelte";
import { Facts } from "./facts.svelte";
import { Hub } from "./hub.svelte";
import type { Answer, Machine, Means, Model, Notice, Order, Phase, Question } from "./kinds";
import { Library } from "./library.svelte";
import { Readings } from "./readings.svelte";
import { openWorker } from "./worker";

type Started = Extract<FromWorker, { type: "started" | "opened" }>;
type Stopped = Extract<FromWorker, { type: "stopped" }>;
type Failure = Extract<FromWorker, { type: "error" }>;
type Start = Extract<ToWorker, { type: "start" }>;
type More = Pick<Start, "resume" | "run" | "adapt">;
type Wish = Extract<ToWorker, { type: "start" | "open" }>;

const READY_WITHIN = 30_000; // ms

export class Run extends Readings {
  phase = $state<Phase>("loading");
  capabilities = $state.raw<Capabilities | null>(null);
  started = $state.raw<Started | null>(null);
  model = $state.raw<Model | null>(null);
  notice = $state.raw<Notice | null>(null);
  savedAt = $state<number | null>(null); // the step of the model in hand that a file has; `keptAt`: that the browser's storage has
  readonly library = new Library((message) => this.send(message));
  readonly inside = new Inside((message) => this.send(message), () => this.model?.file ?? null);
  readonly hub = new Hub((message) => this.send(message));
  readonly estimate = new Estimate((message) => this.send(message));
  readonly facts = new Facts((message, transfer) => this.send(message, transfer));
  /** How often a model came to hand: from a file, or at the end of a run. */
  arrivals = $state(0);
  /** Which size makes the most of a time that was given. */
  measuring = $state(false);
  /** While a GPU's kernels are compiled. */
  compiled = $state.raw<{ made: number; of: number } | null>(null);
  /** The GPU is lost; the model in hand is the last state of it that was kept, if any. */
  lost = $state(false);

  private worker: Worker | null = null;
  private patience: ReturnType<typeof setTimeout> | undefined;
  private title = "";
  private afterLoading: (() => void) | null = null;
  private questions = 0;
  private readonly answers = new Map<number, (answer: Answer | null) => void>();
  private first: Extract<ToWorker, { type: "write" | "weigh" }> | null = null; // to be asked once the model is in the worker
  private wish: Wish | null = null; // that the worker may have doubts about
  private going = false; // on with the model in hand, or a new one
  private below: string | null = null; // what it stands on is called, where it is adapters
  private onParted: ((file: SavedFile) => void) | null = null;
  private onSaved: ((file: SavedFile) => void) | null = null;
  private after: Machine | null = null; // that a run of the library is to go on with once it is here
  private ours = false; // the file to check is the user's, or the site's

  /** Whether the model in hand outlives the tab; while it trains, all but the last few steps of it. */
  get kept(): boolean {
    if (!this.library.durable || this.unkept) return false;
    return this.busy ? this.keptAt !== null : this.keptAt === this.step;
  }

  get unsaved(): boolean {
    return this.model !== null && this.step > 0 && this.step !== this.savedAt && !this.kept;
  }

  get busy(): boolean {
    return this.phase === "starting" || this.phase === "training" || this.phase === "stopping";
  }

  /** With something short that cannot be stopped. */
  get occupied(): boolean {
    return this.phase === "checking" || this.phase === "writing";
  }

  connect(): void {
    this.phase = "loading";
    this.worker = openWorker("tinygpt");
    this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
    this.worker.onerror = (event) => this.died(event.message);
    this.worker.onmessageerror = () => this.died("a message could not be read");
    this.patience = setTimeout(() => this.died("it did not start in time"), READY_WITHIN);
  }

  disconnect(): void {
    clearTimeout(this.patience);
    this.halt();
    this.worker?.terminate();
    this.worker = null;
  }

  /** Train a new model. The one in hand stays until it has started. */
  train(order: Order): void {
    this.begin(order, {}, order.seconds ? `${order.seconds / 60}-minute model` : order.preset);
  }

  /** Go on with the model in hand, with any settings changed that may change between two steps. */
  goOn(changes: Changes, means: Means): void {
    if (!this.model) return;
    const more: More = { resume: this.model.file ?? "in hand", ...(this.model.run ? { run: this.model.run } : {}) };
    this.begin({ ...means, preset: site.defaultPreset, recipe: site.defaultRecipe, changes }, more, this.model.title);
  }

  /** Teach the model in hand another text: adapters learn beside it, and it stays as it is. */
  teach(lora: Changes, changes: Changes, means: Means): void {
    if (!this.model) return;
    const { title, file } = this.model;
    const more: More = { resume: file ?? "in hand", adapt: { lora, title } };
    this.begin({ ...means, preset: "", recipe: "", changes }, more, `${title.replace(/\.tinygpt$/, "")} taught ${means.textName}`);
  }

  /** Put a run of the library in hand, as it stands or as it stood at an earlier step, and go on with it where a machine is given. */
  reopen(id: string, step?: number, machine?: Machine): void {
    if (!this.worker) this.connect();
    this.phase = "checking";
    this.after = machine ?? null;
    this.send({ type: "take", run: id, ...(step === undefined ? {} : { step }) });
  }

  /** Delete a run of the library. The model in hand stays, though it may not be kept any more. */
  forget(id: string): void {
    this.library.remove(id);
    if (this.model?.run !== id) return;
    this.model = { ...this.model, run: null, text: null };
    this.keptAt = null;
  }

  /** The tab may be gone soon. */
  keepSoon(): void {
    if (this.phase === "training") this.send({ type: "keep" });
  }

  /** As far as was planned; where that is done, as far again. */
  get nextGoal(): number {
    const planned = Number(this.model?.config.train["steps"] ?? 0);
    const done = this.model?.step ?? 0;
    return done >= planned ? done + planned : planned;
  }

  stop(): void {
    this.phase = "stopping";
    this.send({ type: "stop" });
  }

  save(deliver: (bytes: Uint8Array<ArrayBuffer>, name: string) => void): void {
    this.onSaved = ({ bytes, name, step }) => {
      deliver(bytes, name);
      this.savedAt = step;
    };
    if (this.model?.file) this.onSaved(this.model.file);
    else this.send({ type: "save" });
  }

  /** Of the adapters in hand: what they stand on, or the plain model that the two make. */
  part(which: "base" | "merged", deliver: (file: SavedFile) => void): void {
    this.notice = null;
    this.onParted = deliver;
    const file = this.model?.file;
    this.send({ type: "part", which, ...(file ? { file } : {}) });
  }

  /** Let the model write on from `prompt`, as a sample. */
  write(prompt: string, machine: Machine): void {
    const bytes = bytesOf(prompt);
    const sample = this.addSample(`step ${count(this.step)}, as asked`, prompt);
    this.ask({ type: "write", prompt: bytes, settings: {} }, machine, (answer) => {
      if (answer?.type !== "written") return;
      bytes.push(...answer.bytes);
      const text = textOf(bytes);
      this.samples = this.samples.map((row) => (row.id === sample ? { ...row, text } : row));
    });
  }

  /**
   * Ask the model in hand; one that is in a file only goes to the worker first. The answers come as they are made, and
   * null where there will be none. What is returned takes it back.
   */
  ask(question: Question, { engine, threads }: Machine, answer: (answer: Answer | null) => void): () => void {
    if (!this.model) return () => undefined;
    this.questions += 1;
    const id = this.questions;
    this.answers.set(id, answer);
    this.notice = null;
    if (!this.worker) this.connect();
    if (this.phase !== "training") this.phase = "writing";
    if (this.model.file) {
      this.first = { ...question, id };
      this.propose({ type: "open", resume: this.model.file, engine, threads });
    } else this.send({ ...question, id });
    return () => this.send({ type: "hush", id });
  }

  private onAnswer(answer: Answer): void {
    this.answers.get(answer.id)?.(answer);
    if (answer.type === "written" && !answer.done) return;
    this.answers.delete(answer.id);
    if (this.phase === "writing" && this.answers.size === 0) this.phase = "idle";
  }

  /** What was asked for cannot be done; what runs goes on. */
  private onRefused(message: string): void {
    this.measuring = false;
    this.onSaved = this.onParted = null;
    this.leaveUnanswered();
    this.complain(sentence(message));
    if (this.phase !== "training") this.phase = "idle";
  }

  private leaveUnanswered(): void {
    this.first = null;
    for (const answer of this.answers.values()) answer(null);
    this.answers.clear();
  }

  /** Have the worker check a file. Its model is put in hand once every byte is found sound; else what is in hand stays. */
  async load(chosen: Pick<File, "name" | "arrayBuffer">, then?: () => void): Promise<void> {
    const { name } = chosen;
    this.afterLoading = then ?? null;
    const before = this.phase;
    this.ours = !(chosen instanceof File);
    this.phase = "checking";
    try {
      const bytes = new Uint8Array(await chosen.arrayBuffer());
      if (!this.worker) this.connect();
      this.phase = "checking";
      const inHand = this.model ? { inHand: { title: this.model.title, file: this.model.file } } : {};
      this.send({ type: "check", name, bytes, ...inHand }, [bytes.buffer]);
    } catch (fault) {
      this.phase = before;
      const unreadable = `${name} cannot be read; it may be larger than this browser lets a page hold.`;
      this.complain(fault instanceof NotServed ? fault.message : unreadable);
    }
  }

  private onChecked(checked: CheckedFile): void {
    const { file, config, parameters, loss, history, sample, leftOut, kept } = checked;
    const { name, step } = file;
    this.advice = [];
    const first = kept?.events.find((event) => event.event === "steps")?.rows[0]?.[0] ?? Infinity;
    this.reset(Number(config.train["steps"]), history.filter((point) => point[0] < first));
    this.model = { title: kept?.title ?? name, parameters, config, step, file, run: kept?.run ?? null, text: kept?.text ?? null, base: file.base?.title ?? null };
    this.started = null;
    this.replay(kept?.events ?? [], step, loss);
    this.savedAt = kept ? null : step;
    this.keptAt = kept ? step : null;
    this.unkept = "";
    this.arrivals += 1;
    this.phase = "idle";
    this.library.withdraw();
    const { afterLoading } = this;
    this.afterLoading = null;
    afterLoading?.();
    if (kept) return this.onReopened(kept.text.sha256);
    const text = `Loaded ${name}: step ${count(step)}.${this.ours ? "" : " It has not left this machine."}`;
    this.notice = leftOut ? { kind: "warning", text: `${text} ${leftOut}` } : { kind: "info", text };
    if (sample) this.addSample(`step ${count(step)}, from the file`, sample);
  }

  private onReopened(text: string): void {
    const machine = this.after;
    this.after = null;
    const { title, step } = this.model!;
    this.notice = { kind: "info", text: `${title} is in hand: step ${count(step)}.` };
    if (machine) this.goOn({ steps: this.nextGoal }, { ...machine, text, textName: "" });
  }

  complain(text: string): void {
    this.notice = { kind: "error", text };
  }

  private begin(order: Order, more: More, title: string): void {
    if (!this.worker) this.connect();
    this.title = title;
    this.going = more.resume !== undefined && !more.adapt;
    this.below = more.adapt?.title ?? (this.going ? (this.model?.base ?? null) : null);
    this.phase = "starting";
    this.notice = null;
    this.compiled = null;
    this.lost = false;
    const { preset, recipe, changes, text, textName, engine, threads, seconds } = order;
    this.options = [];
    this.measuring = seconds !== undefined;
    this.propose({ type: "start", preset, recipe, changes, text, textName, engine, threads, title, ...more, ...(seconds ? { seconds } : {}) });
  }

  private propose(wish: Wish): void {
    this.wish = wish;
    this.send(wish);
  }

  private onDoubt(message: string): void {
    const risk = "If it runs short, the tab dies, and what is not saved is lost. Go on?";
    if (this.wish && confirm(`${sentence(message)} ${risk}`)) this.send({ ...this.wish, sure: true });
    else {
      this.leaveUnanswered();
      this.phase = "idle";
    }
  }

  private send(message: ToWorker, transfer: Transferable[] = []): void {
    this.worker?.postMessage(message, transfer);
  }

  private take(message: FromWorker): void {
    switch (message.type) {
      case "ready":
        clearTimeout(this.patience);
        this.capabilities = message.capabilities;
        if (this.phase === "loading") this.phase = "idle";
        this.library.refresh();
        break;
      case "library":
      case "compared":
      case "exported":
      case "travelled":
      case "unshelved":
        this.library.take(message, this.model !== null || this.busy);
        break;
      case "looked":
      case "unseen":
      case "traced":
      case "untraced":
        this.inside.take(message);
        break;
      case "visited":
        this.hub.take(message);
        break;
      case "estimated":
      case "unestimated":
        this.estimate.take(message);
        break;
      case "parted":
        this.onParted?.(message.file);
        this.onParted = null;
        break;
      case "surveyed":
      case "advised":
      case "teaching":
        this.facts.take(message);
        break;
      case "doubt":
        this.onDoubt(message.message);
        break;
      case "progress":
        this.compiled = message;
        break;
      case "started":
        this.compiled = null;
        this.onStarted(message);
        break;
      case "checked":
        this.onChecked(message);
        break;
      case "opened":
        this.wish = null;
        this.compiled = null;
        this.started = message;
        this.model = this.model && { ...this.model, file: null };
        this.phase = "writing";
        if (this.first) this.send(this.first);
        this.first = null;
        break;
      case "event":
        this.note(message.event);
        break;
      case "saved": {
        const deliver = this.onSaved;
        this.onSaved = null;
        deliver?.(message);
        break;
      }
      case "refused":
        this.onRefused(message.message);
        break;
      case "written":
      case "weighed":
        this.onAnswer(message);
        break;
      case "stopped":
        this.show();
        this.onStopped(message);
        break;
      case "error":
        this.show();
        this.onError(message);
        break;
    }
  }

  private onStarted(message: Started): void {
    this.wish = null;
    this.measuring = false;
    const steps = Number(message.config.train["steps"]);
    this.started = message;
    if (this.going) {
      this.steps = steps;
    } else {
      this.reset(steps);
      this.savedAt = this.keptAt = null;
    }
    this.advice = message.advice;
    this.unkept = "";
    const { config, parameters } = message;
    const text = this.going ? (this.model?.text ?? null) : null;
    this.model = { title: this.title, parameters, config, step: this.step, file: null, run: message.run, text, base: this.below };
    this.phase = "training";
    this.library.withdraw();
    void navigator.storage?.persist?.();
  }

  private onStopped({ reason, step, message }: Stopped): void {
    if (reason === "diverged") {
      this.returnTo(step);
      this.complain(sentence(message ?? ""));
    }
    this.rest();
    this.arrivals += 1;
  }

  private onError({ message, instead, lost }: Failure): void {
    const kept = instead && this.model && !this.model.file ? instead : null;
    this.onSaved = null;
    this.compiled = null;
    this.measuring = false;
    this.lost = lost ?? false;
    this.after = null;
    this.leaveUnanswered();
    this.complain(sentence(message));
    if (kept) this.model = { ...this.model!, file: kept };
    if (lost) this.onLost(kept);
    if (this.capabilities) this.rest();
    else this.phase = "broken";
  }

  /** The GPU is gone, and the model in it: in hand is what was kept, as a file. */
  private onLost(kept: SavedFile | null): void {
    if (kept) {
      this.returnTo(kept.step);
      this.arrivals += 1;
      this.complain(`${this.notice!.text} The model as of step ${count(kept.step)} is in hand.`);
    } else if (!this.model?.file) {
      this.model = null;
      this.complain(`${this.notice!.text} The model was not kept yet: train anew, on WebAssembly if it happens again.`);
    }
  }

  /** A run has ended. */
  private rest(): void {
    if (this.model) this.model = { ...this.model, step: this.step };
    this.phase = "idle";
  }

  private died(why: string): void {
    const lost = this.model !== null && this.model.file === null;
    const kept = lost && this.library.durable ? this.keptAt : null;
    const began = this.capabilities !== null;
    this.disconnect();
    this.leaveUnanswered();
    this.inside.forget();
    this.hub.abandon();
    this.estimate.forget();
    this.onSaved = null;
    if (lost) this.model = null;
    let left = " Press Train to start it again.";
    if (kept !== null) left = ` The model as of step ${count(kept)} is kept: go on from there.`;
    else if (lost) left = " The model in it is lost: go on from a saved file, or train anew.";
    this.complain(`The engine's worker died${why ? ` (${why})` : ""}.${left}`);
    this.phase = "broken";
    if (!began || kept === null) return;
    this.library.offerAgain();
    this.connect();
  }
}
