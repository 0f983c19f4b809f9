// What a lab says of errors, plans, checks and engines.
import { describe, expect, it } from "vitest";
import { namedIn } from "../src/lab/address";
import { verdict } from "../src/lab/checked";
import { compared } from "../src/lab/curves";
import { lacks } from "../src/lab/engines";
import { comparedOps, folded, gone, places, summary } from "../src/lab/planned";
import type { Planned, PlannedOp } from "../src/lab/protocol";
import { troubleOf } from "../src/lab/trouble";
import { troubleInKernel } from "../src/lab/wgsl";

const TRACE = `Traceback (most recent call last):
  File "<stdin>", line 1, in <module>
  File "//tinygpt/labs/room.py", line 70, in plan
  File "//tinygpt/core/models/gpt.py", line 112, in forward_block
  File "//tinygpt/core/models/layers.py", line 9, in norm
NameError: name 'x_mad' isn't defined
`;

describe("errors in plain words", () => {
  it("names the line of the edited file, or else the last one", () => {
    expect(troubleOf(TRACE, ["core/models/gpt.py"])).toEqual({
      message: "There is nothing called x_mad here.",
      path: "core/models/gpt.py",
      line: 112,
    });
    expect(troubleOf(TRACE, []).path).toBe("core/models/layers.py");
  });

  it.each([
    ["SyntaxError: invalid syntax", "Python cannot read this line: a bracket, a colon or a comma may be missing, here or just before."],
    ["tinygpt.core.errors.TinyGPTError: x is read before it is written", "X is read before it is written."],
    ["TinyGPTError: x is read", "X is read."],
    ["the server does not answer.", "The server does not answer."],
  ])("%s", (text, said) => expect(troubleOf(text.replace(/^tinygpt\.core\.errors\./, ""), []).message).toBe(said));
});

describe("what a GPU says of a reader's kernel", () => {
  const said = (line: number, message: string): string => `the kernels watched.wgsl do not compile on this GPU: line ${line}: ${message}`;
  const trouble = (text: string) => troubleInKernel(text, { before: "one\ntwo\n" }, "let a = b;\nlet c = a;\n");

  it.each([
    [said(3, "unresolved value 'b'"), { message: "There is nothing called b here.", path: "yours.wgsl", line: 1 }],
    [said(4, "redeclaration of 'c'"), { message: "The name c is taken already: take another one, or change it without let or var.", path: "yours.wgsl", line: 2 }],
    [said(4, "cannot assign 'vec4<f32>' to 'f32'"), { message: "A vec4f cannot be put into an f32.", path: "yours.wgsl", line: 2 }],
    [said(3, "expected ';' for variable declaration"), { message: "WGSL cannot read this line: expected ';' for variable declaration.", path: "yours.wgsl", line: 1 }],
    [said(3, "something else"), { message: "Something else.", path: "yours.wgsl", line: 1 }],
    [said(9, "unresolved value 'd'"), { message: "The kernel goes on with d, and your lines do not make it." }],
    [said(9, "expected '}'"), { message: "Your lines do not fit what comes after them: WGSL cannot read this line: expected '}'." }],
    ["the GPU was lost (out of memory); go on", { message: "The GPU gave up on this kernel. A loop without an end is the usual cause: look at what each loop counts, and check once more." }],
    ["a loop of yours did not end within 4,096 rounds", { message: "A loop of yours did not end within 4,096 rounds." }],
  ])("%s", (text, found) => expect(trouble(text)).toEqual(found)); // prettier-ignore
});

function op(kernel: string, writes: string, reads: string[]): PlannedOp {
  const tensor = (name: string): [string, number[], string] => [name, [2, 3], name];
  return { kernel, phase: "forward", reads: reads.map(tensor), writes: [tensor(writes)], numbers: { N: 2, seed: 7 }, flops: 0, bytes: 0 };
}

function plan(ops: PlannedOp[], temps: [string, number, number][], more: Partial<Planned> = {}): Planned {
  const slots = temps.map(([name, start, size]) => ({ name, shape: [size], kind: "temp", start, size, first: 0, last: 1 }));
  return { model: "", parameters: 10, arena: 1000, persistent: 100, ops, slots, declared: "", ...more };
}

describe("a plan beside the original's", () => {
  const many = ["a", "b", "c", "d", "e", "f"].map((name) => op("linear", name, ["x"]));
  const original = plan([...many, op("add", "y", ["x", "f"])], [["y", 100, 6], ["z", 110, 6], ["w", 120, 6]]); // prettier-ignore
  const edit = plan(many, [["z", 110, 6], ["w", 130, 6], ["n", 140, 2]], { arena: 500 }); // prettier-ignore

  it("says what became of ops and memory", () => {
    const lines = comparedOps(original, edit);
    expect(lines.filter(({ mark }) => mark !== " ")).toEqual([{ mark: "-", phase: "forward", text: "y[2,3] = add(x[2,3], f[2,3]) N=2" }]);
    expect(folded(lines)[0]).toBe(4);
    expect(places(original, edit).map(({ name, is }) => [name, is])).toEqual([["z", "same"], ["w", "moved"], ["n", "new"]]); // prettier-ignore
    expect(gone(original, edit)).toEqual(["y"]);
    expect(summary(original, edit)).toBe(
      "Ops of the original that are gone or changed: 1; new or changed ones: 0. Memory: 2 kB instead of 4 kB.",
    );
    expect(summary(original, original)).toBe("The list of ops is the same. Memory: 4 kB, as before.");
  });
});

describe("what can train an edit", () => {
  it.each([
    [["core/models/gpt.py"], ["wasm", "webgpu", "spec"]],
    [["kernels/layernorm.py"], ["spec"]],
    [["kernels/layernorm_backward.wgsl"], ["webgpu"]],
    [
      ["kernels/layernorm.py", "kernels/layernorm_backward.wgsl"],
      ["webgpu", "spec"],
    ],
    [["core/models/gpt.py", "kernels/attention.py"], ["spec"]],
  ])("%j", (paths, engines) => {
    const missing = lacks(paths, true, null);
    expect(Object.keys(missing).filter((name) => !missing[name as never])).toEqual(engines);
  });

  it("is not C++ where kernels are called with something else", () => {
    const [original, edit] = [plan([], []), plan([], [], { declared: "other" })];
    expect(lacks(["core/ops/add.py"], false, { original, edit }).wasm).toContain("C++ cannot be compiled in a tab");
    expect(lacks(["core/ops/add.py"], false, { original, edit: original }).webgpu).toContain("no WebGPU");
  });
});

it("a check says what the terminal's says", () => {
  const row = (name: string, right: boolean) => ({ name, length: 1, error: 0, right, within: 1e-6 });
  expect(verdict([row("a", true), row("b", false), row("c", false)], true)).toMatch(
    /^2 of 3 gradients are wrong. Going backward, b is the first/,
  );
  expect(verdict([row("a", true)], true)).toBe("All 1 gradients agree with finite differences to 0.000001 of their length.");
  expect(verdict([row("a", true)], false)).toBe("Stopped after 1 gradients, which are right.");
});

it("two curves are compared by their ends", () => {
  const rows = (loss: number): [number, number][] => Array.from({ length: 30 }, (_, i) => [i + 1, loss]);
  expect(compared(rows(2), rows(2.5))).toMatch(/^Yours ends 0.500 higher: 2.500/);
  expect(compared(rows(2), rows(1.5))).toMatch(/^Yours ends 0.500 lower/);
  expect(compared(rows(2), rows(2.001))).toMatch(/^They end at the same loss/);
  expect(compared(rows(2), rows(NaN))).toMatch(/blew up/);
});

it.each([
  ["", { lab: "list", name: "", patch: "" }],
  ["#diverged=seed", { lab: "diverged", name: "seed", patch: "" }],
  ["#homework=H4s", { lab: "homework", name: "H4s", patch: "" }],
  ["#whatif=m1-a2", { lab: "whatif", name: "m1-a2", patch: "" }],
  ["#whatif", { lab: "whatif", name: "", patch: "" }],
  ["#edit", { lab: "edit", name: "", patch: "" }],
  ["#edit=no-residual", { lab: "edit", name: "no-residual", patch: "" }],
  ["#edit&patch=abc", { lab: "edit", name: "", patch: "abc" }],
  ["#mutant-03", { lab: "mutants", name: "mutant-03", patch: "" }],
  ["#derive=rmsnorm", { lab: "derive", name: "rmsnorm", patch: "" }],
  ["#write", { lab: "write", name: "", patch: "" }],
  ["#write=rmsnorm", { lab: "write", name: "rmsnorm", patch: "" }],
])("the address %s names a lab", (hash, named) => expect(namedIn(hash)).toEqual(named));
