import { expect, it } from "vitest";
import type { Asked, Likely, Session } from "../src/generated/protocol.ts";
import { parse, text } from "../src/generated/protocol.ts";
import { type Piece, WorkerRun } from "../src/worker/run.ts";

/** Answers what it takes one after the other, as Python does, with a pause wherever Python might have one. */
function answering(): WorkerRun {
  const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));
  const write = async (): Promise<void> => {
    for (const done of [false, false, false, true]) {
      run.written(text([[97], 0, done] as never));
      await pause();
    }
  };
  const session = {
    attend: async (): Promise<void> => {
      for (const { type } of parse<Asked[]>(run.requests())) {
        await pause();
        if (type === "weigh") run.weighed(text<Likely[]>([]));
        else await write();
      }
    },
  } as unknown as Session;
  const run = new WorkerRun(session, null!, null, null!, null, null, null!, () => undefined);
  return run;
}

it("answers questions that come while it writes after that, each to who asked it", async () => {
  const run = answering();
  const heard: Piece[] = [];
  let weighed: Promise<Likely[]> | undefined;
  const tell = (piece: Piece): void => {
    heard.push(piece);
    weighed ??= run.weigh(prompt);
  };
  const line = { tell, signal: new AbortController().signal };
  const prompt = { prompt: [], settings: {} } as never;
  await run.write(prompt, line);
  expect(heard).toHaveLength(4);
  expect(await weighed).toEqual([]);
});
