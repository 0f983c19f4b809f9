// So many seconds: which run makes the most of them on this machine. Python measures and chooses, in players of its own.
import * as assets from "./assets.ts";
import type { GpuPlaybook, Place, Playbook } from "./contract.ts";
import { Gpu } from "./gpu.ts";
import { GpuPlayer } from "./gpuplayer.ts";
import type { CoreEvent, ToWorker } from "./protocol.ts";
import { bridge, type BudgetAnswer, type Page, type Python } from "./python.ts";
import { say } from "./run.ts";
import { WasmPlayer } from "./wasmplayer.ts";

type Start = Extract<ToWorker, { type: "start" }>;

export class Choosing {
  private stopped = false;

  stop(): void {
    this.stopped = true;
  }

  async choose({ engine, threads }: Start, seconds: number, text: Uint8Array<ArrayBuffer>, python: Python): Promise<BudgetAnswer> {
    const gpu = engine === "webgpu" ? await Gpu.open() : null;
    try {
      const budget = python.budget({ seconds, bytes: text.length, ...(gpu ? { device: gpu.facts() } : {}) });
      const [learned, scored] = JSON.parse(budget.wanted()) as [number, number][][];
      const trainBytes = budget.train_bytes;
      const [train, val] = [text.subarray(0, trainBytes), text.subarray(trainBytes)];
      const cut = (part: Uint8Array, places: [number, number][]): number[][] => places.map(([at, size]) => Array.from(part.subarray(at, at + size)));
      const pieces = JSON.stringify([cut(train, learned!), cut(val, scored!)]);
      return JSON.parse(await budget.choose(this.page(gpu, threads ?? 0) as Page, train, val, pieces)) as BudgetAnswer;
    } finally {
      gpu?.close();
    }
  }

  private page(gpu: Gpu | null, threads: number): Partial<Page> {
    const made = (playbook: unknown) =>
      gpu
        ? GpuPlayer.create(gpu, playbook as GpuPlaybook, assets.shaders, () => undefined)
        : WasmPlayer.create(playbook as Playbook, { kernels: assets.kernels, threads });
    return {
      now: () => performance.now() / 1000,
      emit: (event) => say({ type: "event", event: JSON.parse(event) as CoreEvent }),
      stopping: () => this.stopped,
      open: async (playbook) => bridge(await made(JSON.parse(playbook)), () => gpu?.brokenBy !== null, () => undefined),
      startValues: async (playbook, places) => {
        const player = await WasmPlayer.create(JSON.parse(playbook) as Playbook, { kernels: assets.kernels, threads: 1 });
        await player.run("init", 1);
        const drawn = await player.read(JSON.parse(places) as Place[]);
        player.close();
        return drawn;
      },
      zeros: (size) => new Uint8Array(size),
    };
  }
}
