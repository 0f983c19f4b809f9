// Which tab has a run: a tab that has it answers, and nobody else does.
import { expect, it, vi } from "vitest";
import { askForTab, speakForTab } from "../src/lib/tabs";
import { Locks } from "../src/storage/locks";

const later = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));

it("is answered by the tab that has the run", async () => {
  const silent = speakForTab(() => "another");
  const speaking = speakForTab(() => "one");
  await new Promise<void>((had) => {
    const settle = askForTab("one", () => (settle(), had()));
  });
  speaking();
  const had = vi.fn();
  const settle = askForTab("one", had);
  await later();
  expect(had).not.toHaveBeenCalled();
  settle();
  silent();
});

it("waits for a lock that nobody speaks for, and for no other", async () => {
  const waiting: (() => void)[] = [];
  const request = (_: string, { signal }: { signal: AbortSignal }, hold: () => Promise<void>): Promise<void> =>
    new Promise((resolve, reject) => {
      signal.onabort = (): void => reject(signal.reason as Error);
      waiting.push(() => void hold().then(resolve));
    });
  vi.stubGlobal("navigator", { locks: { request } });
  const locks = new Locks();
  const taken = locks.take("one");
  await later();
  waiting[0]!(); // the tab that was closed has let go of it
  expect(await taken).toBe(true);
  const speaking = speakForTab(() => "two");
  expect(await locks.take("two")).toBe(false);
  speaking();
});
