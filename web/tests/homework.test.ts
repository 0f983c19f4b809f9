// Homework: what a link may hold, what an answer is told, and the table as a file.
import { beforeEach, describe, expect, it, vi } from "vitest";
import { FakeWorker, settle } from "./fake-worker";
import { inAddress } from "../src/lib/address";
import { presetNamed, site } from "../src/lib/site";
import {
  blank,
  checked,
  csvOf,
  edits,
  endLoss,
  isClaimed,
  isProved,
  NO_TASK,
  ranked,
  strays,
  type Task,
  taskAddress,
  taskIn,
  trainAddress,
  verdictOf,
} from "../src/lab/homework";
import { Grading } from "../src/lab/homework.svelte";
import type { CapsuleFacts, RunConfig } from "../src/worker/protocol";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));
vi.mock("../src/lib/corpus", () => ({ corpus: async () => new Uint8Array(3) }));

const TASK: Task = { title: "Week 3", text: "Look at the curve.", preset: "tiny", recipe: "modern", steps: 200, corpus: site.corpus.name };
const { model, train } = presetNamed("tiny", "modern");
const CONFIG: RunConfig = { model: { ...model }, train: { ...train, steps: 200, warmup: 20, seed: 5 } };
const ANSWER = { config: CONFIG, text: { name: "shakespeare", sha256: site.corpus.sha256, bytes: 1 }, steps: 200 };
const packed = (found: unknown): Promise<string> => inAddress(JSON.stringify(found));

describe("a task's link", () => {
  it("holds the task, and nothing else that is said", async () => {
    const address = await taskAddress({ ...TASK, title: " Week\u202e 3 " });
    expect(address).toMatch(/^#homework=/);
    expect(await taskIn(address.slice("#homework=".length))).toEqual(TASK);
    expect(await taskIn(await packed({ ...TASK, evil: "<script>" }))).toEqual(TASK);
  });

  it.each([
    [{ ...TASK, title: "" }, "title is empty"],
    [{ ...TASK, title: "x".repeat(81) }, "81 letters, and 80 is the most"],
    [{ ...TASK, preset: "enormous" }, "There is no size enormous."],
    [{ ...TASK, recipe: "secret" }, "There is no recipe secret."],
    [{ ...TASK, corpus: "my-diary" }, "There is no text my-diary here."],
    [{ ...TASK, steps: 0 }, "from 1 to 100,000 steps, not 0"],
    [{ ...TASK, steps: 1.5 }, "not 1.5"],
    [{ ...TASK, text: 7 }, "not whole"],
    [["a list"], "There is no recipe"],
    [null, "not whole"],
  ])("is refused: %j", async (found, why) => {
    await expect(taskIn(await packed(found))).rejects.toThrow(why);
  });

  it.each(["", "H4sI", "!!!"])("is refused: %j", async (text) => {
    await expect(taskIn(text)).rejects.toThrow("not whole, or holds no task");
  });

  it("leads to Train with its settings", () => {
    expect(trainAddress(TASK)).toBe(`../#train?preset=tiny&steps=200&text=${site.corpus.name}`);
    expect(trainAddress({ ...TASK, recipe: "classic" })).toContain("&recipe=classic&");
    expect(trainAddress(TASK, 7)).toMatch(/&seed=7$/);
    expect(checked(TASK)).toEqual(TASK);
  });
});

describe("an answer", () => {
  it("that is what was asked for strays in nothing, and has no edits", () => {
    expect(strays(ANSWER, TASK)).toEqual([]);
    expect(edits(CONFIG, "0.1.0")).toEqual([]);
    expect(edits({ model: { ...model, ngrams: "" }, train: CONFIG.train }, "0.1.0")).toEqual([]);
  });

  it.each([
    [{ ...ANSWER, steps: 60 }, ["60 steps instead of 200"]],
    [{ ...ANSWER, text: { ...ANSWER.text, name: "own.txt", sha256: "0" } }, ["another text (own.txt)"]],
    [{ ...ANSWER, config: { ...CONFIG, model: { ...model, layers: 3 } } }, ["another size than tiny"]],
  ])("that is not, does: %#", (answer, found) => expect(strays(answer, TASK)).toEqual(found));

  it("tells of edited settings and sources", () => {
    expect(edits({ ...CONFIG, train: { ...CONFIG.train, dropout: 0.2 } }, "0.1.0+edit.3f2a")).toEqual([
      "edited sources (3f2a)",
      "dropout 0.2 instead of 0",
    ]);
    expect(edits({ ...CONFIG, model: { ...model, layers: 7 } }, "")[0]).toBe("a size of its own: 7 layers of width 48");
  });

  it("has the mean of its last losses", () => {
    expect(endLoss(Array.from({ length: 30 }, (_, i): [number, number] => [i + 1, i < 10 ? 9 : 2]))).toBe(2);
    expect(endLoss([])).toBeNull();
  });
});

describe("the table", () => {
  const row = (file: string, loss: number | null) => ({ ...blank(file), loss });

  it("has the lowest loss first, then what does not agree, and last what could not be read", () => {
    const equal = (file: string, loss: number) => ({ ...row(file, loss), verdict: "equal" as const, steps: 200, replayed: 200 });
    const forged = { ...row("forged", 0.1), verdict: "different" as const };
    const unread = { ...row("unread", null), verdict: "unread" as const };
    const partly = { ...equal("partly", 0.5), replayed: 50 };
    const longer = { ...equal("longer", 0.2), steps: 400, replayed: 400, strays: ["400 steps instead of 200"] };
    const rows = [unread, forged, longer, partly, equal("b", 2), equal("a", 2), equal("d", 1), row("later", null)];
    expect(ranked(rows).map(({ file }) => file)).toEqual(["d", "a", "b", "partly", "longer", "later", "forged", "unread"]);
    expect(rows.filter(isProved).map(({ file }) => file)).toEqual(["b", "a", "d"]);
    expect(rows.filter(isClaimed).map(({ file }) => file)).toEqual(["forged", "partly"]);
  });

  it("calls equal only as many steps as were replayed", () => {
    expect(verdictOf({ verdict: "equal", steps: 200, replayed: 50 })).toBe("equal for the first 50 of 200 steps");
    expect(verdictOf({ verdict: "equal", steps: 200, replayed: 200 })).toBe("equal");
    expect(verdictOf({ verdict: "different", steps: 200, replayed: 50 })).toBe("does not agree");
  });

  it("is a file that no spreadsheet takes for formulas", () => {
    const rows = [{ ...row("=cmd()", 1.5), title: 'says "hi", twice', verdict: "equal" as const, edits: ["a", "b"], why: "two\nlines" }];
    expect(csvOf(rows, TASK)).toBe(
      "file,verdict,loss at the end,claimed,steps,run,text,edited,not as asked,same file as,in words\r\n" +
        '\'=cmd(),equal,1.5000,,,"says ""hi"", twice",,a; b,,,"two\nlines"\r\n',
    );
    expect(csvOf(rows, null)).toContain(`,${NO_TASK},`);
  });
});

describe("a folder", () => {
  const file = (path: string, size = 10) => ({ path, file: new File([new Uint8Array(size)], path) });
  const facts = { title: "fox", model: "", trainBytes: 1, device: "wasm", version: "0.1.0", curve: [[1, 2]], ...ANSWER } as CapsuleFacts;
  const verdict = { verdict: "equal", head: "Exactly equal.", text: "All." } as const;

  beforeEach(() => void (FakeWorker.opened = []));

  it("is graded file by file: what cannot be read says why, and ends nothing", async () => {
    const grading = new Grading();
    const found = [file("b.json"), file("a.json", 11), file(".hidden"), file("large.json", 2 ** 20 + 1)];
    const done = grading.grade(found, TASK, 50, []);
    await settle();
    await FakeWorker.last.fail("inspect", { message: "the capsule is broken JSON" });
    await vi.waitFor(() => FakeWorker.last.answer("inspect", { facts, kept: false, stops: [] }));
    await FakeWorker.last.answer("capabilities", { webgpu: null } as never);
    await FakeWorker.last.answer("replay", verdict);
    await done;
    expect(grading.rows.map(({ file, verdict }) => [file, verdict])).toEqual([["a.json", "unread"], ["b.json", "equal"], ["large.json", "unread"]]); // prettier-ignore
    expect(grading.rows[0]!.why).toBe("The capsule is broken JSON.");
    expect(grading.rows[2]!.why).toContain("more than a megabyte");
    expect(grading.rows[1]).toMatchObject({ loss: 2, strays: [], twins: [], replayed: 50, why: "All." });
    expect(FakeWorker.last.asked("replay")).toMatchObject({ steps: 50, engine: "wasm", from: null });
  });

  it("names files that are the same, and is graded to the end when asked for", async () => {
    const grading = new Grading();
    const answered = async (): Promise<void> => {
      await vi.waitFor(() => FakeWorker.last.answer("inspect", { facts, kept: false, stops: [] }));
      await FakeWorker.last.answer("capabilities", { webgpu: null } as never);
      await FakeWorker.last.answer("replay", verdict);
    };
    const first = grading.grade([file("b.json"), file("a.json"), file("c.json", 11)], TASK, 50, []);
    for (let i = 0; i < 3; i++) await answered();
    await first;
    expect(grading.rows.map(({ twins }) => twins)).toEqual([["b.json"], ["a.json"], []]);
    expect(grading.rows.some(isProved)).toBe(false);
    const whole = grading.gradeWhole();
    for (let i = 0; i < 3; i++) await answered();
    await whole;
    expect(grading.rows.every(isProved)).toBe(true);
    expect(grading.rows[0]!.why).toBe("Exactly equal. All.");
  });

  it("wants the text where it is not the site's", async () => {
    const grading = new Grading();
    const done = grading.grade([file("a.json")], null, 50, []);
    await settle();
    await FakeWorker.last.answer("inspect", {
      facts: { ...facts, text: { name: "own.txt", sha256: "0", bytes: 1 } },
      kept: false,
      stops: [],
    });
    await done;
    expect(grading.rows[0]!.why).toBe(
      "It learned from own.txt, which is not here: choose it among texts that are not the site's, and grade again.",
    );
  });

  it.each([
    [[], 50, "There is no file in it"],
    [[file(".DS_Store")], 50, "There is no file in it"],
    [Array.from({ length: 501 }, (_, i) => file(`${i}`)), 50, "501 files"],
    [[file("a")], 0, "at least one step"],
  ])("is refused: %#", async (files, steps, why) => {
    const grading = new Grading();
    await grading.grade(files, null, steps, []);
    expect(grading.problem).toContain(why);
    expect(grading.rows).toEqual([]);
  });
});
