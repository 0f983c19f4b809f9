// Edits as patches, as `tinygpt train --edit my.patch` takes them (tinygpt/edits/patch.py).
import { applyPatch, formatPatch, OMIT_HEADERS, parsePatch, structuredPatch, type StructuredPatch } from "diff";

/** New texts of files by their path in the package. */
export type Changed = Record<string, string>;

const CONTEXT = 2; // lines around a change, as in the package's own edits
export const LARGEST = 1 << 20; // of a patch, as in tinygpt/edits

/** A patch of what differs, which begins with what it is `about`; nothing if nothing differs. */
export function patchOf(changed: Changed, originals: Changed, about: string): string {
  const parts = Object.keys(changed)
    .sort()
    .filter((path) => changed[path] !== originals[path])
    .map((path) => {
      const [before, after] = [originals[path]!, endless(changed[path]!)];
      const made = structuredPatch(`a/tinygpt/${path}`, `b/tinygpt/${path}`, before, after, undefined, undefined, { context: CONTEXT });
      return `--- ${made.oldFileName}\n+++ ${made.newFileName}\n${formatPatch(made, OMIT_HEADERS)}`;
    });
  return parts.length ? `${about.trim() || "An edit of mine."}\n\n${parts.join("")}` : "";
}

/** A file ends with a newline. */
const endless = (text: string): string => (text === "" || text.endsWith("\n") ? text : `${text}\n`);

export function aboutOf(patch: string): string {
  const lines = patch.split("\n");
  const first = lines.findIndex((line) => line.startsWith("--- "));
  return lines
    .slice(0, first < 0 ? undefined : first)
    .join("\n")
    .trim();
}

/** The texts that a patch makes of the originals; a sentence where it does not fit them. */
export function applied(patch: string, originals: Changed): Changed {
  const body = patch.slice(Math.max(0, patch.search(/^--- /m)));
  const files = read(body);
  if (!files.length) throw new Error("This patch changes nothing.");
  return Object.fromEntries(
    files.map((file) => {
      const path = pathOf(file.newFileName ?? "");
      const before = originals[path];
      if (before === undefined) throw new Error(`The patch changes ${path || "a file without a name"}, which cannot be edited here.`);
      const after = applyPatch(before, file);
      if (after === false) throw new Error(`${path} has changed: the patch was made for another version of it.`);
      return [path, after];
    }),
  );
}

function read(body: string): StructuredPatch[] {
  try {
    return parsePatch(body).filter(({ hunks }) => hunks.length);
  } catch {
    throw new Error("This is no patch: a line of it is no part of a unified diff.");
  }
}

export function pathOf(name: string): string {
  return name.replace(/\t.*$/, "").replace(/^(?:[ab]\/)?tinygpt\//, "");
}

/** Lines added and removed, by file. */
export function sizes(changed: Changed, originals: Changed): { path: string; added: number; removed: number }[] {
  return Object.keys(changed)
    .filter((path) => changed[path] !== originals[path])
    .map((path) => {
      const lines = structuredPatch("", "", originals[path]!, endless(changed[path]!)).hunks.flatMap(({ lines }) => lines);
      const count = (mark: string): number => lines.filter((line) => line.startsWith(mark)).length;
      return { path, added: count("+"), removed: count("-") };
    });
}

/** As files and models name it: the terminal's label of the same patch (tinygpt/edits). */
export async function labelOf(name: string, patch: string): Promise<string> {
  const made = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(patch)));
  const digits = Array.from(made.subarray(0, 6), (byte) => byte.toString(16).padStart(2, "0"));
  return `${name} ${digits.join("")}`;
}

/** The first line that differs, from 1; of equal texts the first. */
export function firstChange(before: string, after: string): number {
  const [one, other] = [before.split("\n"), after.split("\n")];
  const found = other.findIndex((line, i) => line !== one[i]);
  return found < 0 ? 1 : found + 1;
}
