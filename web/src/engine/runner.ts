// Lets Python drive an engine here, in Node or in a browser, as if it were its own: tinygpt/engines/driven.py is
// the other side. The runner asks for a command by sending the answer to the one before; a command and an answer are
// each a frame: uint32 length of the JSON, the JSON, any bytes.
import type { DrivenEngine, GpuRecipe, Place, Recipe } from "./contract.ts";
import { capabilities } from "./features.ts";
import { Gpu } from "./gpu.ts";
import type { PlayerOptions } from "./player.ts";
import type { WasmBuild } from "./protocol.ts";
import { WasmEngine } from "./wasm.ts";
import { WebGpuEngine } from "./webgpu.ts";

interface Frame {
  json: Record<string, unknown>;
  bytes: Uint8Array<ArrayBuffer>;
}

type Command =
  | { type: "wait" } // nothing to do for now
  | { type: "open"; recipe: Recipe; threads: number; build?: WasmBuild; force64?: boolean }
  | { type: "gpu" } // have a device for the next open-gpu; its limits, for lowering
  | { type: "open-gpu"; recipe: GpuRecipe }
  | { type: "corpus"; train: number } // bytes: the training part, then the validation part
  | { type: "steps"; steps: [step: number, rates: number[], offsets: number[]][] }
  | { type: "eval"; offsets: number[] }
  | { type: "take"; name: string; start: number; size: number }
  | { type: "put"; name: string; start: number }
  | { type: "set-step"; step: number }
  | { type: "prefill" }
  | { type: "decode"; token: number }
  | { type: "read"; place: Place; size: number } // the memory itself
  | { type: "write"; place: Place }
  | { type: "run"; modes: string[] }
  | { type: "profile"; mode: string } // of WebGPU: nanoseconds of each dispatch
  | { type: "evaluate"; code: string } // JavaScript, for tests: an async function's body
  | { type: "close" };

export function pack({ json, bytes }: Frame): Uint8Array<ArrayBuffer> {
  const text = new TextEncoder().encode(JSON.stringify(json));
  const packed = new Uint8Array(4 + text.length + bytes.length);
  new DataView(packed.buffer).setUint32(0, text.length, true);
  packed.set(text, 4);
  packed.set(bytes, 4 + text.length);
  return packed;
}

export function unpack(buffer: ArrayBuffer): Frame {
  const length = new DataView(buffer).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(buffer, 4, length));
  return { json: JSON.parse(text) as Frame["json"], bytes: new Uint8Array(buffer, 4 + length) };
}

const NO_BYTES = new Uint8Array(0);

function bytesOf(floats: Float32Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(floats.buffer as ArrayBuffer, floats.byteOffset, floats.byteLength).slice();
}

class Runner {
  private engine: DrivenEngine | null = null;
  private gpu: Gpu | null = null;
  private readonly kernels: PlayerOptions["kernels"];

  constructor(kernels: PlayerOptions["kernels"]) {
    this.kernels = kernels;
  }

  private get opened(): DrivenEngine {
    if (!this.engine) throw new Error("no engine is open");
    return this.engine;
  }

  async execute(command: Command, bytes: Uint8Array<ArrayBuffer>): Promise<Frame> {
    const say = (json: Frame["json"]): Frame => ({ json, bytes: NO_BYTES });
    const send = (floats: Float32Array): Frame => ({ json: {}, bytes: bytesOf(floats) });
    const floats = (): Float32Array => new Float32Array(bytes.slice().buffer);
    switch (command.type) {
      case "open": {
        this.engine?.close();
        this.engine = null;
        const { threads, build, force64 } = command;
        const options: PlayerOptions = { kernels: this.kernels, threads };
        if (build) options.build = build;
        if (force64) options.force64 = force64;
        this.engine = await WasmEngine.create(command.recipe, options);
        return say({ description: this.engine.describe(), threads: this.engine.threads });
      }
      case "gpu":
        this.engine?.close();
        this.engine = null;
        this.gpu?.close();
        this.gpu = await Gpu.open();
        return say({ device: this.gpu.facts(), ...this.gpu.info });
      case "open-gpu": {
        this.engine?.close();
        this.engine = null;
        const gpu = this.gpu ?? (await Gpu.open());
        this.gpu = null; // it is the engine's now
        const shaders = async (file: string): Promise<string> => new TextDecoder().decode(await this.kernels(file));
        this.engine = await WebGpuEngine.create(gpu, command.recipe, { kernels: this.kernels, shaders });
        return say({ description: this.engine.describe(), threads: this.engine.threads });
      }
      case "corpus":
        this.opened.loadCorpus(bytes.subarray(0, command.train), bytes.subarray(command.train));
        return say({});
      case "steps": {
        for (const [step, rates, offsets] of command.steps) await this.opened.trainStep(step, rates, offsets);
        const metrics = await this.opened.readMetrics();
        // JSON has no NaN, so the numbers travel as bytes.
        return { json: {}, bytes: new Uint8Array(new Float64Array(metrics.flatMap((m) => [m.step, m.loss, m.gradNorm])).buffer) };
      }
      case "eval":
        return say({ loss: String(await this.opened.evalLoss(command.offsets)) });
      case "take":
        return send(await this.opened.take(command.name, command.start, command.size));
      case "put":
        await this.opened.put(command.name, command.start, floats());
        return say({});
      case "set-step":
        this.opened.setStep(command.step);
        return say({});
      case "prefill":
        return send(await this.opened.prefill(bytes));
      case "decode":
        return send(await this.opened.decode(command.token));
      case "read":
        return { json: {}, bytes: await this.opened.read(command.place, command.size) };
      case "write":
        await this.opened.write(command.place, bytes.slice());
        return say({});
      case "run":
        for (const mode of command.modes) await this.opened.run(mode);
        return say({});
      case "profile": {
        if (!(this.opened instanceof WebGpuEngine)) throw new Error("only the WebGPU engine has a clock for kernels");
        return { json: {}, bytes: new Uint8Array((await this.opened.profile(command.mode)).buffer) };
      }
      case "evaluate": {
        const body = new Function(`return (async () => { ${command.code} })()`) as () => Promise<unknown>;
        return say({ value: await body() });
      }
      case "close":
        this.engine?.close();
        this.engine = null;
        this.gpu?.close();
        this.gpu = null;
        return say({});
      case "wait":
        return say({});
    }
  }
}

/** Serves commands until the other side is gone. */
export async function serve(exchange: string, kernels: PlayerOptions["kernels"]): Promise<void> {
  const runner = new Runner(kernels);
  let answer: Frame = { json: { capabilities: await capabilities() }, bytes: NO_BYTES };
  for (;;) {
    let response: Response;
    try {
      response = await fetch(exchange, { method: "POST", body: pack(answer) });
      if (!response.ok) return;
    } catch {
      return;
    }
    const { json, bytes } = unpack(await response.arrayBuffer());
    try {
      answer = await runner.execute(json as Command, bytes);
    } catch (error) {
      answer = { json: { error: error instanceof Error ? error.message : String(error) }, bytes: NO_BYTES };
    }
  }
}
