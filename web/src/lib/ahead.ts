// What of the site a browser does not have before it is used: models and texts. The service worker keeps what is fetched.
import { fetched } from "./fetched.ts";
import { kernelAddress, kernelsHere } from "./kernels.ts";
import { siteModels } from "./models.ts";
import { ROOT } from "./root.ts";
import { site } from "./site.ts";

export interface Wanted {
  name: string;
  file: string; // under the site's root
  bytes: number;
  kept: boolean;
}

/** Whether a service worker keeps what is fetched: not where this machine serves the page itself. */
export function keepsFiles(): boolean {
  return "serviceWorker" in navigator && navigator.serviceWorker.controller !== null;
}

export async function wanted(): Promise<Wanted[]> {
  const files = [...(await siteModels()), ...site.corpora.map((corpus) => ({ ...corpus, name: corpus.title }))];
  const one = async ({ name, file, bytes }: Omit<Wanted, "kept">): Promise<Wanted> => ({ name, file, bytes, kept: await isKept(file) });
  return Promise.all(files.map(one));
}

async function isKept(file: string): Promise<boolean> {
  return "caches" in globalThis && (await caches.match(new URL(ROOT + file, location.href))) !== undefined;
}

/** The kernels that runs may need here, then one file after the other; `tell` hears how many are done, and which is next. */
export async function fetchAhead(files: Wanted[], tell: (done: number, next: string) => void): Promise<void> {
  for (const kernels of kernelsHere()) await fetched(kernelAddress(kernels).slice(ROOT.length), "the engine", "try again later");
  for (const [done, { name, file }] of files.entries()) {
    tell(done, name);
    await fetched(file, name, "try again later");
  }
}
