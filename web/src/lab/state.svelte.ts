// An edit under way: what was changed, and what was made of it. Each thing that runs has a room of its own, which is ended.
import { lastLine } from "../worker/answers";
import { site } from "../lib/site";
import type { LabEngine } from "./engines";
import { Job } from "./job.svelte";
import { aboutOf, applied, type Changed, firstChange, labelOf, patchOf, sizes } from "./patch";
import type { Asked, CheckedGradient, Evidence, JudgedRow, Planned } from "./protocol";
import { Race } from "./race.svelte";
import { openRoom, type Room } from "./rooms";
import { type Sources, sources, texts } from "./sources";
import { troubleOf } from "./trouble";

export type Task = "plan" | "check" | "train" | "judge";

/** What came of holding a mended source against the original. */
export interface Judged {
  right: boolean;
  compared: number;
  said: string;
}

export class Edit {
  facts = $state.raw<Sources | null>(null);
  originals = $state.raw<Changed>({});
  changed = $state.raw<Changed>({}); // also files that were changed back
  path = $state("core/models/gpt.py");
  shown = $state(0);
  at = $state(1); // the line to begin at
  name = $state("my");
  about = $state("");
  recipe = $state(site.defaultRecipe);
  preset = $state("tiny");

  readonly job = new Job<Task>();
  readonly race = new Race();
  plans = $state.raw<{ original: Planned; edit: Planned } | null>(null);
  checked = $state.raw<CheckedGradient[] | null>(null);
  checkedAll = $state(false);
  judged = $state.raw<Judged | null>(null);
  private blind = false; // whether where the change is stays hidden

  readonly sizes = $derived(sizes(this.changed, this.originals));
  readonly paths = $derived(this.sizes.map(({ path }) => path));
  readonly patch = $derived(patchOf(this.changed, this.originals, this.about));

  /** Files and edits are fetched once. */
  async open(): Promise<void> {
    this.facts ??= await sources();
    this.originals = texts(this.facts);
  }

  get text(): string {
    return this.changed[this.path] ?? this.originals[this.path] ?? "";
  }

  /** A file, where it was changed; or at a function of it. */
  show(path: string, op = ""): void {
    this.path = path;
    const there = op ? this.text.split("\n").findIndex((line) => line.startsWith(`def ${op}(`)) : -1;
    this.at = there >= 0 ? there + 1 : this.blind ? 1 : firstChange(this.originals[path] ?? "", this.text);
    this.shown++;
  }

  type(text: string): void {
    this.changed = { ...this.changed, [this.path]: text };
    this.job.trouble = null;
  }

  reset(path: string): void {
    this.changed = Object.fromEntries(Object.entries(this.changed).filter(([other]) => other !== path));
    this.shown++;
  }

  /** Takes a patch in place of what was changed; a sentence is thrown where it does not fit. */
  take(patch: string, name: string, blind = false): void {
    const changed = applied(patch, this.originals);
    this.clear();
    this.blind = blind;
    [this.changed, this.name, this.about] = [changed, name, aboutOf(patch)];
    this.show(Object.keys(changed)[0]!);
  }

  clear(): void {
    this.job.stop();
    this.race.clear();
    [this.changed, this.about, this.name] = [{}, "", "my"];
    [this.job.trouble, this.plans, this.checked, this.judged] = [null, null, null, null];
    this.shown++;
  }

  private asked(): Asked {
    return { preset: this.preset, recipe: this.recipe, bytes: site.corpus.bytes };
  }

  private run(task: Task, work: (ended: AbortSignal) => Promise<void>): Promise<void> {
    return this.job.run(task, (text) => troubleOf(text, this.paths), work);
  }

  private rooms(ended: AbortSignal): { original: Promise<Room>; edit: Promise<Room> } {
    const edited = labelOf(this.name, this.patch).then((label) => openRoom(this.mine(), this.patch && label, ended));
    return { original: openRoom({}, "", ended), edit: edited };
  }

  private mine(): Changed {
    return Object.fromEntries(this.paths.map((path) => [path, this.changed[path]!]));
  }

  plan(): Promise<void> {
    this.plans = null;
    return this.run("plan", async (ended) => void (await this.planIn(this.rooms(ended))));
  }

  private async planIn(rooms: { original: Promise<Room>; edit: Promise<Room> }): Promise<void> {
    const asked = this.asked();
    const [edit, original] = await Promise.all([rooms.edit, rooms.original].map(async (room) => (await room).calls.plan(asked)));
    this.plans = { original: original!, edit: edit! };
  }

  check(): Promise<void> {
    [this.checked, this.checkedAll] = [[], false];
    return this.run("check", async (ended) => {
      const room = await this.rooms(ended).edit;
      await room.calls.check(this.asked(), {
        heard: (row) => {
          this.job.heard();
          this.checked = [...this.checked!, row];
        },
      });
      this.checkedAll = true;
    });
  }

  /** Holds what the sources compute against what the original computes, number by number. */
  judge(): Promise<void> {
    this.judged = { right: false, compared: 0, said: "" };
    return this.run("judge", async (ended) => {
      const rooms = this.rooms(ended);
      const wanted: Evidence[] = [];
      const [original, mended] = await Promise.all([rooms.original, rooms.edit]);
      await original.calls.evidence(undefined, { heard: (row) => (this.job.heard(), void wanted.push(row)) });
      const heard = (row: JudgedRow): void => {
        this.job.heard();
        const compared = this.judged!.compared + 1;
        const said = `Not yet. The first number that differs: ${row.what} is ${brief(row.value)}, and should be ${brief(row.wanted)}.`;
        this.judged = { right: false, compared, said: row.right ? "" : said };
      };
      await mended.calls.judge(wanted, { heard });
      if (this.judged!.said) return;
      const { compared } = this.judged!;
      const said = `Mended. All ${compared} comparisons agree with the original: losses, gradients, weights, rates, and what it writes byte by byte.`;
      this.judged = { right: true, compared, said };
    });
  }

  train(engine: LabEngine, steps: number): Promise<void> {
    this.race.begin(steps);
    return this.run("train", async (ended) => {
      const rooms = this.rooms(ended);
      if (engine !== "spec") await this.planIn(rooms);
      await this.race.run(rooms, this.asked(), engine, () => this.job.heard());
    });
  }
}

const brief = (digits: string): string => (Number.isFinite(Number(digits)) ? Number(digits).toPrecision(6) : digits);

/** What the reader is told of an error of the page's own. */
export const told = (error: unknown): string => lastLine(error);
