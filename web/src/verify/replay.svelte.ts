// A capsule that was opened, and its replay, in a worker of its own: the model in hand stays where it is.
import { fromAddress } from "../lib/address";
import { corpus } from "../lib/corpus";
import { type SiteCorpus, siteTexts } from "../lib/site";
import { sentence } from "../lib/format";
import { LARGEST_CAPSULE } from "../generated/constants";
import type { CapsuleFacts, Compiling, KeptStep, ReplayedRow, TrialEvent, Verdict } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Machine } from "../state/kinds";
import { type Calls, type Connection, openWorker } from "../state/connection";

export class Replay {
  name = $state("");
  facts = $state.raw<CapsuleFacts | null>(null);
  kept = $state(false); // its text is in this browser
  text = $state<File | null>(null); // where the user has it
  stops = $state.raw<KeptStep[]>([]); // that this browser has of the run
  running = $state(false);
  engine = $state(""); // that replays, in words
  compiled = $state.raw<Compiling | null>(null); // while a GPU's kernels are
  rows = $state.raw<ReplayedRow[]>([]);
  goal = $state(0); // the last step to replay
  verdict = $state.raw<Verdict | null>(null);
  problem = $state("");

  private capsule: Uint8Array<ArrayBuffer> | null = null;
  private worker: Connection | null = null;

  /** The one of the site's own texts that may be it. */
  get ours(): SiteCorpus | null {
    return siteTexts.find(({ bytes }) => bytes === this.facts?.text.bytes) ?? null;
  }

  /** Opens what an address has, as `inAddress` packed it. */
  async follow(packed: string): Promise<void> {
    try {
      await this.open(new File([await fromAddress(packed, LARGEST_CAPSULE)], "The link"));
    } catch {
      this.problem = "The link is not whole: ask for it again.";
    }
  }

  async open(file: File): Promise<void> {
    this.end();
    this.facts = this.verdict = null;
    this.rows = [];
    this.problem = "";
    this.name = file.name;
    this.text = null;
    this.stops = [];
    if (file.size > LARGEST_CAPSULE) {
      this.problem = `${file.name} is no capsule: it has more than a megabyte.`;
      return;
    }
    try {
      this.capsule = new Uint8Array(await file.arrayBuffer());
    } catch {
      this.problem = `${file.name} cannot be read.`;
      return;
    }
    try {
      ({ facts: this.facts, kept: this.kept, stops: this.stops } = await this.calls().inspect(this.capsule));
    } catch (fault) {
      this.fail(fault);
    }
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
      if (!this.running) return;
      const heard = (event: TrialEvent): void => this.hear(event);
      this.verdict = await this.calls().replay({ capsule: this.capsule, from, steps, text, engine, threads }, { heard });
      this.end();
    } catch (fault) {
      this.fail(fault);
    }
  }

  /** The text as bytes; null where the worker has it. */
  private async found(): Promise<Uint8Array<ArrayBuffer> | null> {
    if (this.text) return new Uint8Array(await this.text.arrayBuffer());
    return !this.kept && this.ours ? corpus(this.ours) : null;
  }

  end(): void {
    this.worker?.end();
    this.worker = null;
    this.running = false;
  }

  private calls(): Calls {
    this.worker ??= openWorker("tinygpt-replay", (why) => this.fail(new Error(`The engine's worker died${why ? ` (${why})` : ""}.`)));
    return this.worker.calls;
  }

  private hear(event: TrialEvent): void {
    if (event.event === "compiling") this.compiled = event;
    else if (event.event === "replaying") [this.engine, this.goal] = [event.engine, event.steps];
    else if (event.event === "replayed") this.rows = [...this.rows, ...event.rows];
  }

  private fail(fault: unknown): void {
    if (fault instanceof Gone) return;
    this.problem = sentence(fault instanceof Error ? fault.message : String(fault));
    this.end();
  }
}
