// What Python answers, and how its errors are told.
import { type Failed, type Json, parse } from "../generated/protocol.ts";

/** What Python answers; its sentence where that is an error. */
export function answer<T>(text: Json<T>): Exclude<T, Failed> {
  const told = parse(text) as T | Failed;
  if (typeof told === "object" && told !== null && "error" in told) throw new Error((told as Failed).error);
  return told as Exclude<T, Failed>;
}

/** An error of Python's as its last line says it, without the traceback. */
export function sentence<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw new Error(lastLine(error));
  }
}

export function lastLine(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const last = text.trim().split("\n").at(-1) ?? text;
  return last.replace(/^(\w*Error|\w*Exception|JsException): /, "");
}
