// Lets Python drive a player here, in Node or in a browser, as if it were its own: tinygpt/engines/driven.py is
// the other side. The runner asks for a command by sending the answer to the one before; a command and an answer are
// each a frame: uint32 length of the JSON, the JSON, any bytes. Meanwhile it waits for a stop of the command under way.
import type { GpuPlaybook, Place, Playbook } from "../generated/protocol.ts";
import type { Player } from "./contract.ts";
import { capabilities } from "./features.ts";
import { Gpu } from "./gpu.ts";
import { GpuPlayer } from "./gpuplayer.ts";
import type { WasmBuild } from "../worker/protocol.ts";
import { WasmPlayer, type WasmOptions } from "./wasmplayer.ts";

interface Frame {
  json: Record<string, unknown>;
  bytes: Uint8Array<ArrayBuffer>;
}

type Command =
  | { type: "wait" } // nothing to do for now
  | { type: "gpu" } // have a device for open-gpu; its limits, for lowering
  | { type: "open"; playbook: Playbook; threads: number; build?: WasmBuild; force64?: boolean }
  | { type: "open-gpu"; playbook: GpuPlaybook }
  | { type: "write"; player: number; places: Place[] }
  | { type: "read"; player: number; places: Place[] }
  | { type: "begin-read"; player: number; places: Place[] } // answers at once, with a number for end-read
  | { type: "end-read"; reading: number }
  | { type: "run"; number: number; player: number; mode: string; times: number }
  | { type: "clock"; player: number; mode: string }
  | { type: "close"; player: number }
  | { type: "evaluate"; code: string }; // JavaScript, for tests: an async function's body

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
const say = (json: Frame["json"]): Frame => ({ json, bytes: NO_BYTES });

class Runner {
  private readonly players: Player[] = []; // by the numbers that Python knows them by
  private readonly readings = new Map<number, Promise<Uint8Array<ArrayBuffer>>>(); // under way
  private begun = 0; // readings so far
  private gpu: Gpu | null = null;
  private running: { player: Player; number: number } | null = null;
  private stopped = 0; // the command that a stop was last for: it may come first
  private readonly kernels: WasmOptions["kernels"];

  constructor(kernels: WasmOptions["kernels"]) {
    this.kernels = kernels;
  }

  private opened(player: Player): Frame {
    this.players.push(player);
    return say({ player: this.players.length - 1, description: player.describe(), threads: player.threads });
  }

  private at(number: number): Player {
    const player = this.players[number];
    if (!player) throw new Error("no such player is open");
    return player;
  }

  private async run({ number, player, mode, times }: Extract<Command, { type: "run" }>): Promise<number> {
    if (this.stopped === number) return 0;
    this.running = { player: this.at(player), number };
    try {
      return await this.running.player.run(mode, times);
    } finally {
      this.running = null;
    }
  }

  private beginRead(player: number, places: Place[]): number {
    const reading = this.at(player).read(places);
    reading.catch(() => undefined); // whoever ends it hears of it
    this.readings.set(++this.begun, reading);
    return this.begun;
  }

  private async endRead(number: number): Promise<Uint8Array<ArrayBuffer>> {
    const reading = this.readings.get(number);
    if (!reading) throw new Error("no such reading was begun");
    this.readings.delete(number);
    return reading;
  }

  /** Ends the run that is command number `number`. */
  stop(number: number): void {
    this.stopped = number;
    if (this.running?.number === number) this.running.player.stop();
  }

  async execute(command: Command, bytes: Uint8Array<ArrayBuffer>): Promise<Frame> {
    switch (command.type) {
      case "gpu":
        this.gpu?.close();
        this.gpu = await Gpu.open();
        return say({ device: this.gpu.facts(), ...this.gpu.info });
      case "open": {
        const { threads, build, force64 } = command;
        const options: WasmOptions = { kernels: this.kernels, threads };
        if (build) options.build = build;
        if (force64) options.force64 = force64;
        return this.opened(await WasmPlayer.create(command.playbook, options));
      }
      case "open-gpu": {
        this.gpu ??= await Gpu.open();
        const shaders = async (file: string): Promise<string> => new TextDecoder().decode(await this.kernels(file));
        return this.opened(await GpuPlayer.create(this.gpu, command.playbook, shaders));
      }
      case "write":
        await this.at(command.player).write(command.places, bytes.slice());
        return say({});
      case "read":
        return { json: {}, bytes: await this.at(command.player).read(command.places) };
      case "begin-read":
        return say({ reading: this.beginRead(command.player, command.places) });
      case "end-read":
        return { json: {}, bytes: await this.endRead(command.reading) };
      case "run":
        return say({ done: await this.run(command) });
      case "clock":
        return { json: {}, bytes: new Uint8Array((await this.at(command.player).clock(command.mode)).buffer) };
      case "close":
        this.at(command.player).close();
        return say({});
      case "evaluate": {
        const body = new Function(`return (async () => { ${command.code} })()`) as () => Promise<unknown>;
        return say({ value: await body() });
      }
      case "wait":
        return say({});
    }
  }
}

/** Serves commands until the other side is gone. `base`: what stands before the names in its addresses. */
export async function serve(base: string, kernels: WasmOptions["kernels"]): Promise<void> {
  const runner = new Runner(kernels);
  void hearStops(`${base}stops`, runner);
  let answer: Frame = { json: { capabilities: await capabilities() }, bytes: NO_BYTES };
  for (;;) {
    const command = await post(`${base}exchange`, answer);
    if (!command) return;
    const { json, bytes } = command;
    try {
      answer = await runner.execute(json as Command, bytes);
    } catch (error) {
      answer = { json: { error: error instanceof Error ? error.message : String(error) }, bytes: NO_BYTES };
    }
  }
}

async function hearStops(address: string, runner: Runner): Promise<void> {
  for (;;) {
    const heard = await post(address, say({}));
    if (!heard) return;
    if (typeof heard.json["stop"] === "number") runner.stop(heard.json["stop"]);
  }
}

/** What the other side answers; null where it is gone. */
async function post(address: string, frame: Frame): Promise<Frame | null> {
  try {
    const response = await fetch(address, { method: "POST", body: pack(frame) });
    return response.ok ? unpack(await response.arrayBuffer()) : null;
  } catch {
    return null;
  }
}
