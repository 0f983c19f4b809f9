// Texts in the worker: what they are like, and those of Hugging Face. Python says what to ask for and what the answers mean.
import { type AdviceRequest, type DatasetRequest, text as json } from "../generated/protocol.ts";
import type { Visited, Visiting } from "./protocol.ts";
import { answer, lastLine } from "./answers.ts";
import type { Python } from "./python.ts";
import type { Line } from "./remote.ts";

const ANSWER_BYTES = 8 * 2 ** 20; // the real server keeps its pages near one MiB
const ANSWER_SECONDS = 60;

export interface Wish {
  request: DatasetRequest;
  token: string;
}

export async function visit({ request, token }: Wish, python: Python, { tell, signal }: Line<Visiting>): Promise<Visited> {
  const visited = python.texts.Visit(json({ ...request, token: token !== "" }));
  const next: typeof visited.step = (reply, body) => {
    try {
      return visited.step(reply, body);
    } catch (error) {
      throw new Error(`The dataset cannot be read (${lastLine(error)}): take another one.`);
    }
  };
  const parts: string[] = [];
  for (let step = answer(next("", "")); ;) {
    if (step.text) parts.push(step.text);
    if (step.done && "description" in step.done) {
      const text = new TextEncoder().encode(parts.join(""));
      return { text, description: step.done.description };
    }
    if (step.done) return { looked: step.done };
    if (step.rows !== undefined) tell({ size: step.size!, rows: step.rows });
    if (step.wait) tell({ wait: step.wait });
    await pause(step.wait ?? 0, signal);
    const { reply, body } = await ask(step.address!, token, signal);
    signal.throwIfAborted();
    step = answer(next(json(reply), body));
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
async function ask(
  address: string,
  token: string,
  signal: AbortSignal,
): Promise<{ reply: { status: number; wait: number }; body: string }> {
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
  for (let bytes = 0; reader;) {
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

/** Settings that are no settings are said when a run starts. */
export function advised(request: AdviceRequest, python: Python): string[] {
  try {
    return answer(python.texts.advice(json(request)));
  } catch (error) {
    console.warn(`no advice on this text: ${String(error)}`);
    return [];
  }
}
