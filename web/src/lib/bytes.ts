// A model's text is bytes; a character may be several of them, and some are none.

export function bytesOf(text: string): number[] {
  return Array.from(new TextEncoder().encode(text));
}

export const isTask = (textName: string | undefined): boolean => textName?.startsWith("task:") ?? false;

/** What a model reads of a prompt: one that learned a task knows whole lines alone (`prompted` in core/tasks). */
export function prompted(textName: string | undefined, prompt: number[]): number[] {
  return isTask(textName) && prompt[0] !== 10 ? [10, ...prompt] : prompt;
}

export function textOf(bytes: number[]): string {
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

/** The text that each byte completes: nothing, a character, or replacements. What is cut off at the end is left out. */
export function completed(bytes: number[]): string[] {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return bytes.map((byte) => decoder.decode(Uint8Array.of(byte), { stream: true }));
}

/** A byte by itself: "e", "space", "newline", or 0xe2. */
export function byteName(byte: number): string {
  const names: Record<number, string> = { 9: "tab", 10: "newline", 13: "return", 32: "space" };
  return names[byte] ?? (byte > 32 && byte < 127 ? String.fromCharCode(byte) : `0x${byte.toString(16).padStart(2, "0")}`);
}

export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const made = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(made, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A title as part of a file's name. */
export function safeName(title: string): string {
  return title.replace(/[^\p{L}\p{N}. _-]+/gu, "-").slice(0, 60) || "run";
}
