// Rooms for Python, as the page opens and ends them.
import { lendThreads } from "../players/lending";
import { callsTo, type Remote } from "../worker/remote";
import type { Changed } from "./patch";
import type { Methods } from "./labworker";

export interface Room {
  calls: Remote<Methods>;
  /** Whatever it is doing, an endless loop included. */
  end(): void;
}

/** With these sources in place of the package's own; `edit` is what models are to say of it. */
export async function openRoom(changed: Changed, edit: string, ended?: AbortSignal): Promise<Room> {
  const worker = new Worker(new URL("./labworker.ts", import.meta.url), { type: "module", name: "lab" });
  const { calls, end } = callsTo<Methods>(worker);
  const lent = navigator.userAgent.includes("Firefox/") ? lendThreads() : null;
  if (lent) void calls.threads(lent.port, { transfer: [lent.port] }).catch(() => undefined);
  const room = {
    calls,
    end: () => {
      lent?.end();
      worker.terminate();
      end();
    },
  };
  worker.onerror = room.end;
  ended?.addEventListener("abort", room.end, { once: true });
  if (ended?.aborted) room.end();
  try {
    await calls.open({ changed, edit });
  } catch (error) {
    room.end();
    throw error;
  }
  return room;
}
