// Two runs that differ in one thing, each in a room of its own, in step until an op writes another thing.
import { corpus } from "../lib/corpus";
import { count } from "../lib/format";
import { site } from "../lib/site";
import { Gone } from "../worker/remote";
import { aboutOf, applied, type Changed } from "./patch";
import type { Asked, Begun, Parted, Walked } from "./protocol";
import { openRoom, type Room } from "./rooms";
import { type Sources, sources, texts } from "./sources";
import { type Trouble, troubleOf } from "./trouble";

/** One thing in which the second run differs. */
export interface Thing {
  name: string;
  title: string;
  changes?: NonNullable<Asked["changes"]>;
  text?: (text: Uint8Array<ArrayBuffer>) => Uint8Array<ArrayBuffer>;
  edit?: string; // a patch of the sources
}

type Settings = Begun["settings"];

const CAPITAL = 32; // from a letter to its capital
const capitals = (text: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> =>
  text.map((byte) => (byte >= 97 && byte <= 122 ? byte - CAPITAL : byte));

/** What there is beside edits of the sources. The runs' own rate is 0.02, and they have 40 steps. */
export const THINGS: Thing[] = [
  { name: "rate", title: "twice the learning rate", changes: { lr: 0.04, matrix_lr: 0.04 } },
  { name: "smoothing", title: "label smoothing of 0.1", changes: { label_smoothing: 0.1 } },
  { name: "clip", title: "no clipping of the gradient", changes: { grad_clip: 0 } },
  { name: "beta2", title: "AdamW's beta2 at 0.9", changes: { beta2: 0.9 } },
  { name: "dropout", title: "dropout of 0.1", changes: { dropout: 0.1 } },
  { name: "length", title: "twice as many steps planned", changes: { steps: 80 } },
  { name: "activation", title: "another activation of the MLP", changes: { activation: "relu2" } },
  { name: "norm", title: "RMSNorm instead of LayerNorm", changes: { norm: "rmsnorm" } },
  { name: "seed", title: "another seed", changes: { seed: 7 } },
  { name: "text", title: "the same text in capitals", text: capitals },
  { name: "validation", title: "how often it is validated", changes: { eval_every: 3 } },
];

/** A setting and what the reader wrote for it: a number where it is one. */
export function ownThing(setting: string, value: string): Thing {
  const [name, stated] = [setting.trim(), value.trim()];
  if (!name || !stated) throw new Error("Name a setting, such as weight_decay, and give it a value.");
  const meant = site.knobs.find(({ label }) => label.toLowerCase().replaceAll(" ", "_") === name.toLowerCase().replaceAll(" ", "_"));
  if (meant && meant.name !== name && !site.knobs.some((known) => known.name === name))
    throw new Error(`There is no setting ${name}; did you mean ${meant.name}?`);
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new Error(`${name} is no setting: a name has small letters and underscores, such as weight_decay.`);
  return { name: "own", title: `${name} ${stated}`, changes: { [name]: Number.isFinite(Number(stated)) ? Number(stated) : stated } };
}

export const RUN = { preset: "tiny", steps: 40 };
const TEXT_BYTES = 20_000;

/** The settings in which a thing changes a run, each with both values. */
export function bothOf(thing: Thing, one: Settings, other: Settings): string[] {
  return Object.keys(thing.changes ?? {})
    .filter((name) => one[name] !== other[name])
    .map((name) => `${name} is ${one[name]} and ${other[name]}`);
}

/** The first line of what an edit says of itself. */
const titleOf = (edit: string, name: string): string => aboutOf(edit).split("\n")[0] || name;

/** What was found, in sentences. `causes` are known beside what the op itself was given. */
export function told(parted: Parted | null, steps: number, causes: string[] = []): string {
  if (!parted) return `The two are equal to the bit: every number of every op, in ${count(steps)} steps.`;
  const { place, op, tensor, step, largest, share, because } = parted;
  const where =
    place < 0
      ? "They begin with other weights, before the first step."
      : `They part in step ${count(step)}, at op ${place}, ${op}: ${tensor} differs.`;
  const many = share < 0.001 ? "Less than 0.1 %" : `${Number((100 * share).toPrecision(3))} %`;
  const much = largest === null ? "" : ` ${many} of its numbers do, by at most ${largest.toPrecision(2)}.`;
  if (place < 0) return where + much + (because.length ? ` They have ${because.join("; ")}.` : "") + cause(causes);
  const given = because.filter((said) => !causes.includes(said));
  const why = causes.length ? `${cause(causes)}${given.length ? ` So at this op ${given.join("; ")}.` : ""}` : cause(because);
  return where + much + why;
}

const cause = (said: string[]): string => (said.length ? ` Its cause: ${said.join("; ")}.` : "");

/** How long a bar is for each tensor of a step, from 0 to 1: by the logarithm of how far it is off. */
export function bars(spread: Parted["spread"]): number[] {
  const least = -16; // of a power of ten: rounding in float64
  return spread.map(([, , off]) => (off === null ? 1 : off === 0 ? 0 : Math.min(1, Math.max(0.04, (Math.log10(off) - least) / -least))));
}

/** The NumPy of an op, with its derivation, and where it is. */
export function specification(facts: Sources, op: string): { path: string; text: string } | null {
  for (const { files } of facts.groups)
    for (const { path, text } of files) {
      if (!/^kernels\/.*\.py$/.test(path)) continue;
      const lines = text.split("\n");
      const from = lines.findIndex((line) => line.startsWith(`def ${op}(`));
      if (from < 0) continue;
      const length = lines.slice(from + 1).findIndex((line) => /^[A-Za-z@]/.test(line));
      return {
        path,
        text: lines
          .slice(from, length < 0 ? undefined : from + 1 + length)
          .join("\n")
          .trimEnd(),
      };
    }
  return null;
}

export class Divergence {
  facts = $state.raw<Sources | null>(null);
  running = $state(false);
  equal = $state(0); // steps so far
  of = $state(0);
  model = $state("");
  losses = $state.raw<[one: number, other: number] | null>(null);
  found = $state.raw<{ parted: Parted | null; steps: number; thing: Thing } | null>(null);
  causes = $state.raw<string[]>([]);
  trouble = $state.raw<Trouble | null>(null);
  private ending: AbortController | null = null;

  async open(): Promise<void> {
    this.facts ??= await sources();
  }

  /** Those of the list, and the ready edits. */
  get things(): Thing[] {
    const edits = Object.entries(this.facts?.ready ?? {});
    return [...THINGS, ...edits.map(([name, edit]): Thing => ({ name, title: titleOf(edit, name), edit }))];
  }

  /** Forgets what was found: it was of another choice. */
  clear(): void {
    [this.found, this.trouble, this.losses, this.causes] = [null, null, null, []];
  }

  stop(): void {
    this.ending?.abort();
    this.ending = null;
    this.running = false;
  }

  async find(thing: Thing, recipe: string, steps: number): Promise<void> {
    this.stop();
    const ending = (this.ending = new AbortController());
    this.clear();
    [this.running, this.equal, this.of, this.model] = [true, 0, steps, ""];
    let changed: Changed = {};
    try {
      if (!Number.isInteger(steps) || steps < 1 || steps > RUN.steps) throw new Error(`Compare from 1 to ${RUN.steps} steps.`);
      changed = thing.edit ? applied(thing.edit, texts(this.facts!)) : {};
      const rooms = await Promise.all([openRoom({}, "", ending.signal), openRoom(changed, "", ending.signal)]);
      const parted = await this.walk(rooms, thing, recipe, steps);
      this.found = { parted, steps, thing };
    } catch (error) {
      if (ending.signal.aborted) return;
      const text = error instanceof Gone ? "The room for Python has closed. Try once more." : (error as Error).message;
      const trouble = troubleOf(text, Object.keys(changed));
      this.trouble = trouble.path && trouble.path in changed ? trouble : { message: trouble.message.replace(/^(Train|Model)\./, "") }; // a line of ours tells nothing
    } finally {
      ending.abort();
      if (this.ending === ending) this.stop();
    }
  }

  private async walk([one, other]: [Room, Room], thing: Thing, recipe: string, steps: number): Promise<Parted | null> {
    const text = (await corpus(site.corpus)).slice(0, TEXT_BYTES);
    const asked = { ...RUN, recipe };
    const [begun, its] = await Promise.all([
      one.calls.walk({ ...asked, changes: {}, text }),
      other.calls.walk({ ...asked, changes: thing.changes ?? {}, text: thing.text?.(text) ?? text }),
    ]);
    this.model = `${count(begun.parameters)} parameters, ${begun.model}`;
    this.causes = thing.edit ? ["the edit"] : bothOf(thing, begun.settings, its.settings);
    const early = await other.calls.walkFrom(begun.weights);
    if (early) return early;
    for (let step = 1; step <= steps; step++) {
      const [a, b]: Walked[] = await Promise.all([one.calls.walkStep(), other.calls.walkStep()]);
      this.losses = [a!.loss, b!.loss];
      const parted = a!.values === b!.values ? null : await other.calls.walkParted(a!);
      if (parted) return parted;
      this.equal = step;
    }
    return null;
  }
}
