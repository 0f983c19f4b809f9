// Which op diverged first?: what can differ, and what is said of what was found.
import { describe, expect, it } from "vitest";
import facts from "../src/generated/labs.json";
import { bars, bothOf, ownThing, specification, THINGS, told } from "../src/lab/diverged.svelte";
import type { Parted } from "../src/lab/protocol";
import type { Sources } from "../src/lab/sources";

const PARTED: Parted = {
  step: 1,
  place: 25,
  op: "cross_entropy",
  tensor: "losses",
  shape: [16],
  largest: 0.0944,
  share: 1,
  because: ["smoothing is 0 and 0.1"],
  spread: [],
};

describe("what was found", () => {
  it("is said as the terminal says it", () => {
    expect(told(PARTED, 10)).toBe(
      "They part in step 1, at op 25, cross_entropy: losses differs. 100 % of its numbers do, by at most 0.094. Its cause: smoothing is 0 and 0.1.",
    );
    expect(told(null, 10)).toBe("The two are equal to the bit: every number of every op, in 10 steps.");
    const start = { ...PARTED, place: -1, largest: null, because: ["10 and 12 parameters"] };
    expect(told(start, 10)).toBe("They begin with other weights, before the first step. They have 10 and 12 parameters.");
    const rates = { ...PARTED, op: "adamw", tensor: "weights", because: ["its input 'rates' holds other numbers"] };
    expect(told(rates, 10, ["lr is 0.02 and 0.04"])).toContain(
      "Its cause: lr is 0.02 and 0.04. So at this op its input 'rates' holds other numbers.",
    );
    expect(told({ ...PARTED, because: [] }, 10, ["the edit"])).toMatch(/Its cause: the edit\.$/);
    expect(told({ ...PARTED, share: 0.0002, because: [] }, 10)).toContain("Less than 0.1 % of its numbers do");
    expect(told({ ...PARTED, share: 0.806458 }, 10)).toContain("80.6 % of its numbers");
  });

  it("is drawn longer the further it is off", () => {
    const lengths = bars([["a", "x", 0], ["b", "y", 1e-12], ["c", "z", 0.1], ["d", "w", null]]); // prettier-ignore
    expect(lengths[0]).toBe(0);
    expect(lengths[1]).toBeGreaterThan(0);
    expect(lengths[2]).toBeGreaterThan(lengths[1]!);
    expect(lengths[3]).toBe(1);
  });

  it("comes with the op's specification, whole and alone", () => {
    const { path, text } = specification(facts as Sources, "cross_entropy")!;
    expect(path).toBe("kernels/cross_entropy.py");
    expect(text).toMatch(/^def cross_entropy\(/);
    expect(text.match(/^def /gm)).toHaveLength(1);
    expect(specification(facts as Sources, "no_such_op")).toBeNull();
  });
});

describe("a setting of one's own", () => {
  it("is a number where it can be one", () => {
    expect(ownThing(" weight_decay", "0.2 ").changes).toEqual({ weight_decay: 0.2 });
    expect(ownThing("norm", "rmsnorm").changes).toEqual({ norm: "rmsnorm" });
  });

  it.each([
    ["", "1", "Name a setting"],
    ["lr", " ", "Name a setting"],
    ["__class__", "1", "is no setting"],
    ["lr; import os", "1", "is no setting"],
    ["learning rate", "1", "did you mean lr?"],
    ["Learning_rate", "1", "did you mean lr?"],
  ])("%j = %j is refused", (name, value, why) => expect(() => ownThing(name, value)).toThrow(why));
});

it("a changed setting is said with both values", () => {
  const thing = ownThing("lr", "0.04");
  expect(bothOf(thing, { lr: 0.02, steps: 40 }, { lr: 0.04, steps: 40 })).toEqual(["lr is 0.02 and 0.04"]);
  expect(bothOf(thing, { lr: 0.04 }, { lr: 0.04 })).toEqual([]);
});

it("each thing has a name of its own and differs in something", () => {
  expect(new Set(THINGS.map(({ name }) => name)).size).toBe(THINGS.length);
  for (const { changes, text } of THINGS) expect(changes ?? text).toBeDefined();
});
