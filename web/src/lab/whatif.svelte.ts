// A run that is kept, one of its steps, one change, and what comes of it. The page's own worker forks and trains, so the
// fork is a run of My models as any other.
import { corpus } from "../lib/corpus";
import { count, sentence } from "../lib/format";
import { partTitle } from "../lib/parts";
import { site } from "../lib/site";
import { type Connection, openWorker } from "../state/connection";
import type { RunEvent, Shelved, Start, Stop } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Loss, WhatIfChange, WhatIfFacts } from "./protocol";
import { openRoom, type Room } from "./rooms";

export type Guess = NonNullable<WhatIfChange["guess"]>;
export const GUESSES: Guess[] = ["better", "the same", "worse"];

/** A run's losses, and those on text that is held out. */
export interface Course {
  rows: Loss[];
  heldOut: Loss[];
}

const NOTHING: Course = { rows: [], heldOut: [] };
/** The run that there is for who has none: what lab/whatif.py has measured. */
const OURS = { preset: "tiny", steps: 400, eval_every: 20, keep_every: 80 };

/** What came of a change, by the losses on held-out text at the last step where both have one. */
export interface Outcome {
  step: number;
  original: number;
  other: number | null; // null: it diverged
  is: Guess;
}

export function outcomeOf(original: Loss[], other: Loss[], same: number): Outcome | null {
  const theirs = new Map(original);
  const last = other.findLast(([step]) => theirs.has(step));
  if (!last) return null;
  const [step, loss] = last;
  const off = loss - theirs.get(step)!;
  return { step, original: theirs.get(step)!, other: loss, is: off < -same ? "better" : off <= same ? "the same" : "worse" };
}

/** What is said of it, of what the reader said and of what was to be expected. */
export function revealed({ original, other, is, step }: Outcome, said: Guess | null, expected: WhatIfChange["guess"]): string {
  const ends =
    other === null
      ? `It diverged before step ${count(step)}: worse.`
      : `On text that neither has read its loss ends at ${other.toFixed(3)}, and the original's at ${original.toFixed(3)}: ${is}.`;
  const yours = said === null ? "" : said === is ? ` You said ${said}, and you were right.` : ` You said ${said}.`;
  const coach = expected === null ? "" : ` The coach expected ${expected}${expected === is ? ", too" : ""}.`;
  return ends + yours + coach;
}

/** Runs that can be changed on their way: whole models that have come to their end, with a step to go back to. */
export const forkable = (run: Shelved): boolean =>
  run.base === null && run.step >= run.steps && run.validations.length > 0 && stopsOf(run).length > 0;
export const stopsOf = ({ stops, step }: Shelved): Stop[] => stops.filter((stop) => stop.step > 0 && stop.step < step);

/** What is in the way of a run that is kept, or nothing. */
export function obstacle(run: Shelved): string {
  if (run.base !== null) return "it is an adapter";
  if (run.step < run.steps) return `it was stopped at step ${count(run.step)} of ${count(run.steps)}, so there is no end to compare with`;
  if (run.validations.length === 0) return "it was never validated";
  return stopsOf(run).length ? "" : "no earlier step of it is kept";
}

export const labelOf = ({ label, part }: WhatIfChange): string => (part ? `${partTitle(part)} set to zero` : label);

export class WhatIf {
  runs = $state.raw<Shelved[]>([]);
  durable = $state(true);
  loaded = $state(false);
  original = $state.raw<Shelved | null>(null);
  step = $state(0);
  facts = $state.raw<WhatIfFacts | null>(null);
  name = $state(""); // of the change
  guess = $state<Guess | null>(null);
  heard = $state(false); // what the coach expects, without a guess

  doing = $state<"" | "original" | "fork">("");
  course = $state.raw<Course>(NOTHING); // of what trains, or has trained
  forked = $state.raw<{ step: number; change: WhatIfChange; guess: Guess | null; outcome: Outcome | null } | null>(null);
  problem = $state("");
  private connection: Connection | null = null;
  private room: Promise<Room> | null = null; // of the coach

  readonly offered = $derived(this.runs.filter(forkable));
  readonly stops = $derived(this.original ? stopsOf(this.original) : []);
  readonly change = $derived(this.facts?.changes.find(({ name }) => name === this.name) ?? null);

  private get calls() {
    this.connection ??= openWorker("tinygpt-whatif", (why) => this.fail(new Error(`The engine's worker died${why ? ` (${why})` : ""}.`)));
    return this.connection.calls;
  }

  end(): void {
    this.connection?.end();
    this.connection = null;
    void this.room?.then((room) => room.end()).catch(() => undefined);
    this.room = null;
    this.doing = "";
  }

  private fail(error: unknown): void {
    if (error instanceof Gone) return;
    this.problem = sentence(error instanceof Error ? error.message : String(error));
    this.end();
  }

  async open(chosen = ""): Promise<void> {
    try {
      const { runs, durable } = await this.calls.library();
      [this.runs, this.durable, this.loaded] = [runs, durable, true];
      const known = this.offered.find(({ id }) => id === (chosen || this.original?.id));
      const next = known ?? this.offered[0] ?? null;
      if (next) await this.choose(next.id);
      const wanted = runs.find(({ id }) => id === chosen);
      if (chosen && !known)
        this.problem = wanted ? `${wanted.title} cannot be forked here: ${obstacle(wanted)}.` : "This browser keeps no such run.";
    } catch (error) {
      this.fail(error);
      this.loaded = true;
    }
  }

  async choose(id: string): Promise<void> {
    this.original = this.offered.find((run) => run.id === id) ?? null;
    const { stops } = this;
    const usual = stops.findLast(({ step }) => step <= this.original!.steps / 2) ?? stops[0];
    if (usual) await this.travel(usual.step);
  }

  /** To a step of the run. */
  async travel(step: number): Promise<void> {
    if (!this.original) return;
    this.step = step;
    this.clear();
    try {
      const { config, text } = this.original;
      const { calls } = await (this.room ??= openRoom({}, ""));
      const facts = await calls.whatIf({ config, step, bytes: text.bytes });
      if (this.step === step) this.facts = facts;
      if (!this.change) this.name = facts.changes[0]?.name ?? "";
    } catch (error) {
      this.fail(error);
    }
  }

  pick(name: string): void {
    this.name = name;
    this.clear();
  }

  private clear(): void {
    [this.guess, this.heard, this.forked, this.course, this.problem] = [null, false, null, NOTHING, ""];
  }

  /** A small run, for who has none that is kept. */
  async trainOurs(): Promise<void> {
    const { preset, ...changes } = OURS;
    this.clear();
    await this.train("original", async () => {
      const text = await corpus(site.corpus);
      const title = `${preset} for What if?`;
      return {
        preset,
        recipe: site.defaultRecipe,
        changes,
        text,
        textName: site.corpus.name,
        title,
        engine: "wasm",
        threads: 0,
        sure: true,
      };
    });
    if (!this.problem) await this.open();
  }

  /** The chosen run goes on from the chosen step, changed. */
  async fork(): Promise<void> {
    const { original, change, step, guess } = this;
    if (!original || !change || !this.facts) return;
    [this.forked, this.problem] = [{ step, change, guess, outcome: null }, ""];
    const { same } = this.facts;
    const reached = await this.train("fork", async () => {
      const { file, kept } = await this.calls.take({ run: original.id, step, ...(change.part ? { without: change.part } : {}) });
      const { text, textName } = { text: original.text.sha256, textName: original.text.name };
      return {
        preset: site.defaultPreset,
        recipe: site.defaultRecipe,
        changes: change.changes,
        text,
        textName,
        title: `${original.title}: ${labelOf(change)} from step ${step}`,
        engine: original.engine,
        threads: 0,
        resume: file,
        ...(kept ? { run: kept.run } : {}),
        sure: true,
      };
    });
    if (!reached) return;
    const found = outcomeOf(original.validations, this.course.heldOut, same);
    const lost: Outcome = { step: reached.step, original: original.validations.at(-1)![1], other: null, is: "worse" };
    this.forked = { step, change, guess, outcome: reached.reason === "diverged" ? lost : found };
    if (!this.forked.outcome) this.problem = "It was stopped before both could be compared.";
    await this.refresh();
  }

  private async refresh(): Promise<void> {
    const { runs } = await this.calls.library();
    this.runs = runs;
  }

  stop(): void {
    void this.connection?.calls.stop();
  }

  private async train(doing: "original" | "fork", wish: () => Promise<Start>): Promise<{ reason: string; step: number } | null> {
    [this.doing, this.course] = [doing, NOTHING];
    let ended: { reason: string; step: number } | null = null;
    const heard = (event: RunEvent): void => {
      if (event.event === "steps") this.note({ rows: event.rows.map(([step, loss]): Loss => [step, loss]) });
      else if (event.event === "eval") this.note({ heldOut: [[event.step, event.val_loss]] });
      else if (event.event === "stopped") ended = event;
    };
    try {
      await this.calls.start(await wish(), { heard });
    } catch (error) {
      this.fail(error);
    }
    this.doing = "";
    return this.problem ? null : ended;
  }

  private note({ rows = [], heldOut = [] }: Partial<Course>): void {
    this.course = { rows: [...this.course.rows, ...rows], heldOut: [...this.course.heldOut, ...heldOut] };
  }
}
