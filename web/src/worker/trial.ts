// An engine of its own for what is only tried: Python drives it, and the model in hand is not touched.
import { type DeviceFacts, type Failed, type Json, parse, type Place, type TrialWorker } from "../generated/protocol.ts";
import { digest } from "../lib/bytes.ts";
import { Driven } from "./driven.ts";
import { Gpu } from "../players/gpu.ts";
import type { Machine, TrialEvent } from "./protocol.ts";
import { answer } from "./answers.ts";
import type { Line } from "./remote.ts";

export class Trial extends Driven implements TrialWorker {
  /** On an engine that is opened for it. */
  static async on({ engine, threads }: Machine, { tell, signal }: Line<TrialEvent>): Promise<Trial> {
    const trial = new Trial(engine === "webgpu" ? await Gpu.open() : null, { threads }, tell);
    signal.addEventListener("abort", () => trial.requestStop());
    return trial;
  }

  /** The GPU to plan for, as a request of Python's has it. */
  device(): { device?: DeviceFacts } {
    return this.gpu ? { device: this.gpu.facts() } : {};
  }

  /** What Python answers, or the cause of its failing. */
  async answer<T>(work: () => Promise<Json<T>>): Promise<Exclude<T, Failed>> {
    try {
      return answer(await work());
    } catch (error) {
      throw new Error(this.why(error));
    } finally {
      this.close();
    }
  }

  async digest(places: Json<Place[]>): Promise<string> {
    return digest(await this.player!.read(parse(places)));
  }
}
