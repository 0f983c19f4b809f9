// The site's own text: fetched once, then kept.
import { site } from "./site";

let kept: Uint8Array<ArrayBuffer> | null = null;

export async function corpus(): Promise<Uint8Array<ArrayBuffer>> {
  kept ??= await fetched(`${import.meta.env.BASE_URL}${site.corpus.file}`);
  return kept;
}

async function fetched(url: string): Promise<Uint8Array<ArrayBuffer>> {
  let answer: Response;
  try {
    answer = await fetch(url);
  } catch {
    throw new Error(`The text ${site.corpus.title} cannot be fetched: the server does not answer. Start it again, or use a text of your own.`);
  }
  if (!answer.ok) throw new Error(`The text ${site.corpus.title} is not on this server (${answer.status}).`);
  return new Uint8Array(await answer.arrayBuffer());
}
