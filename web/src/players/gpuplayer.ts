// Replays lists of dispatches on a GPU's buffers. All decisions were made in Python.
import type { DispatchPlaybook, GpuPlaybook, Place } from "../generated/protocol.ts";
import { type Player, totalSize } from "./contract.ts";
import type { Gpu } from "./gpu.ts";
import { adapterLabel } from "../worker/protocol.ts";
import { makePipelines, type Pipeline, type ShaderSource } from "./shaders.ts";
import { size } from "./units.ts";

interface Dispatch {
  pipeline: GPUComputePipeline;
  group: GPUBindGroup;
  grid: [x: number, y: number, z: number];
}

const QUERIES = 4096; // timestamps a query set may have
const WRITTEN_AT_ONCE = 2 ** 27; // bytes that may wait in the queue to be written
const READ_AT_ONCE = 2 ** 26; // bytes

export class GpuPlayer implements Player {
  readonly threads = 1;
  readonly gpu: Gpu;
  readonly bytes: number;
  private readonly buffers: GPUBuffer[];
  private readonly programs: Record<string, Dispatch[]>;
  private readonly tried = new Set<string>(); // modes whose commands the device has taken before
  private stopping = false;
  private waiting = 0; // bytes written since the queue was last known to be empty

  private constructor(gpu: Gpu, buffers: GPUBuffer[], programs: Record<string, Dispatch[]>) {
    this.gpu = gpu;
    this.buffers = buffers;
    this.programs = programs;
    this.bytes = buffers.reduce((sum, buffer) => sum + buffer.size, 0);
  }

  static async create(
    gpu: Gpu,
    playbook: GpuPlaybook,
    shaders: ShaderSource,
    onProgress?: (made: number, of: number) => void,
  ): Promise<GpuPlayer> {
    const buffers = await allocate(gpu, playbook.buffers);
    const pipelines = await makePipelines(gpu, playbook.pipelines, shaders, onProgress);
    const programs = await gpu.accepted(
      () => bind(gpu.device, playbook.programs, pipelines, buffers),
      (message) => `the GPU does not take the program's bindings: ${message}`,
    );
    return new GpuPlayer(gpu, buffers, programs);
  }

  describe(): string {
    return `WebGPU, ${adapterLabel(this.gpu.info)}, ${size(this.bytes)}`;
  }

  /** Hands the program to the GPU; it is not waited for. */
  async run(mode: string, times: number): Promise<number> {
    const program = this.programs[mode];
    if (!program) throw new Error(`there is no program '${mode}'`);
    this.stopping = false;
    let done = 0;
    for (; done < times && !this.stopping; done++) await this.submit(mode, program); // several at once are slower here
    return done;
  }

  stop(): void {
    this.stopping = true;
  }

  private async submit(mode: string, program: Dispatch[]): Promise<void> {
    this.gpu.check();
    const send = (): void => {
      const encoder = this.gpu.device.createCommandEncoder({ label: mode });
      const pass = encoder.beginComputePass({ label: mode });
      for (const dispatch of program) encode(pass, dispatch);
      pass.end();
      this.gpu.device.queue.submit([encoder.finish()]);
    };
    if (this.tried.has(mode)) return send();
    await this.gpu.accepted(send, (message) => `the GPU refused the program '${mode}': ${message}`);
    this.tried.add(mode);
  }

  /** Writes behind all that was handed to the GPU before. Of large data it waits until the GPU has them. */
  async write(places: Place[], data: Uint8Array<ArrayBuffer>): Promise<void> {
    let from = 0;
    for (const [buffer, offset, size] of places) {
      this.gpu.check();
      const part = wholeWords(data.subarray(from, from + size));
      this.gpu.device.queue.writeBuffer(this.buffers[buffer]!, offset, part);
      from += size;
      this.waiting += part.length;
      if (this.waiting < WRITTEN_AT_ONCE) continue;
      this.waiting = 0;
      await this.gpu.outcome(this.gpu.device.queue.onSubmittedWorkDone());
    }
  }

  async read(places: Place[]): Promise<Uint8Array<ArrayBuffer>> {
    const data = new Uint8Array(totalSize(places));
    let to = 0;
    for (const group of inGroups(places, READ_AT_ONCE)) {
      const read = await this.collect(totalSize(group), (target, encoder) => {
        let at = 0;
        for (const [buffer, offset, size] of group) {
          encoder.copyBufferToBuffer(this.buffers[buffer]!, offset, target, at, size);
          at += size;
        }
      });
      data.set(new Uint8Array(read), to);
      to += read.byteLength;
    }
    return data;
  }

  /** What `fill` copies into a buffer of so many bytes. */
  private async collect(bytes: number, fill: (target: GPUBuffer, encoder: GPUCommandEncoder) => void): Promise<ArrayBuffer> {
    this.gpu.check();
    const { device } = this.gpu;
    let target!: GPUBuffer;
    const taken = this.gpu.accepted(
      () => {
        target = device.createBuffer({ size: bytes, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
        const encoder = device.createCommandEncoder();
        fill(target, encoder);
        device.queue.submit([encoder.finish()]);
      },
      (message) => `${size(bytes)} could not be read from the GPU: ${message}`,
    );
    const copy = target.mapAsync(GPUMapMode.READ); // one way to the GPU and back, not two
    copy.catch(() => undefined);
    await taken;
    await this.gpu.outcome(copy);
    return emptied(target);
  }

  /** Runs a program with a clock around each dispatch. */
  async clock(mode: string): Promise<Float64Array<ArrayBuffer>> {
    const { device } = this.gpu;
    if (!device.features.has("timestamp-query")) throw new Error("this GPU has no clock for kernels (timestamp-query)");
    const program = this.programs[mode];
    if (!program) throw new Error(`there is no program '${mode}'`);
    const times = new Float64Array(program.length);
    for (let start = 0; start < program.length; start += QUERIES / 2) {
      const part = program.slice(start, start + QUERIES / 2);
      const stamps = new BigInt64Array(await this.timed(part));
      part.forEach((_, i) => (times[start + i] = 1e-9 * Number(stamps[2 * i + 1]! - stamps[2 * i]!)));
    }
    return times;
  }

  private async timed(part: Dispatch[]): Promise<ArrayBuffer> {
    const { device } = this.gpu;
    const queries = device.createQuerySet({ type: "timestamp", count: 2 * part.length });
    const resolved = device.createBuffer({ size: 16 * part.length, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
    const stamps = await this.collect(16 * part.length, (target, encoder) => {
      part.forEach((dispatch, i) => {
        const timestampWrites = { querySet: queries, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 };
        const pass = encoder.beginComputePass({ timestampWrites });
        encode(pass, dispatch);
        pass.end();
      });
      encoder.resolveQuerySet(queries, 0, 2 * part.length, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, target, 0, 16 * part.length);
    });
    queries.destroy();
    resolved.destroy();
    return stamps;
  }

  /** The GPU stays open: it is whose it was. */
  close(): void {
    for (const buffer of this.buffers) buffer.destroy();
  }
}

/** The GPU takes four bytes at a time. */
function wholeWords(bytes: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  if (bytes.length % 4 === 0) return bytes;
  const padded = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  padded.set(bytes);
  return padded;
}

/** Places in their order, so many together that they have about so many bytes. */
function* inGroups(places: Place[], most: number): Generator<Place[]> {
  let group: Place[] = [];
  for (const [buffer, offset, size] of places)
    for (let at = 0; at < size; at += most) {
      const part = Math.min(most, size - at);
      if (group.length && totalSize(group) + part > most) {
        yield group;
        group = [];
      }
      group.push([buffer, offset + at, part]);
    }
  if (group.length) yield group;
}

/** A copy of a buffer that is mapped, which is then gone. */
function emptied(target: GPUBuffer): ArrayBuffer {
  const copy = target.getMappedRange().slice(0);
  target.destroy();
  return copy;
}

async function allocate(gpu: Gpu, sizes: number[]): Promise<GPUBuffer[]> {
  const { device } = gpu;
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const largest = Math.max(0, ...sizes);
  if (largest > device.limits.maxBufferSize)
    throw new Error(
      `this run needs a buffer of ${size(largest)}, but this GPU's have at most ${size(device.limits.maxBufferSize)}; ` +
        "use a smaller preset, batch or context, or the WebAssembly engine",
    );
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  return gpu.accepted(
    () => sizes.map((size) => device.createBuffer({ size, usage })),
    (message) => `this run needs ${size(total)} of GPU memory, which cannot be had (${message})`,
  );
}

/** Bind groups are made once; a dispatch that binds the same again shares them. */
function bind(
  device: GPUDevice,
  programs: Record<string, DispatchPlaybook[]>,
  pipelines: Pipeline[],
  buffers: GPUBuffer[],
): Record<string, Dispatch[]> {
  const groups = new Map<string, GPUBindGroup>();
  const group = (layout: GPUBindGroupLayout, pipeline: number, places: number[]): GPUBindGroup => {
    const key = `${pipeline} ${places.join(" ")}`;
    let made = groups.get(key);
    if (!made) {
      const entries: GPUBindGroupEntry[] = [];
      for (let i = 0; i < places.length; i += 3)
        entries.push({
          binding: i / 3,
          resource: { buffer: buffers[places[i]!]!, offset: places[i + 1]!, size: places[i + 2]! },
        });
      groups.set(key, (made = device.createBindGroup({ layout, entries })));
    }
    return made;
  };
  const bound: Record<string, Dispatch[]> = {};
  for (const [mode, dispatches] of Object.entries(programs))
    bound[mode] = dispatches.map(([number, x, y, z, ...places]) => {
      const { pipeline, layout } = pipelines[number!]!;
      return { pipeline, group: group(layout, number!, places), grid: [x!, y!, z!] };
    });
  return bound;
}

function encode(pass: GPUComputePassEncoder, { pipeline, group, grid }: Dispatch): void {
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(...grid);
}
