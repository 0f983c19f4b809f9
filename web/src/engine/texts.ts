// Texts in the worker: what they are like, and those of Hugging Face. Python says what to ask for and what the answers mean.
import type { Advised, Choices, FromWorker, ToWorker } from "./protocol.ts";
import type { Python } from "./python.ts";
import { survey } from "./survey.ts";

type Wish = Extract<ToWorker, { type: "visit" }>;
type Said = (message: FromWorker, transfer?: Transferable[]) => void;

/** What core/tab/texts.py's Visit says is next. */
interface Step {
  address?: string;
  wait?: number; // seconds
  text?: string;
  size?: number;
  rows?: number;
  done?: Choices | { description: string };
  error?: string;
}

const ANSWER_BYTES = 8 * 2 ** 20; // the real server keeps its pages near one MiB
const ANSWER_SECONDS = 60;
const START = 8192; // bytes, of which core sees the encoding

/** One visit at a time: another one, or `leave`, ends it, and nothing more is heard of it. */
let current: AbortController | null = null;

export function leave(): void {
  current?.abort();
  current = null;
}

export async function visit(wish: Wish, python: Python, say: Said): Promise<void> {
  leave();
  const { signal } = (current = new AbortController());
  const { id, token, request } = wish;
  const tell: Said = (message, transfer) => {
    if (!signal.aborted) say(message, transfer);
  };
  try {
    const visited = python.texts.Visit(JSON.stringify({ ...request, token: token !== "" }));
    const next = (reply: string, body: string): Step => JSON.parse(visited.step(reply, body)) as Step;
    const parts: string[] = [];
    let step = next("", "");
    while (!step.done) {
      if (step.error !== undefined) return tell({ type: "visited", id, error: step.error });
      if (step.rows !== undefined) tell({ type: "visited", id, size: step.size!, rows: step.rows });
      if (step.wait) tell({ type: "visited", id, wait: step.wait });
      await pause(step.wait ?? 0, signal);
      const { reply, body } = await ask(step.address!, token, signal);
      if (signal.aborted) return;
      step = next(JSON.stringify(reply), body);
      if (step.text) parts.push(step.text);
    }
    if (!("description" in step.done)) return tell({ type: "visited", id, looked: step.done });
    const text = new TextEncoder().encode(parts.join(""));
    tell({ type: "visited", id, text, description: step.done.description }, [text.buffer]);
  } catch (error) {
    tell({ type: "visited", id, error: `The dataset cannot be read (${error instanceof Error ? error.message : String(error)}): take another one.` });
  }
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  if (!seconds) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

/** Status 0: no answer came. The token goes to this address only, which the page's policy limits to that host. */
async function ask(address: string, token: string, signal: AbortSignal): Promise<{ reply: { status: number; wait: number }; body: string }> {
  try {
    const answer = await fetch(address, {
      signal: AbortSignal.any([signal, AbortSignal.timeout(1000 * ANSWER_SECONDS)]),
      credentials: "omit",
      referrerPolicy: "no-referrer",
      ...(token ? { headers: { Authorization: `Bearer ${token}` } } : {}),
    });
    return { reply: { status: answer.status, wait: secondsToWait(answer.headers.get("Retry-After")) }, body: await plainJson(answer) };
  } catch {
    return { reply: { status: 0, wait: 0 }, body: "" };
  }
}

/** A number of seconds, or a date. */
function secondsToWait(stated: string | null): number {
  if (!stated) return 0;
  const seconds = Number(stated);
  const until = Number.isFinite(seconds) ? seconds : (Date.parse(stated) - Date.now()) / 1000;
  return Number.isFinite(until) ? Math.max(0, until) : 0;
}

/** The answer's JSON as MicroPython reads it best: whole characters, none of them escaped. Nothing, where it is no JSON or too large. */
async function plainJson(answer: Response): Promise<string> {
  const reader = answer.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > ANSWER_BYTES) {
      await reader.cancel();
      return "";
    }
    text += decoder.decode(value, { stream: true });
  }
  try {
    const whole = (_: string, value: unknown): unknown => (typeof value === "string" ? value.replace(/\p{Surrogate}/gu, "\ufffd") : value);
    return JSON.stringify(JSON.parse(text + decoder.decode(), whole));
  } catch {
    return "";
  }
}

export function surveyed({ id, text }: Extract<ToWorker, { type: "survey" }>): FromWorker {
  return { type: "surveyed", id, survey: survey(text), start: Array.from(text.subarray(0, START)) };
}

/** Settings that are no settings are said when a run starts. */
export function advised({ id, request }: Extract<ToWorker, { type: "advise" }>, python: Python): Advised & { type: "advised" } {
  let advice: string[] = [];
  try {
    advice = JSON.parse(python.texts.advice(JSON.stringify(request))) as string[];
  } catch (error) {
    console.warn(`no advice on this text: ${String(error)}`);
  }
  return { type: "advised", id, advice };
}
