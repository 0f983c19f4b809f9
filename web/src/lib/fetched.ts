// Files of the site's own server.
import { ROOT } from "./root.ts";

/** A sentence for the user. */
export class NotServed extends Error {}

/** `path` is under the site's root; `what` it is and what to do `instead` are for the sentence that says it is not to be had. */
export async function fetched(path: string, what: string, instead: string): Promise<Uint8Array<ArrayBuffer>> {
  let answer: Response;
  try {
    answer = await fetch(ROOT + path);
  } catch {
    throw new NotServed(`${what} cannot be fetched: the server does not answer. Start it again, or ${instead}.`);
  }
  if (!answer.ok) throw new NotServed(`${what} is not on this server (${answer.status}).`);
  return new Uint8Array(await answer.arrayBuffer());
}
