// A folder of answers: of each a stretch is trained again, one after the other, in the page's worker. No answer ends the others.
import { digest } from "../lib/bytes";
import { corpus } from "../lib/corpus";
import { sentence } from "../lib/format";
import type { Found } from "../lib/owntext";
import { siteTexts } from "../lib/site";
import { LARGEST_CAPSULE } from "../generated/constants";
import { type Connection, openWorker } from "../state/connection";
import type { EngineName } from "../worker/protocol";
import { blank, edits, endLoss, type Grade, strays, type Task } from "./homework";

export const USUAL_STEPS = 50; // of each, as `tinygpt replay FOLDER` has it
export const MOST_FILES = 500;

export class Grading {
  rows = $state.raw<Grade[]>([]);
  running = $state(false);
  done = $state(0);
  problem = $state("");
  task = $state.raw<Task | null>(null); // that it is graded against
  private handed: Parameters<Grading["grade"]> | null = null;
  private connection: Connection | null = null;
  private died = "";
  private stopped = false;

  private get calls() {
    this.connection ??= openWorker("tinygpt-homework", (why) => {
      this.died = why || "its memory may have run out";
      this.close();
    });
    return this.connection.calls;
  }

  private close(): void {
    this.connection?.end();
    this.connection = null;
  }

  stop(): void {
    this.stopped = true;
    this.close();
  }

  /** The same files once more, to their last step. */
  async gradeWhole(): Promise<void> {
    const [found, task, , texts] = this.handed!;
    await this.grade(found, task, null, texts);
  }

  /** Every visible file; of each so many `steps`, or all; `texts` are the teacher's own, for runs that did not learn from the site's. */
  async grade(found: Found[], task: Task | null, steps: number | null, texts: File[]): Promise<void> {
    const files = found
      .filter(({ path }) => !path.split("/").some((part) => part.startsWith(".")))
      .toSorted((a, b) => (a.path < b.path ? -1 : 1));
    this.problem = "";
    if (files.length === 0) this.problem = "There is no file in it: drop the folder with the capsules that were handed in.";
    if (files.length > MOST_FILES)
      this.problem = `There are ${files.length} files in it, and ${MOST_FILES} are the most: drop the folder of one class.`;
    if (steps !== null && (!Number.isInteger(steps) || steps < 1)) this.problem = "Replay at least one step of each.";
    if (this.problem) return;
    [this.rows, this.done, this.running, this.stopped] = [files.map(({ path }) => blank(path)), 0, true, false];
    [this.handed, this.task] = [[found, task, steps, texts], task];
    const seen = new Map<string, number>();
    const own = await Promise.all(texts.map(async (file) => new Uint8Array(await file.arrayBuffer())));
    const known = new Map(await Promise.all(own.map(async (text) => [await digest(text), text] as const)));
    for (const [i, { file }] of files.entries()) {
      const row = await this.graded(this.rows[i]!, file, task, steps, known);
      if (this.stopped) break;
      this.rows = this.rows.with(i, row);
      if (file.size <= LARGEST_CAPSULE) this.pair(i, seen, await digest(new Uint8Array(await file.arrayBuffer())));
      this.done = i + 1;
    }
    this.rows = this.rows.map((row) => (row.verdict === "waiting" ? { ...row, verdict: "unread", why: "It was stopped before." } : row));
    this.running = false;
    this.close();
  }

  /** Names in both rows that their files are the same. */
  private pair(at: number, seen: Map<string, number>, sha256: string): void {
    const before = seen.get(sha256);
    if (before === undefined) return void seen.set(sha256, at);
    const [one, other] = [this.rows[before]!, this.rows[at]!];
    this.rows = this.rows.with(before, { ...one, twins: [...one.twins, other.file] }).with(at, { ...other, twins: [one.file] });
  }

  private async graded(
    row: Grade,
    file: File,
    task: Task | null,
    steps: number | null,
    known: Map<string, Uint8Array<ArrayBuffer>>,
  ): Promise<Grade> {
    let read = row;
    this.died = "";
    try {
      if (file.size > LARGEST_CAPSULE) throw new Error("it is no capsule: it has more than a megabyte");
      const capsule = new Uint8Array(await file.arrayBuffer());
      const { facts, kept } = await this.calls.inspect(capsule);
      const { title, text, config, version, curve } = facts;
      read = { ...row, title, text: text.name, steps: facts.steps, loss: endLoss(curve), edits: edits(config, version) };
      if (task) read = { ...read, strays: strays(facts, task) };
      const ours = siteTexts.find(({ sha256 }) => sha256 === text.sha256);
      const bytes = known.get(text.sha256) ?? (ours ? await corpus(ours) : null);
      if (!bytes && !kept)
        throw new Error(`it learned from ${text.name}, which is not here: choose it among texts that are not the site's, and grade again`);
      const engine = await this.engineOf(facts.device);
      const replayed = Math.min(steps ?? facts.steps, facts.steps);
      const {
        verdict,
        head,
        text: why,
      } = await this.calls.replay({ capsule, from: null, steps: replayed, text: bytes, engine, threads: 0 });
      const isPart = verdict === "equal" && replayed < facts.steps; // "Exactly equal." says too much of it
      return { ...read, verdict, replayed, why: isPart ? why : `${head} ${why}` };
    } catch (error) {
      const why = this.died ? `the engine's worker died (${this.died})` : error instanceof Error ? error.message : String(error);
      return { ...read, verdict: "unread", why: sentence(why) };
    }
  }

  /** What the capsule says that it was made on, where this browser has it: only that can prove it. */
  private async engineOf(device: string): Promise<EngineName> {
    const { webgpu } = await this.calls.capabilities();
    return device.startsWith("WebGPU") && webgpu && !webgpu.software ? "webgpu" : "wasm";
  }
}
