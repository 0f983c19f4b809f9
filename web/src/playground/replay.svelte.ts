// A capsule that was opened, and its replay, in a worker of its own: the model in hand stays where it is.
import { corpus } from "../lib/corpus";
import { site, type SiteCorpus } from "../lib/site";
import type { CapsuleFacts, CoreEvent, FromWorker, KeptStep, ToWorker, Verdict } from "../engine/protocol";
import type { Machine } from "./kinds";
import { openWorker } from "./worker";

const LARGEST = 2 ** 20; // bytes; a capsule has less

type Row = [step: number, here: number, told: number | null];

export class Replay {
  name = $state("");
  facts = $state.raw<CapsuleFacts | null>(null);
  kept = $state(false); // its text is in this browser
  text = $state<File | null>(null); // where the user has it
  stops = $state.raw<KeptStep[]>([]); // that this browser has of the run
  running = $state(false);
  engine = $state(""); // that replays, in words
  compiled = $state.raw<{ made: number; of: number } | null>(null); // while a GPU's kernels are
  rows = $state.raw<Row[]>([]);
  goal = $state(0); // the last step to replay
  verdict = $state.raw<Verdict | null>(null);
  problem = $state("");

  private capsule: Uint8Array<ArrayBuffer> | null = null;
  private worker: Worker | null = null;

  /** The one of the site's own texts that may be it. */
  get ours(): SiteCorpus | null {
    return site.corpora.find(({ bytes }) => bytes === this.facts?.text.bytes) ?? null;
  }

  async open(file: File): Promise<void> {
    this.end();
    this.facts = this.verdict = null;
    this.rows = [];
    this.problem = "";
    this.name = file.name;
    this.text = null;
    this.stops = [];
    if (file.size > LARGEST) {
      this.problem = `${file.name} is no capsule: it has more than a megabyte.`;
      return;
    }
    try {
      this.capsule = new Uint8Array(await file.arrayBuffer());
    } catch {
      this.problem = `${file.name} cannot be read.`;
      return;
    }
    this.send({ type: "inspect", capsule: this.capsule });
  }

  /** So many steps, or all that are left, behind what it begins with: what is kept of it, a model file, or null: its start. */
  async start(steps: number | null, from: KeptStep | File | null, { engine, threads }: Machine): Promise<void> {
    if (!this.capsule) return;
    this.verdict = null;
    this.rows = [];
    this.problem = this.engine = "";
    this.compiled = null;
    this.running = true;
    this.goal = 0;
    try {
      const text = await this.found();
      if (this.running) this.send({ type: "replay", capsule: this.capsule, from, steps, text, engine, threads });
    } catch (fault) {
      this.fail(fault instanceof Error ? fault.message : String(fault));
    }
  }

  /** The text as bytes; null where the worker has it. */
  private async found(): Promise<Uint8Array<ArrayBuffer> | null> {
    if (this.text) return new Uint8Array(await this.text.arrayBuffer());
    return !this.kept && this.ours ? corpus(this.ours) : null;
  }

  end(): void {
    this.worker?.terminate();
    this.worker = null;
    this.running = false;
  }

  private send(message: ToWorker): void {
    if (!this.worker) {
      this.worker = openWorker("tinygpt-replay");
      this.worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.take(data);
      this.worker.onerror = (event) => this.fail(`The engine's worker died${event.message ? ` (${event.message})` : ""}.`);
    }
    this.worker.postMessage(message);
  }

  private take(message: FromWorker): void {
    if (message.type === "inspected") {
      this.facts = message.facts;
      this.kept = message.kept;
      this.stops = message.stops;
    } else if (message.type === "progress") this.compiled = message;
    else if (message.type === "event") this.note(message.event);
    else if (message.type === "judged") {
      this.verdict = message;
      this.end();
    } else if (message.type === "error") this.fail(message.message);
  }

  private note(event: CoreEvent): void {
    if (event.event === "replaying") [this.engine, this.goal] = [event.engine, event.steps];
    else if (event.event === "replayed") this.rows = [...this.rows, ...event.rows];
  }

  private fail(why: string): void {
    this.problem = `${why.charAt(0).toUpperCase()}${why.slice(1)}${why.endsWith(".") ? "" : "."}`;
    this.end();
  }
}
