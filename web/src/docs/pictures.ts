// The pictures of docs/, as files of the site.
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { posix } from "node:path";

const REPOSITORY = new URL("../", `file://${process.cwd()}/`);

function bytesOf(path: string): Buffer {
  return readFileSync(new URL(path, REPOSITORY));
}

/** As an address from the site's root, with a digest, so that no cache gives anything else for it. */
export function pictureFrom(file: string, url: string): string {
  const path = posix.join(posix.dirname(file), url);
  if (!existsSync(new URL(path, REPOSITORY))) throw new Error(`${file}: there is no picture ${url}`);
  const digest = createHash("sha256").update(bytesOf(path)).digest("hex").slice(0, 16);
  return `/pictures/${posix.basename(path)}?${digest}`;
}

/** Of a PNG: so that the text below it does not move when it comes. */
export function sizeOf(address: string): { width: number; height: number } {
  const bytes = bytesOf(`docs/${posix.basename(address.split("?")[0]!)}`);
  return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
}
