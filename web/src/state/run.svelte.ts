// The page's one line to the worker: what it does with its model, what it reported, and what the user asked of it.
import { untrack } from "svelte";
import { isTask } from "../lib/bytes";
import { NotServed } from "../lib/fetched";
import { capital, count, inWords, sentence } from "../lib/format";
import { remembered } from "../lib/lasting";
import { knob, site, titleOf } from "../lib/site";
import type { Capabilities, Changes, CheckedFile, Doubt, Ended, Failure, RunEvent, SavedFile, Start, Started } from "../worker/protocol";
import type { Origins, StopReason, TrialEvent } from "../worker/protocol";
import { Gone } from "../worker/remote";
import { Inside } from "./inside.svelte";
import { Estimate } from "./estimate.svelte";
import { Facts } from "./facts.svelte";
import { Files } from "./files";
import { Hub } from "./hub.svelte";
import type { Learnt, Machine, Means, Model, Notice, Order } from "./kinds";
import { Library } from "./library.svelte";
import { Readings } from "./readings.svelte";
import { after, BUSY, type Happening, type State } from "./state";
import { type Calls, type Connection, openWorker } from "./connection";

type More = Pick<Start, "resume" | "run" | "adapt">;

/** What a run is that has just started. */
interface Beginning {
  title: string;
  going: boolean; // it continues the current model
  learnt: Learnt;
  base: string | null;
  order: Pick<Order, "changes" | "seconds">;
}

const READY_WITHIN = 30_000; // ms

export class Run extends Readings {
  #state = $state.raw<State>({ name: "loading" });
  capabilities = $state.raw<Capabilities | null>(null);
  started = $state.raw<Started | null>(null);
  model = $state.raw<Model | null>(null);
  notice = $state.raw<Notice | null>(null);
  savedAt = $state<number | null>(null); // the step of the current model that a file has; `keptAt`: that the browser's storage has
  private readonly calls = (): Calls | null => this.connection?.calls ?? null;
  readonly library = new Library(this.calls, () => (this.model !== null && !this.restored) || this.busy);
  readonly inside = new Inside(this.calls, () => this.model?.file ?? null);
  readonly hub = new Hub(this.calls);
  readonly estimate = new Estimate(this.calls);
  readonly facts = new Facts(this.calls);
  readonly files = new Files({
    model: () => this.model!,
    calls: () => this.connected(),
    saved: (step) => (this.savedAt = step),
    hush: () => (this.notice = null),
    refuse: (error) => this.refuse(error),
  });
  /** How often a model arrived: from a file, or at the end of a run. */
  arrivals = $state(0);
  /** How the run of the current model has ended, if it was one of this tab, and how long it took. */
  ended = $state<StopReason | null>(null);
  took = $state(0); // seconds
  /** In how many seconds the run is to end, where it was given a time instead of steps. */
  timed = $state<number | null>(null);
  /** The GPU is lost; the current model is the last state of it that was kept, if any. */
  lost = $state(false);

  private connection: Connection | null = null;
  private patience: ReturnType<typeof setTimeout> | undefined;
  private began = 0; // when the run did
  private restored = false; // the model came by itself, after a reload, and nothing was done with it yet
  private asking = 0; // questions that are not answered yet
  private readonly replaced: (() => void)[] = []; // what is done when another model arrives

  get state(): State {
    return this.#state;
  }

  /** The state is read untracked: an effect that calls this does not run again when the state changes. */
  private happen(happening: Happening): void {
    const before = untrack(() => this.#state);
    this.#state = after(before, happening);
  }

  /** Whether the current model outlives the tab; while it trains, all but the last few steps of it. */
  get kept(): boolean {
    if (!this.library.durable || this.unkept) return false;
    return this.busy ? this.keptAt !== null : this.keptAt === this.step;
  }

  /** How often the run has read its text. */
  get passes(): number {
    return (this.step * this.tokensPerStep) / (this.started?.trainBytes || Infinity);
  }

  get unsaved(): boolean {
    return this.model !== null && this.step > 0 && this.step !== this.savedAt && !this.kept;
  }

  get busy(): boolean {
    return BUSY.includes(this.#state.name);
  }

  /** With something short that cannot be stopped. */
  get occupied(): boolean {
    return this.#state.name === "checking" || this.#state.name === "writing";
  }

  /** Whether the current model may go, which the user is asked if it is saved nowhere. */
  mayReplace(what: string): boolean {
    return !this.unsaved || confirm(`Your model is not saved. ${what} anyway, and lose it?`);
  }

  /** What was made of a model is not shown under the name of the next one: `forget` is called when that comes. */
  whenReplaced(forget: () => void): void {
    this.replaced.push(forget);
  }

  /** Another model arrives. What was said of the one before goes with it. */
  private replace(): void {
    this.advice = [];
    this.options = [];
    this.unkept = "";
    this.lost = false;
    this.ended = null;
    this.timed = null;
    this.notice = null;
    this.library.problem = "";
    this.restored = false;
    this.inside.renew();
    for (const forget of this.replaced) forget();
  }

  connect(): Calls {
    this.happen({ type: "connected" });
    const connection = openWorker("tinygpt", (why) => this.died(why));
    this.connection = connection;
    this.patience = setTimeout(() => this.died("it did not start in time"), READY_WITHIN);
    void this.welcome(connection.calls);
    return connection.calls;
  }

  private async welcome(calls: Calls): Promise<void> {
    try {
      this.capabilities = await calls.capabilities();
      clearTimeout(this.patience);
      await this.restore(calls);
      this.happen({ type: "ready" });
      this.library.refresh();
    } catch (error) {
      if (error instanceof Gone) return;
      clearTimeout(this.patience);
      this.complain(sentence((error as Error).message));
      this.happen({ type: "died" });
    }
  }

  /** After a reload: the model that this tab had, as it was kept. */
  private async restore(calls: Calls): Promise<void> {
    const run = remembered();
    const checked = run && this.model === null ? await calls.take({ run }).catch(() => null) : null;
    if (!checked?.kept) return;
    const { notice } = this;
    this.receive(checked);
    this.notice = notice; // why it was lost, where it was
    this.library.offerAgain();
    this.restored = true;
  }

  private connected(): Calls {
    return this.calls() ?? this.connect();
  }

  disconnect(): void {
    clearTimeout(this.patience);
    this.halt();
    this.connection?.end();
    this.connection = null;
  }

  /** Train a new model. The current one stays until it has started. */
  train(order: Order): Promise<void> {
    return this.begin(
      order,
      {},
      order.seconds
        ? `${capital(titleOf(order.textName))}, ${inWords(order.seconds)}`
        : isTask(order.textName)
          ? titleOf(order.textName)
          : order.preset,
    );
  }

  /** Continue the current model, with any settings changed that may change between two steps. */
  async goOn(changes: Changes, means: Means): Promise<void> {
    if (!this.model) return;
    const more: More = { resume: this.model.file ?? "in hand", ...(this.model.run ? { run: this.model.run } : {}) };
    await this.begin({ ...means, preset: site.defaultPreset, recipe: site.defaultRecipe, changes }, more, this.model.title);
  }

  /** Teach the current model another text: adapters learn beside it, and it stays as it is. */
  async teach(lora: Changes, changes: Changes, means: Means): Promise<void> {
    if (!this.model) return;
    const { title, file } = this.model;
    const more: More = { resume: file ?? "in hand", adapt: { lora, title } };
    await this.begin(
      { ...means, preset: "", recipe: "", changes },
      more,
      `${title.replace(/\.tinygpt$/, "")} taught ${titleOf(means.textName)}`,
    );
  }

  /** Open a run of the library, as it is or as it was at an earlier step, and continue it where a machine is given. */
  async reopen(id: string, step?: number, machine?: Machine): Promise<void> {
    const calls = this.connected();
    this.happen({ type: "check" });
    try {
      const checked = await calls.take({ run: id, ...(step === undefined ? {} : { step }) });
      this.receive(checked);
      const { kept, leftOut } = checked;
      if (!kept) return this.sayLoaded(checked, false);
      const { title, step: at } = this.model!;
      if (machine) void this.goOn({ steps: this.nextGoal }, { ...machine, text: async () => kept.text.sha256, textName: kept.text.name });
      if (leftOut) this.notice = { kind: "warning", text: `${title} is open at step ${count(at)}. ${leftOut}` };
      else if (!machine) this.notice = { kind: "info", text: `${title} is open: step ${count(at)}.` };
    } catch (error) {
      this.fail(error);
    }
  }

  /** Delete runs of the library. The current model stays, though it may not be kept any more. */
  forget(ids: string[]): void {
    void this.library.remove(ids);
    if (!this.model?.run || !ids.includes(this.model.run)) return;
    this.model = { ...this.model, run: null, text: null };
    this.keptAt = null;
  }

  /** The tab may be gone soon. */
  keepSoon(): void {
    if (this.#state.name === "training")
      void this.calls()
        ?.keep()
        .catch(() => undefined);
  }

  /** As far as was planned; where that is done, as far again. */
  get nextGoal(): number {
    const planned = Number(this.model?.config.train["steps"] ?? 0);
    const done = this.model?.step ?? 0;
    return done >= planned ? done + planned : planned;
  }

  stop(): void {
    this.happen({ type: "stop" });
    void this.calls()?.stop();
  }

  /** What of a text is also in the one that the model learned from. */
  async origins(text: string, { text: corpus, name }: Learnt, valFraction: number): Promise<Origins | null> {
    return (await this.calls()?.trace({ text: new TextEncoder().encode(text), corpus, name, valFraction })) ?? null;
  }

  /** Ask the current model; one that is in a file only goes to the worker first. Null where there is no answer. */
  async ask<Answer>(machine: Machine, question: (calls: Calls) => Promise<Answer>): Promise<Answer | null> {
    if (!this.model) return null;
    const calls = this.connected();
    this.notice = null;
    this.happen({ type: "ask" });
    this.asking += 1;
    try {
      const { file } = this.model;
      if (file && !(await this.open(file, machine, calls))) return null;
      return await question(calls);
    } catch (error) {
      this.refuse(error);
      return null;
    } finally {
      this.asking -= 1;
      if (this.asking === 0) this.happen({ type: "answered" });
    }
  }

  /** Takes a file's model to the worker; whether it is there. */
  private async open(resume: SavedFile, { engine, threads }: Machine, calls: Calls): Promise<boolean> {
    const wish = { resume, engine, threads };
    const heard = (event: TrialEvent): void => this.hear(event);
    let opened = await calls.open(wish, { heard });
    if ("doubt" in opened && this.isSure(opened)) opened = await calls.open({ ...wish, sure: true }, { heard });
    if ("doubt" in opened) return false;
    this.started = opened;
    this.model = this.model && { ...this.model, file: null };
    return true;
  }

  private isSure({ doubt }: Doubt): boolean {
    const risk = "If it runs short, the tab dies, and what is not saved is lost. Continue?";
    return confirm(`${sentence(doubt)} ${risk}`);
  }

  /** Have the worker check a file. Its model becomes the current one once every byte is found sound; else the current one stays. */
  async load(chosen: Pick<File, "name" | "arrayBuffer">, then?: () => void): Promise<void> {
    const { name } = chosen;
    const before = this.#state;
    this.happen({ type: "check" });
    try {
      const bytes = new Uint8Array(await chosen.arrayBuffer());
      const calls = this.connected();
      this.happen({ type: "check" });
      const inHand = this.model ? { inHand: { title: this.model.title, file: this.model.file } } : {};
      const checked = await calls
        .check({ name, bytes, ...inHand }, { transfer: [bytes.buffer] })
        .catch((error: unknown) => this.fail(error));
      if (!checked) return;
      this.receive(checked);
      then?.();
      this.sayLoaded(checked, !(chosen instanceof File));
    } catch (fault) {
      this.#state = before;
      const unreadable = `${name} cannot be read; it may be larger than this browser lets a page hold.`;
      this.complain(fault instanceof NotServed ? fault.message : unreadable);
    }
  }

  /** A model arrives. */
  private receive({ file, config, parameters, loss, history, learnt, kept }: CheckedFile): void {
    const { name, step } = file;
    this.replace();
    const first = kept?.events.find((event) => event.event === "steps")?.rows[0]?.[0] ?? Infinity;
    this.reset(
      config,
      history.filter((point) => point[0] < first),
    );
    this.model = {
      title: kept?.title ?? name,
      parameters,
      config,
      step,
      file,
      run: kept?.run ?? null,
      text: kept?.text ?? null,
      learnt: learnt && { name: learnt.name, text: learnt.sha256 },
      base: file.base?.title ?? null,
    };
    this.started = null;
    this.replay(kept?.events ?? [], step, loss);
    this.savedAt = kept ? null : step;
    this.keptAt = kept ? step : null;
    this.arrivals += 1;
    this.happen({ type: "ended" });
    this.library.withdraw();
  }

  /** `ours`: the file is the site's, and not the user's. */
  private sayLoaded({ file: { name, step }, leftOut, sample }: CheckedFile, ours: boolean): void {
    const text = `Loaded ${name}: step ${count(step)}.${ours ? "" : " It has not left this machine."}`;
    this.notice = leftOut ? { kind: "warning", text: `${text} ${leftOut}` } : { kind: "info", text };
    if (sample) this.addSample(step, sample);
  }

  complain(text: string): void {
    this.notice = { kind: "error", text };
  }

  private async begin({ text, ...order }: Order, more: More, title: string): Promise<void> {
    const before = this.#state;
    const going = more.resume !== undefined && !more.adapt;
    const base = more.adapt?.title ?? (going ? (this.model?.base ?? null) : null);
    this.happen({ type: "plan", measuring: order.seconds !== undefined });
    let wish: Start;
    try {
      wish = { ...order, text: await text(), title, ...more };
    } catch (fault) {
      this.#state = before;
      return this.complain(fault instanceof Error ? fault.message : String(fault));
    }
    const calls = this.connected();
    this.happen({ type: "plan", measuring: order.seconds !== undefined });
    this.notice = null;
    this.lost = false;
    this.began = performance.now();
    this.advice = this.options = [];
    this.library.problem = "";
    const learnt = this.learntFrom(wish);
    const heard = (event: RunEvent): void => {
      if (event.event === "started") this.onStarted(event, { title, going, learnt, base, order });
      else if (event.event === "stopped") this.onStopped(event);
      else this.hear(event);
      if (event.event === "option") this.estimate.learn(event.option.preset, event.option.seconds_per_step, order.engine);
    };
    try {
      const doubt = await calls.start(wish, { heard });
      if (doubt && this.isSure(doubt)) await calls.start({ ...wish, sure: true }, { heard });
      else if (doubt) this.happen({ type: "ended" });
    } catch (error) {
      this.fail(error);
    }
  }

  private hear(event: TrialEvent): void {
    if (event.event === "compiling") return this.happen(event);
    this.note(event);
  }

  private onStarted(started: Started, { title, going, learnt, base, order }: Beginning): void {
    const { config, parameters, run, advice } = started;
    const steps = Number(config.train["steps"]);
    this.started = started;
    if (going) {
      this.steps = steps;
      this.learnsFrom(config);
      this.markChanges(order.changes);
    } else {
      this.replace();
      this.reset(config);
      this.savedAt = this.keptAt = null;
    }
    this.timed = order.seconds ?? null;
    if (this.timed === null) this.began = performance.now(); // measuring is part of a time that is given
    this.advice = advice;
    this.unkept = "";
    this.ended = null;
    const text = going ? (this.model?.text ?? null) : null;
    this.model = { title, parameters, config, step: this.step, file: null, run, text, learnt, base };
    this.restored = false;
    this.happen({ type: "started" });
    this.library.withdraw();
    void navigator.storage?.persist?.();
  }

  /** What a run that continues has otherwise from here on; its length shows by itself. */
  private markChanges(changes: Changes): void {
    const before = this.model?.config.train ?? {};
    const changed = Object.entries(changes).filter(
      ([name, value]) => name !== "steps" && before[name] !== undefined && before[name] !== value,
    );
    if (!changed.length) return;
    const text = changed.map(([name, value]) => `${knob("train", name).label} ${value}`).join(", ");
    this.marks = [...this.marks, { step: this.step, text }];
  }

  private learntFrom({ text, textName }: Start): Learnt {
    const before = this.model?.learnt;
    return before && before.text === text ? before : { name: textName || "its text", text };
  }

  private onStopped({ reason, step, message }: Ended): void {
    this.show();
    if (reason === "diverged") {
      this.returnTo(step);
      this.complain(sentence(message ?? ""));
    }
    this.ended = reason;
    this.took = (performance.now() - this.began) / 1000;
    this.rest();
    this.arrivals += 1;
  }

  /** What was asked for cannot be done; what runs goes on, unless its engine is gone. */
  private refuse(error: unknown): void {
    if (error instanceof Gone) return;
    if ((error as Failure).lost) return this.fail(error);
    this.complain(sentence((error as Failure).message));
    this.happen({ type: "refused" });
  }

  /** What was under way has ended. */
  private fail(error: unknown): void {
    if (error instanceof Gone) return;
    const { message, instead, lost = false } = error as Failure;
    this.show();
    const kept = instead && this.model && !this.model.file ? instead : null;
    if (this.#state.name === "training" || this.#state.name === "stopping") this.ended = "stopped";
    this.lost = lost;
    this.complain(sentence(message));
    if (kept) this.model = { ...this.model!, file: kept };
    if (lost) this.onLost(kept);
    if (this.capabilities) this.rest();
    else this.happen({ type: "died" });
  }

  /** The GPU is gone, and the model in it: the current one is what was kept, as a file. */
  private onLost(kept: SavedFile | null): void {
    const why = this.notice!.text;
    if (kept) {
      this.returnTo(kept.step);
      this.arrivals += 1;
      this.complain(`${why} Your model is as it was at step ${count(kept.step)}.`);
    } else if (!this.model?.file) {
      this.model = null;
      this.replace();
      this.complain(`${why} The model was not kept yet: train a new one, on WebAssembly if it happens again.`);
    }
  }

  /** A run has ended. */
  private rest(): void {
    if (this.model) this.model = { ...this.model, step: this.step };
    this.happen({ type: "ended" });
  }

  private died(why: string): void {
    const lost = this.model !== null && this.model.file === null;
    const kept = lost && this.library.durable ? this.keptAt : null;
    const began = this.capabilities !== null;
    this.disconnect();
    this.estimate.forget();
    if (lost) {
      this.model = null;
      this.replace();
    }
    let left = " Press Train to start it again.";
    if (kept !== null) left = ` The model as of step ${count(kept)} is kept: continue from there.`;
    else if (lost) left = " The model in it is lost: continue from a saved file, or train a new one.";
    this.complain(`The engine's worker died${why ? ` (${why})` : ""}.${left}`);
    this.happen({ type: "died" });
    if (!began || kept === null) return;
    this.library.offerAgain();
    this.connect();
  }
}
