// What the worker needs of the site: bundled with it, or fetched once and kept, so that a model in the tab outlives the server.
import wasmUrl from "@micropython/micropython-webassembly-pyscript/micropython.wasm?url";
import { kernelAddress, kernelsHere } from "../lib/kernels.ts";
import sources from "../generated/python.json";
import { startPython, type Python } from "./python.ts";

const SHADERS = import.meta.glob<string>("../../../tinygpt/kernels/*.wgsl", { query: "?raw", import: "default", eager: true });

const LATER = 5000; // ms: when the page is there

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
    response = await fetch(kernelAddress(file));
  } catch {
    throw new Error(`the kernels ${file} cannot be fetched: the site's server does not answer`);
  }
  if (!response.ok) throw new Error(`the kernels ${file} are not on this site (${response.status})`);
  return response.arrayBuffer();
}

/** Fetches the module of an ordinary run at once, and whatever another may need a little later. */
export function fetchAhead(): void {
  const [first, ...rest] = kernelsHere();
  if (first) fetchQuietly(first);
  setTimeout(() => rest.forEach(fetchQuietly), LATER);
}

function fetchQuietly(file: string): void {
  kernels(file).catch(() => undefined); // said when it is needed
}

const edited = new Map<string, string>();

/** From here on a shader is this text. */
export function editShader(file: string, text: string): void {
  edited.set(file, text);
}

export async function shaders(file: string): Promise<string> {
  const text = edited.get(file) ?? SHADERS[`../../../tinygpt/kernels/${file}`];
  if (text === undefined) throw new Error(`the kernels ${file} are not on this site`);
  return text;
}

/** The package's own files that Python needs, and where its interpreter is. */
export { sources, wasmUrl };

export function python(): Promise<Python> {
  return startPython(sources, wasmUrl);
}
