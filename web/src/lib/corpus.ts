// The site's own text: fetched once, then kept.
import { fetched } from "./fetched";
import { site } from "./site";

let kept: Uint8Array<ArrayBuffer> | null = null;

export async function corpus(): Promise<Uint8Array<ArrayBuffer>> {
  kept ??= await fetched(site.corpus.file, `The text ${site.corpus.title}`, "use a text of your own");
  return kept;
}
