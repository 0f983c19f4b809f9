// A worker that does nothing by itself: a test sees what it was asked and says what it answers.
import type {
  Capabilities,
  CheckedFile,
  CoreEvent,
  Failure,
  Library,
  RunConfig,
  RunEvent,
  SavedFile,
  Started,
} from "../src/worker/protocol";
import { Gone } from "../src/worker/remote";
import type { Run } from "../src/state/run.svelte";
import type { Calls, Connection } from "../src/state/connection";

type Name = keyof Calls;
type Asked<Of extends Name> = Parameters<Calls[Of]>[0];
type Answer<Of extends Name> = Awaited<ReturnType<Calls[Of]>>;

interface Call {
  name: Name;
  asked: unknown;
  heard: (event: never) => void;
  signal: AbortSignal | undefined;
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

export class FakeWorker implements Connection {
  static opened: FakeWorker[] = [];
  static get last(): FakeWorker {
    return FakeWorker.opened.at(-1)!;
  }
  static open = (_: string, died: (why: string) => void): FakeWorker => new FakeWorker(died);

  readonly sent: Call[] = []; // all that was ever asked
  terminated = false;
  readonly die: (why: string) => void;
  readonly calls = new Proxy(
    {},
    { get: (_, name: Name) => (asked: unknown, options?: Partial<Call>) => this.call(name, asked, options) },
  ) as Calls;
  private waiting: Call[] = [];

  constructor(died: (why: string) => void) {
    FakeWorker.opened.push(this);
    this.die = died;
  }

  private call(name: Name, asked: unknown, { heard = () => undefined, signal }: Partial<Call> = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = { name, asked, heard, signal, resolve, reject };
      this.sent.push(call);
      this.waiting.push(call);
    });
  }

  end(): void {
    this.terminated = true;
    for (const call of this.waiting.splice(0)) call.reject(new Gone());
  }

  /** The first call of that name that is not answered. */
  private taken(name: Name): Call {
    const call = this.waiting.find((one) => one.name === name);
    if (!call) throw new Error(`${name} was not asked for`);
    this.waiting = this.waiting.filter((one) => one !== call);
    return call;
  }

  async answer<Of extends Name>(name: Of, answer: Answer<Of>): Promise<void> {
    this.taken(name).resolve(answer);
    await settle();
  }

  async fail(name: Name, failure: Failure): Promise<void> {
    this.taken(name).reject(Object.assign(new Error(), failure));
    await settle();
  }

  /** What is heard of the first call of that name. */
  tell(name: Name, ...events: unknown[]): void {
    const call = this.waiting.find((one) => one.name === name);
    for (const event of events) call!.heard(event as never);
  }

  /** Events of the run under way. */
  hear(...events: RunEvent[]): void {
    this.tell("start", ...events);
  }

  /** What was asked last by that name. */
  asked<Of extends Name>(name: Of): Asked<Of> | undefined {
    return this.sent.findLast((call) => call.name === name)?.asked as Asked<Of>;
  }

  count(name: Name): number {
    return this.sent.filter((call) => call.name === name).length;
  }

  /** It has started, and the page has its library. */
  async ready(more: Partial<Library> = {}): Promise<void> {
    await this.answer("capabilities", capabilities);
    await this.answer("library", library(more));
  }
}

/** Until all that follows from an answer is done. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

export const capabilities: Capabilities = { builds: ["simd"], threads: 2, isolated: true, memory64: true, webgpu: null, note: "" };
export const config: RunConfig = { model: { layers: 1, d_model: 8 }, train: { steps: 100, val_fraction: 0.1 } };
export const model: Started = {
  ...{ run: "a-run", config, engine: "WebAssembly, 1 MB", parameters: 1000, arenaBytes: 1, trainBytes: 90, valBytes: 10, advice: [] },
};
export const started: RunEvent = { event: "started", ...model };

export function library(more: Partial<Library> = {}): Library {
  return { durable: true, runs: [], damaged: [], used: null, available: null, ...more };
}

/** Steps from the one after `from` to `to`. */
export function steps(from: number, to: number): CoreEvent {
  const rows = Array.from({ length: to - from }, (_, i): [number, number, number, number] => [
    from + i + 1,
    5 - (from + i) / 100,
    1,
    0.001,
  ]);
  return { event: "steps", rows, tokens_per_s: 1000, eta_s: 3 };
}

export function file(name: string, step: number): SavedFile {
  return { name, step, bytes: new Uint8Array([1, 2, 3]) };
}

export function checked(name: string, step: number, more: Partial<CheckedFile> = {}): CheckedFile {
  const plain = { config, parameters: 1000, loss: 2, history: [], sample: "", learnt: null, leftOut: "" };
  return { file: file(name, step), ...plain, ...more };
}

/** A file that the page is given. */
export function chosen(name: string): Pick<File, "name" | "arrayBuffer"> {
  return { name, arrayBuffer: async () => new ArrayBuffer(3) };
}

/** A model comes to hand: a run of the library, or from a file. */
export async function arrive(run: Run, worker: FakeWorker, found: CheckedFile): Promise<void> {
  void (found.kept ? run.reopen(found.kept.run) : run.load(chosen(found.file.name)));
  await settle();
  await worker.answer(found.kept ? "take" : "check", found);
}

/** A run is asked for, and starts. */
export async function begin(worker: FakeWorker, asked: Promise<void>, more: Partial<Started> = {}): Promise<void> {
  void asked;
  await settle();
  worker.hear({ event: "started", ...model, ...more });
}
