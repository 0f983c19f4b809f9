// The engine's worker as the page has it: its methods are promises.
import { lendThreads } from "../players/lending";
import { callsTo, type Remote } from "../worker/remote";
import type { Methods } from "../worker/worker";

export type Calls = Remote<Methods>;

export interface Connection {
  calls: Calls;
  /** Ends the worker; what it has not answered fails with `Gone`. */
  end(): void;
}

/** One worker holds the current model, another is opened for what is only tried. */
export function openWorker(name: string, died: (why: string) => void): Connection {
  const worker = new Worker(new URL("../worker/worker.ts", import.meta.url), { type: "module", name });
  const { calls, end } = callsTo<Methods>(worker);
  worker.onerror = ({ message }) => died(message);
  worker.onmessageerror = () => died("a message could not be read");
  const lent = navigator.userAgent.includes("Firefox/") ? lendThreads() : null;
  if (lent) void calls.threads(lent.port, { transfer: [lent.port] }).catch(() => undefined);
  return {
    calls,
    end: () => {
      lent?.end();
      worker.terminate();
      end();
    },
  };
}
