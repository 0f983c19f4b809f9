// A model in a player, with the Python that drives it: it trains, writes, is saved, and goes back to what was kept of it.
import { parse, text } from "../generated/protocol.ts";
import type { Asked, CoreEvent, Fault, Header, Json, KeepOrder, Likely, Origin, Place, Plan, Prompt } from "../generated/protocol.ts";
import type { Session, TrainingWorker, Written } from "../generated/protocol.ts";
import type { Keeper } from "../storage/keeper.ts";
import { merged, type Standing } from "./adapters.ts";
import { Driven } from "./driven.ts";
import type { Gpu } from "../players/gpu.ts";
import { ModelFile, type Reader, writeAdapterFile, writeModelFile } from "./modelfile.ts";
import type { Failure, RunEvent, SavedFile, Started } from "./protocol.ts";
import { lastLine, sentence } from "./answers.ts";
import type { Line } from "./remote.ts";
import type { WasmOptions } from "../players/wasmplayer.ts";

/** A state outside of its player, as a model file has it after the step, and the header of the file it would make. */
export interface Kept {
  header: Json<Header>;
  state: Uint8Array<ArrayBuffer>;
}

/** A piece of a text. */
export interface Piece {
  bytes: number[];
  seconds: number; // since it was asked for
}

/** An error, with what the page has to know of it. */
export class Trouble extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

/** What was asked of the model, and who waits for the answer. */
interface Waiting {
  request: Asked;
  line: Line<Piece> | null;
  resolve(answer: unknown): void;
  reject(error: unknown): void;
}

/** What of a run is kept with its checkpoints, beside its steps. */
const KEPT_EVENTS = ["base", "eval", "exam", "sample", "advice", "retime"];

async function fileOf(header: Header, state: Uint8Array<ArrayBuffer>): Promise<{ bytes: Uint8Array<ArrayBuffer>; step: number }> {
  if ("tensors" in header) return { bytes: writeAdapterFile(header, state), step: header.description.step };
  const { step } = header.rng;
  return { bytes: await writeModelFile(header, step, state), step };
}

export class WorkerRun extends Driven implements TrainingWorker {
  training = false;
  /** What is still done for a run that has ended: nothing else may be meanwhile. */
  settled: Promise<void> = Promise.resolve();
  private asked: Waiting[] = [];
  private taken: Waiting[] = []; // by Python, which answers one after the other
  private attending: Promise<void> = Promise.resolve(); // settles when Python has answered all that it took
  private origin: Kept | null = null; // what it began with, until a state of its own is kept; null: the start values
  readonly base: Standing | null; // the model that its adapters are for; null: it is a whole model
  private readonly keeper: Keeper | null; // null: it only writes
  private readonly reader: Reader;
  private readonly session: Session;
  private readonly plan: Plan;
  private readonly told: (event: RunEvent) => void;

  constructor(
    session: Session,
    plan: Plan,
    gpu: Gpu | null,
    options: Omit<WasmOptions, "kernels">,
    base: Standing | null,
    keeper: Keeper | null,
    reader: Reader,
    tell: (event: RunEvent) => void,
  ) {
    super(gpu, options, tell);
    this.base = base;
    this.keeper = keeper;
    this.reader = reader;
    this.session = session;
    this.plan = plan;
    this.told = tell;
  }

  /** Takes memory, the text and the state to continue from; what it has then. */
  async begin(text: Uint8Array<ArrayBuffer>, from: Kept | null): Promise<Started> {
    this.origin = from;
    const { config, parameters, trainBytes, valBytes, advice } = this.plan;
    const [train, val] = [text.subarray(0, trainBytes), text.subarray(trainBytes)];
    try {
      await sentence(() => this.session.open(this, train, val, from?.state ?? null, this.base && new Uint8Array(this.base.weights.buffer)));
    } catch (error) {
      throw new Error(this.why(error));
    }
    const { bytes } = this.player!;
    const run = this.keeper?.folder.id ?? "";
    return { run, config, engine: this.player!.describe(), parameters, arenaBytes: bytes, trainBytes, valBytes, advice };
  }

  /** Until what it ends with is kept. */
  async train(): Promise<void> {
    await this.attending;
    this.training = true;
    try {
      const ended = parse(await this.session.train());
      if ("error" in ended) throw new Trouble({ message: ended.error });
      this.told({ event: "stopped", ...ended });
      if (ended.reason === "diverged") this.keeper?.forget(ended.step);
    } catch (error) {
      throw await this.trouble(error);
    } finally {
      this.training = false;
      if (!this.gpu) this.origin = null; // the player's own state is safe
    }
    if (!this.lost) this.settled = this.session.keep_end().catch(async (error: unknown) => Promise.reject(await this.trouble(error)));
    try {
      await this.settled;
    } finally {
      this.settled = Promise.resolve();
      await this.attend();
    }
  }

  /** Now, or between two blocks of steps. */
  private async ask<Answer>(request: Asked, line: Line<Piece> | null = null): Promise<Answer> {
    const answered = new Promise<Answer>((resolve, reject) => {
      this.asked.push({ request, line, resolve: resolve as (answer: unknown) => void, reject });
    });
    await this.settled.catch(() => undefined);
    await this.attend();
    return answered;
  }

  /** One call at a time, for the answers come in the order of the questions. While it trains, Python asks for them itself. */
  private attend(): Promise<void> {
    return (this.attending = this.attending.then(() => this.attendNow()));
  }

  private async attendNow(): Promise<void> {
    if (this.asked.length === 0 || this.training) return;
    try {
      await this.session.attend();
    } catch (error) {
      await this.trouble(error);
    }
  }

  asFile(): Promise<SavedFile> {
    return this.ask({ type: "save" });
  }

  /** The tab may be gone soon. */
  keepSoon(): Promise<void> {
    return this.ask({ type: "keep" });
  }

  write(prompt: Prompt & { stop?: string }, line: Line<Piece>): Promise<void> {
    return this.ask({ type: "write", ...prompt }, line);
  }

  weigh(prompt: Prompt): Promise<Likely[]> {
    return this.ask({ type: "weigh", ...prompt });
  }

  /** A copy of the weights as they are now, or between two blocks of steps; adapters are merged into their base. */
  async weights(): Promise<Float32Array<ArrayBuffer>> {
    const lent = await this.ask<Float32Array<ArrayBuffer>>({ type: "look" });
    return this.base ? merged(this.base, lent, this.plan.config, this.reader) : lent;
  }

  /** What the page is told; whoever still waits is told the same. */
  private async trouble(error: unknown): Promise<Trouble> {
    const message = this.why(error);
    const trouble =
      error instanceof Trouble ? error : new Trouble(this.lost ? { message, instead: await this.remains(), lost: true } : { message });
    for (const one of [...this.taken.splice(0), ...this.asked.splice(0)]) one.reject(trouble);
    return trouble;
  }

  /** What there is of the model outside of its player. */
  private async remains(): Promise<SavedFile | null> {
    if (this.origin) return this.file(this.origin);
    const found = await this.keeper?.folder.model();
    return found ? this.named(found.bytes, found.record.step) : null;
  }

  /** What another run needs to know to go on from here. */
  stands(): Origin {
    return parse(this.session.stands());
  }

  async export(): Promise<Kept> {
    return { header: this.session.header_text(), state: await this.state() };
  }

  private async state(places?: Json<Place[]>): Promise<Uint8Array<ArrayBuffer>> {
    const found = parse(places ?? (await this.session.state_places())); // which may have put another player in place
    return this.player!.read(found);
  }

  async file(kept: Kept): Promise<SavedFile> {
    const { bytes, step } = await fileOf(parse(kept.header), kept.state);
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

  // --- what Python asks of the worker, while it trains
  override emit(told: Json<CoreEvent>): void {
    const event = parse(told);
    this.tell(event);
    if (event.event === "steps") this.keeper?.note(event.rows.at(-1)![0], told);
    else if ("step" in event && KEPT_EVENTS.includes(event.event)) this.keeper?.note(event.step, told);
  }

  waiting(): boolean {
    return this.asked.length > 0;
  }

  requests(): Json<Asked[]> {
    const asked = this.asked.splice(0);
    const wanted = asked.filter(({ line }) => !line?.signal.aborted);
    for (const one of asked) if (!wanted.includes(one) || one.request.type === "keep") one.resolve(undefined);
    this.taken.push(...wanted.filter(({ request }) => request.type !== "keep"));
    return text(wanted.map(({ request }) => request));
  }

  async save(header: Json<Header>, places: Json<Place[]>): Promise<void> {
    const file = await this.file({ header, state: await this.state(places) });
    this.taken.shift()?.resolve(file);
  }

  async lend(places: Json<Place[]>): Promise<void> {
    const { buffer } = await this.player!.read(parse(places));
    this.taken.shift()?.resolve(new Float32Array(buffer));
  }

  async keep(asked: Json<KeepOrder>, state: Uint8Array<ArrayBuffer>): Promise<Json<Fault | null>> {
    try {
      const order = parse(asked);
      await this.keeper!.keep(order, (await fileOf(order.header, state)).bytes);
      this.origin = null;
      return text(null);
    } catch (error) {
      return text<Fault>([error instanceof DOMException ? error.name : "", lastLine(error)]);
    }
  }

  async kept(step: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const found = await this.keeper?.folder.model(step);
    return found ? (await ModelFile.open(found.bytes, this.reader)).body() : null;
  }

  written(piece: Json<Written>): boolean {
    const [bytes, seconds, done] = parse(piece);
    const { line, resolve } = this.taken[0]!;
    line!.tell({ bytes, seconds });
    if (done) {
      this.taken.shift();
      resolve(undefined);
    }
    return !line!.signal.aborted;
  }

  weighed(likely: Json<Likely[]>): void {
    this.taken.shift()?.resolve(parse(likely));
  }

  refused(message: string): void {
    this.taken.shift()?.reject(new Error(message));
  }
}
