// Each happening leads from one state of the page to the next, and leaves the others as they are.
import { describe, expect, it } from "vitest";
import { after, type Happening, type State } from "../src/state/state";

const states: State[] = [
  { name: "loading" },
  { name: "idle" },
  { name: "checking" },
  { name: "planning", measuring: true, compiled: null },
  { name: "training" },
  { name: "stopping" },
  { name: "writing", compiled: null },
  { name: "broken" },
];

/** Where a happening leads from each state; a state that is not named stays. */
const table: [Happening, Partial<Record<State["name"] | "any", State["name"]>>][] = [
  [{ type: "connected" }, { any: "loading" }],
  [{ type: "ready" }, { loading: "idle" }],
  [{ type: "check" }, { any: "checking" }],
  [{ type: "plan", measuring: false }, { any: "planning" }],
  [{ type: "started" }, { planning: "training", stopping: "training" }],
  [{ type: "stop" }, { planning: "stopping", training: "stopping" }],
  [{ type: "ask" }, { any: "writing", training: "training" }],
  [{ type: "answered" }, { writing: "idle" }],
  [{ type: "refused" }, { any: "idle", training: "training" }],
  [{ type: "ended" }, { any: "idle" }],
  [{ type: "died" }, { any: "broken" }],
];

describe.each(table)("$type", (happening, leads) => {
  it.each(states)("from $name", (state) => {
    expect(after(state, happening).name).toBe(leads[state.name] ?? leads.any ?? state.name);
  });
});

it("compiled kernels are counted where some are compiled, and nowhere else", () => {
  const compiling = { event: "compiling", made: 1, of: 2 } as const;
  const counted = states.filter((state) => "compiled" in after(state, compiling)).map(({ name }) => name);
  expect(counted).toEqual(["planning", "writing"]);
  expect(after(states[3]!, compiling)).toEqual({ name: "planning", measuring: true, compiled: compiling });
  expect(after(states[4]!, compiling)).toBe(states[4]);
});
