// A model in an engine, with the Python that drives it: it trains, writes, is saved, and goes back to what was kept of it.
import type { State } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { stateBytes, writeModelFile } from "./modelfile.ts";
import type { CoreEvent, FromWorker, SavedFile, ToWorker } from "./protocol.ts";
import { bridge, lastLine, type Page, type Plan, type Request, type Session } from "./python.ts";
import type { WasmEngine } from "./wasm.ts";
import { WebGpuEngine } from "./webgpu.ts";

export type Asked = Extract<ToWorker, { type: "save" | "sample" }>;

/** A state outside of its engine, and the header of the file it would make. */
export interface Kept {
  header: string;
  state: State;
}

export const say = (message: FromWorker, transfer: Transferable[] = []): void => postMessage(message, { transfer });

export class Run implements Page {
  training = false;
  private stop = false;
  private asked: Asked[] = [];
  private fault: unknown = null;
  private aside: State | null = null; // exported, not yet known to be sound
  private readonly session: Session;
  private readonly plan: Plan;
  private readonly engine: WasmEngine | WebGpuEngine;
  private kept: Kept | null; // null: the start values

  constructor(session: Session, plan: Plan, engine: WasmEngine | WebGpuEngine, kept: Kept | null) {
    this.session = session;
    this.plan = plan;
    this.engine = engine;
    this.kept = kept;
    session.attach(bridge(engine, (error) => (this.fault = error)), this);
  }

  async train(): Promise<void> {
    this.training = true;
    try {
      const { reason, step, message, error } = JSON.parse(await this.session.train());
      if (error) say({ type: "error", message: error });
      else say({ type: "stopped", reason, step, ...(message ? { message } : {}) });
    } catch (error) {
      await this.complain(error);
    } finally {
      this.training = false;
      this.aside = null;
      if (!this.gpu) this.kept = null; // the engine's own state is safe
    }
    await this.attend();
  }

  requestStop(): void {
    this.stop = true;
  }

  /** Now, or between two steps. */
  async ask(request: Asked): Promise<void> {
    this.asked.push(request);
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

  private get gpu(): Gpu | null {
    return this.engine instanceof WebGpuEngine ? this.engine.player.gpu : null;
  }

  /** Why the engine is gone, if it is. */
  get lost(): Error | null {
    return this.gpu?.brokenBy ?? null;
  }

  private async complain(error: unknown): Promise<void> {
    const message = lastLine(this.lost ?? this.fault ?? error);
    if (this.lost) say({ type: "error", message, instead: this.kept && (await this.file(this.kept)), lost: true });
    else say({ type: "error", message });
  }

  /** What another run needs to know to go on from here. */
  stands(): NonNullable<Request["from"]> {
    return JSON.parse(this.session.stands()) as NonNullable<Request["from"]>;
  }

  async export(): Promise<Kept> {
    return { header: this.session.header_text(), state: await this.engine.exportState() };
  }

  async file({ header, state }: Kept): Promise<SavedFile> {
    const { layers, d_model } = this.plan.config.model;
    const bytes = await writeModelFile(JSON.parse(header) as Record<string, unknown>, stateBytes(this.plan.recipe, state));
    return { bytes, name: `tinygpt-${layers}x${d_model}-step${state.step}.tinygpt`, step: state.step };
  }

  close(): void {
    this.engine.close();
  }

  // --- what Python asks of the page
  now(): number {
    return performance.now() / 1000;
  }

  emit(event: string): void {
    say({ type: "event", event: JSON.parse(event) as CoreEvent });
  }

  stopping(): boolean {
    return this.stop;
  }

  requests(): string {
    const asked = this.asked;
    this.asked = [];
    return JSON.stringify(asked);
  }

  async save(header: string): Promise<void> {
    const file = await this.file({ header, state: await this.engine.exportState() });
    say({ type: "saved", ...file }, [file.bytes.buffer]);
  }

  async setAside(): Promise<void> {
    try {
      this.aside = await this.engine.exportState();
    } catch (error) {
      if (this.lost) throw error;
      console.warn(`the model could not be kept: ${lastLine(error)}`); // the one before still is
    }
  }

  keep(header: string): boolean {
    if (!this.aside) return false;
    this.kept = { header, state: this.aside };
    this.aside = null;
    return true;
  }

  async goBack(): Promise<void> {
    await (this.kept ? this.engine.importState(this.kept.state) : this.engine.restart());
  }

  sampled(text: string): void {
    say({ type: "sampled", text });
  }

  refused(message: string): void {
    say({ type: "error", message });
  }
}
