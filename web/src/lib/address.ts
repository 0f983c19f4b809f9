// Addresses that the page makes for others.

const HERE = /^(localhost|127(\.\d+){3}|\[::1\]|.*\.localhost)$/;

/** Whether others can reach the site: not where it is served by this very machine, or is a file. */
export function isReachable(location: Pick<Location, "protocol" | "hostname"> = globalThis.location): boolean {
  return location.protocol.startsWith("http") && !HERE.test(location.hostname);
}

/** A text, packed for an address. */
export async function inAddress(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");
}

/** What `inAddress` packed, of at most so many bytes. */
export async function fromAddress(packed: string, most: number): Promise<string> {
  const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > most) throw new Error("it unpacks to more than it may");
    text += decoder.decode(value, { stream: true });
  }
}
