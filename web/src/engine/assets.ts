// What the worker needs of the site: bundled with it, or fetched once and kept, so that a model in the tab outlives the server.
import wasmUrl from "@micropython/micropython-webassembly-pyscript/micropython.wasm?url";
import { runnableBuilds } from "./features.ts";
import { startPython, type Python } from "./python.ts";

const SOURCES = import.meta.glob<string>(["../../../tinygpt/__init__.py", "../../../tinygpt/core/**/*.py"], {
  query: "?raw",
  import: "default",
  eager: true,
});
const SHADERS = import.meta.glob<string>("../../../tinygpt/kernels/*.wgsl", { query: "?raw", import: "default", eager: true });

const fetched = new Map<string, Promise<ArrayBuffer>>();

/** A WebAssembly module of the kernels, by its file's name. */
export function kernels(file: string): Promise<ArrayBuffer> {
  const known = fetched.get(file);
  if (known) return known;
  const coming = fetchKernels(file);
  fetched.set(file, coming);
  coming.catch(() => fetched.delete(file));
  return coming;
}

async function fetchKernels(file: string): Promise<ArrayBuffer> {
  let response: Response;
  try {
    response = await fetch(`${import.meta.env.BASE_URL.replace(/\/$/, "")}/kernels/${file}`);
  } catch {
    throw new Error(`the kernels ${file} cannot be fetched: the site's server does not answer`);
  }
  if (!response.ok) throw new Error(`the kernels ${file} are not on this site (${response.status})`);
  return response.arrayBuffer();
}

/** Fetches what a run on this browser's best build may need, and the module that draws start values for a GPU. */
export function fetchAhead(): void {
  const [best] = runnableBuilds();
  const files = new Set(["scalar.wasm", ...["", "-threads", "-64", "-threads-64"].map((kind) => `${best}${kind}.wasm`)]);
  for (const file of files) kernels(file).catch(() => undefined); // said when it is needed
}

export async function shaders(file: string): Promise<string> {
  const text = SHADERS[`../../../tinygpt/kernels/${file}`];
  if (text === undefined) throw new Error(`the kernels ${file} are not on this site`);
  return text;
}

export function python(): Promise<Python> {
  const files: Record<string, string> = {};
  for (const [path, text] of Object.entries(SOURCES)) files[path.replace(/^.*\/tinygpt\//, "")] = text;
  return startPython(files, wasmUrl);
}
