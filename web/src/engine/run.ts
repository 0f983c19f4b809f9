// A model in a player, with the Python that drives it: it trains, writes, is saved, and goes back to what was kept of it.
import { merged, type Standing } from "./adapters.ts";
import type { Place, Player } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { type AdapterHeader, ModelFile, type Origin, type Reader, writeAdapterFile, writeModelFile } from "./modelfile.ts";
import { makePlayer, startValues } from "./players.ts";
import type { CoreEvent, FromWorker, SavedFile, ToWorker } from "./protocol.ts";
import { type Bridge, bridge, lastLine, type Page, type Plan, sentence, type Session } from "./python.ts";
import type { WasmOptions } from "./wasmplayer.ts";
import type { Keeper } from "../storage/keeper.ts";
import type { KeepOrder } from "../storage/shelf.ts";

export type Asked = Extract<ToWorker, { type: "save" | "write" | "weigh" | "keep" }> | { type: "look" };

/** A state outside of its player, as a model file has it behind the step, and the header of the file it would make. */
export interface Kept {
  header: string;
  state: Uint8Array<ArrayBuffer>;
}

/** A file's, as tab/session.py states it. */
type Header = { rng: { step: number } } | (AdapterHeader & { description: { step: number } });

async function fileOf(header: Header, state: Uint8Array<ArrayBuffer>): Promise<{ bytes: Uint8Array<ArrayBuffer>; step: number }> {
  if ("tensors" in header) return { bytes: writeAdapterFile(header, state), step: header.description.step };
  const { step } = header.rng;
  return { bytes: await writeModelFile(header, step, state), step };
}

export const say = (message: FromWorker, transfer: Transferable[] = []): void => postMessage(message, { transfer });
export const tellProgress = (made: number, of: number): void => say({ type: "progress", made, of });

export class Run implements Page {
  training = false;
  /** What is still done for a run that has ended: nothing else may be meanwhile. */
  settled: Promise<void> = Promise.resolve();
  private stop = false;
  private asked: Asked[] = [];
  private readonly hushed = new Set<number>();
  private borrowers: ((weights: Promise<Float32Array<ArrayBuffer>>) => void)[] = [];
  private fault: unknown = null;
  private player: Player | null = null;
  private origin: Kept | null = null; // what it began with, until a state of its own is kept; null: the start values
  readonly base: Standing | null; // that its adapters stand on; null: it is a whole model
  private readonly keeper: Keeper | null; // null: it only writes
  private readonly reader: Reader;
  private readonly session: Session;
  private readonly plan: Plan;
  private readonly gpu: Gpu | null;
  private readonly options: Omit<WasmOptions, "kernels">;

  /** The GPU, if there is one, is the run's from here on. */
  constructor(session: Session, plan: Plan, gpu: Gpu | null, options: Omit<WasmOptions, "kernels">, base: Standing | null, keeper: Keeper | null, reader: Reader) {
    this.base = base;
    this.keeper = keeper;
    this.reader = reader;
    this.session = session;
    this.plan = plan;
    this.gpu = gpu;
    this.options = options;
  }

  /** Takes memory, the text and the state to go on from; says what it has. */
  async begin(type: "started" | "opened", text: Uint8Array<ArrayBuffer>, from: Kept | null): Promise<void> {
    this.origin = from;
    const { config, parameters, trainBytes, valBytes, advice } = this.plan;
    const [train, val] = [text.subarray(0, trainBytes), text.subarray(trainBytes)];
    try {
      await sentence(() => this.session.open(this, train, val, from?.state ?? null, this.base && new Uint8Array(this.base.weights.buffer)));
    } catch (error) {
      throw this.fault ?? error;
    }
    const { bytes } = this.player!;
    const run = this.keeper?.folder.id ?? "";
    say({ type, run, config, engine: this.player!.describe(), parameters, arenaBytes: bytes, trainBytes, valBytes, advice });
  }

  async train(): Promise<void> {
    this.training = true;
    let sound = false;
    try {
      const { reason, step, message, error } = JSON.parse(await this.session.train());
      if (error) say({ type: "error", message: error });
      else say({ type: "stopped", reason, step, ...(message ? { message } : {}) });
      if (reason === "diverged") this.keeper?.forget(step);
      sound = !error;
    } catch (error) {
      await this.complain(error);
    } finally {
      this.training = false;
      if (!this.gpu) this.origin = null; // the player's own state is safe
    }
    if (sound && !this.lost) this.settled = this.session.keep_end().catch((error: unknown) => this.complain(error));
    await this.settled;
    await this.attend();
  }

  requestStop(): void {
    this.stop = true;
    this.player?.stop();
  }

  /** No more of that text. */
  hush(id: number): void {
    this.hushed.add(id);
    this.asked = this.asked.filter((request) => request.type !== "write" || request.id !== id);
  }

  /** Now, or between two blocks of steps. */
  async ask(request: Asked): Promise<void> {
    this.asked.push(request);
    await this.settled;
    if (!this.training) await this.attend();
  }

  private async attend(): Promise<void> {
    if (this.asked.length === 0) return;
    try {
      await this.session.attend();
    } catch (error) {
      await this.complain(error);
    }
  }

  /** A copy of the weights as they stand now, or between two blocks of steps; adapters are merged with what they stand on. */
  async weights(): Promise<Float32Array<ArrayBuffer>> {
    const lent = new Promise<Float32Array<ArrayBuffer>>((resolve) => this.borrowers.push(resolve));
    await this.ask({ type: "look" });
    return this.base ? merged(this.base, await lent, this.plan.config, this.reader) : lent;
  }

  async lend(places: string): Promise<void> {
    const read = this.player!.read(JSON.parse(places) as Place[]);
    this.borrowers.shift()?.(read.then(({ buffer }) => new Float32Array(buffer)));
    await read;
  }

  /** Why the player is gone, if it is. */
  get lost(): Error | null {
    return this.gpu?.brokenBy ?? null;
  }

  private async complain(error: unknown): Promise<void> {
    const message = lastLine(this.lost ?? this.fault ?? error);
    if (this.lost) say({ type: "error", message, instead: await this.remains(), lost: true });
    else say({ type: "error", message });
  }

  /** What there is of the model outside of its player. */
  private async remains(): Promise<SavedFile | null> {
    if (this.origin) return this.file(this.origin);
    const found = await this.keeper?.folder.model();
    return found ? this.named(found.bytes, found.record.step) : null;
  }

  /** What another run needs to know to go on from here. */
  stands(): Origin {
    return JSON.parse(this.session.stands()) as Origin;
  }

  async export(): Promise<Kept> {
    return { header: this.session.header_text(), state: await this.state() };
  }

  private async state(places?: string): Promise<Uint8Array<ArrayBuffer>> {
    const found = JSON.parse(places ?? (await this.session.state_places())) as Place[];
    return this.player!.read(found);
  }

  async file(kept: Kept): Promise<SavedFile> {
    const { bytes, step } = await fileOf(JSON.parse(kept.header) as Header, kept.state);
    return this.named(bytes, step);
  }

  /** As it stands. */
  async saved(): Promise<SavedFile> {
    return this.file(await this.export());
  }

  private named(bytes: Uint8Array<ArrayBuffer>, step: number): SavedFile {
    const { layers, d_model } = this.plan.config.model;
    const name = `tinygpt-${layers}x${d_model}`;
    if (!this.base) return { bytes, name: `${name}-step${step}.tinygpt`, step };
    const { title, sha256, bytes: below } = this.base;
    return { bytes, name: `${name}-adapter-step${step}.safetensors`, step, base: { title, sha256, bytes: below } };
  }

  close(): void {
    this.player?.close();
    this.gpu?.close();
  }

  // --- what Python asks of the page
  async open(playbook: string): Promise<Bridge> {
    try {
      this.player = await makePlayer(JSON.parse(playbook), this.gpu, this.options, tellProgress);
    } catch (error) {
      this.fault = error;
      throw error;
    }
    return bridge(this.player, () => this.lost !== null, (error) => (this.fault = error));
  }

  readonly startValues = startValues;

  zeros(size: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(size);
  }

  now(): number {
    return performance.now() / 1000;
  }

  emit(text: string): void {
    const event = JSON.parse(text) as CoreEvent;
    say({ type: "event", event });
    if (event.event === "steps") this.keeper?.note(event.rows.at(-1)![0], text);
    else if (event.event === "base" || event.event === "eval" || event.event === "sample" || event.event === "advice" || event.event === "retime") this.keeper?.note(event.step, text);
  }

  stopping(): boolean {
    return this.stop;
  }

  waiting(): boolean {
    return this.asked.length > 0;
  }

  requests(): string {
    const asked = this.asked;
    this.asked = [];
    return JSON.stringify(asked);
  }

  async save(header: string, places: string): Promise<void> {
    const file = await this.file({ header, state: await this.state(places) });
    say({ type: "saved", ...file }, [file.bytes.buffer]);
  }

  async keep(text: string, state: Uint8Array<ArrayBuffer>): Promise<string> {
    try {
      const order = JSON.parse(text) as KeepOrder;
      await this.keeper!.keep(order, (await fileOf(order.header as Header, state)).bytes);
      this.origin = null;
      return "null";
    } catch (error) {
      return JSON.stringify([error instanceof DOMException ? error.name : "", lastLine(error)]);
    }
  }

  async kept(step: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const found = await this.keeper?.folder.model(step);
    return found ? (await ModelFile.open(found.bytes, this.reader)).body() : null;
  }

  written(piece: string): boolean {
    const [id, bytes, seconds, done] = JSON.parse(piece) as [number, number[], number, boolean];
    say({ type: "written", id, bytes, seconds, done });
    return !this.hushed.has(id);
  }

  weighed(answer: string): void {
    const [id, likely] = JSON.parse(answer) as [number, [number, number][]];
    say({ type: "weighed", id, likely });
  }

  refused(message: string): void {
    say({ type: "refused", message });
  }
}
