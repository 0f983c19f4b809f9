import { beforeEach, expect, it, vi } from "vitest";
import { FakeWorker } from "./fake-worker";
import { follow, linkOf } from "../src/state/link";
import { Run } from "../src/state/run.svelte";
import { Setup } from "../src/state/setup.svelte";
import { site } from "../src/lib/site";

vi.mock("../src/state/connection", () => ({ openWorker: FakeWorker.open }));

let setup: Setup;

beforeEach(() => {
  setup = new Setup(new Run());
});

/** What a page shows that was opened with that link. */
function opened(link: string): { setup: Setup; unknown: string[] } {
  const other = new Setup(new Run());
  return { setup: other, unknown: follow(other, link.split("?")[1]!) };
}

it("round-trips what was chosen", () => {
  setup.chooseSize("tiny");
  setup.steps = 321;
  setup.chosenEngine = "wasm";
  setup.values = { lr: 0.002, schedule: "constant", seed: 7, dropout: null };
  setup.corpus = site.corpora[1]!;
  const { setup: other, unknown } = opened(linkOf(setup));
  expect(unknown).toEqual([]);
  expect([other.preset, other.steps, other.chosenEngine, other.corpus.name]).toEqual(["tiny", 321, "wasm", site.corpora[1]!.name]);
  expect(other.values).toEqual({ lr: 0.002, schedule: "constant", seed: 7 });
  expect(linkOf(other)).toBe(linkOf(setup));
});

it("scales the rate of matrices with the learning rate, unless it is set itself", () => {
  const usual = setup.usual.train;
  setup.values = { lr: Number(usual["lr"]) / 2 };
  expect(setup.changes()["matrix_lr"]).toBeCloseTo(Number(usual["matrix_lr"]) / 2);
  setup.values = { ...setup.values, matrix_lr: 0.001 };
  expect(setup.changes()["matrix_lr"]).toBe(0.001);
  setup.values = { lr: 0.001, optimizer: "adamw" };
  expect(setup.changes()["matrix_lr"]).toBeUndefined();
});

it("round-trips a dataset with its parts", () => {
  setup.source = "hub";
  setup.hub.pick("");
  setup.hub.typed = "someone/poems";
  setup.hub.config = "default";
  const { setup: other } = opened(linkOf(setup));
  expect([other.source, other.hub.dataset, other.hub.config]).toEqual(["hub", "someone/poems", "default"]);
});

it("holds nothing that is as usual, and no text of the user's", () => {
  setup.source = "own";
  setup.pasted = "a secret";
  expect(linkOf(setup)).toBe("#train?minutes=1");
});

it("names what it does not know, and leaves that as it is", () => {
  const { setup: other, unknown } = opened("#train?preset=enormous&lr=much&batch=8.5&seed=5&colour=red&steps=-3");
  expect(unknown.toSorted()).toEqual(["batch=8.5", "colour=red", "lr=much", "preset=enormous", "steps=-3"]);
  expect([other.preset, other.steps, other.values]).toEqual([site.defaultPreset, null, { seed: 5 }]);
});
