// The site's own texts: each fetched once, then kept.
import { fetched } from "./fetched";
import type { SiteCorpus } from "./site";

async function unpacked(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(text).arrayBuffer());
}

const kept = new Map<string, Uint8Array<ArrayBuffer>>();

export async function corpus({ name, file, title }: SiteCorpus): Promise<Uint8Array<ArrayBuffer>> {
  const text = kept.get(name) ?? (await unpacked(await fetched(file, `The text ${title}`, "use a text of your own")));
  kept.set(name, text);
  return text;
}
