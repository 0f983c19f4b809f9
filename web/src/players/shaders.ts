// Compute pipelines from WGSL files: each text is compiled once, and a text that does not compile is named.
import type { PipelinePlaybook } from "../generated/protocol.ts";
import type { Gpu } from "./gpu.ts";

/** Gives the text of a .wgsl file by its name. */
export type ShaderSource = (file: string) => Promise<string>;

export interface Pipeline {
  pipeline: GPUComputePipeline;
  layout: GPUBindGroupLayout;
}

/** In the playbooks' order; `onProgress` is told how many of how many are there. */
export async function makePipelines(
  gpu: Gpu,
  playbooks: PipelinePlaybook[],
  source: ShaderSource,
  onProgress: (made: number, of: number) => void = () => undefined,
): Promise<Pipeline[]> {
  const most = gpu.device.limits.maxStorageBuffersPerShaderStage;
  const needed = Math.max(0, ...playbooks.map(({ bindings }) => bindings.length));
  if (needed > most) throw new Error(`a kernel sees ${needed} buffers, but this GPU shows it at most ${most}; use the WebAssembly engine`);
  const layouts = once((bindings: string) => bindLayout(gpu.device, bindings));
  const modules = once((files: string) => compile(gpu, files.split(" "), source));
  let made = 0;
  const pipelines = once(async (text: string): Promise<Pipeline> => {
    const { files, entry, constants, bindings } = JSON.parse(text) as PipelinePlaybook;
    const layout = layouts(bindings);
    const module = await modules(files.join(" "));
    const building = gpu.device.createComputePipelineAsync({
      label: `${files.at(-1)} ${entry}`,
      layout: gpu.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
      compute: {
        module,
        entryPoint: entry,
        constants: Object.fromEntries(constants.map(([name, isFloat, value]) => [name, isFloat ? floatOf(value) : value])),
      },
    });
    const pipeline = await gpu.outcome(building).catch((error: Error) => {
      gpu.check();
      throw new Error(`the kernel ${entry} of ${files.join(", ")} cannot be built for this GPU: ${oneLine(error.message)}`);
    });
    onProgress(++made, distinct);
    return { pipeline, layout };
  });
  const texts = playbooks.map((playbook) => JSON.stringify(playbook));
  const distinct = new Set(texts).size;
  onProgress(0, distinct);
  return Promise.all(texts.map(pipelines));
}

function once<T>(make: (key: string) => T): (key: string) => T {
  const made = new Map<string, T>();
  return (key) => {
    if (!made.has(key)) made.set(key, make(key));
    return made.get(key)!;
  };
}

function bindLayout(device: GPUDevice, bindings: string): GPUBindGroupLayout {
  return device.createBindGroupLayout({
    entries: Array.from(bindings, (letter, binding) => ({
      binding,
      visibility: GPUShaderStage.COMPUTE,
      buffer: { type: letter === "r" ? "read-only-storage" : "storage" },
    })),
  });
}

async function compile(gpu: Gpu, files: string[], source: ShaderSource): Promise<GPUShaderModule> {
  const enables = [
    ["subgroups", "enable subgroups;"],
    ["f16", "enable f16;"],
  ] as const;
  const head = enables.filter(([word]) => files.some((file) => file.includes(word))).map(([, line]) => line);
  const texts = [...head, ...(await Promise.all(files.map(source)))];
  const names = [...head, ...files];
  let module!: GPUShaderModule;
  try {
    module = await gpu.accepted(
      () => (module = gpu.device.createShaderModule({ label: files.join(", "), code: texts.join("\n") })),
      (message) => message,
    );
  } catch (error) {
    gpu.check();
    const { messages } = await gpu.outcome(module.getCompilationInfo());
    const first = messages.find(({ type }) => type === "error");
    if (!first) throw new Error(`the kernels ${files.join(", ")} do not compile on this GPU: ${oneLine(String(error))}`);
    const { file, line } = whereIs(first.lineNum, names, texts);
    throw new Error(`the kernels ${file} do not compile on this GPU: line ${line}: ${oneLine(first.message)}`);
  }
  return module;
}

/** A line of the joined texts, as a file and a line of it. */
function whereIs(line: number, names: string[], texts: string[]): { file: string; line: number } {
  for (const [index, text] of texts.entries()) {
    const lines = text.split("\n").length;
    if (line <= lines) return { file: names[index]!, line };
    line -= lines;
  }
  return { file: names.join(", "), line };
}

function oneLine(message: string): string {
  return message
    .trim()
    .split("\n")[0]!
    .replace(/[.\s]+$/, "");
}

function floatOf(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0]!;
}
