// The labs that there are.
import type { Named } from "./address";

export const LABS: { lab: Exclude<Named["lab"], "list">; title: string; about: string }[] = [
  {
    lab: "edit",
    title: "Edit the step",
    about:
      "Remove the residual, the mask, a term of a gradient. See what becomes of the plan, whether the backward pass is still right, and how it trains beside the original.",
  },
  {
    lab: "mutants",
    title: "Find the mutant",
    about:
      "Fourteen faults in a program that works otherwise. See the curve, look at the gradients, name the op, mend it. It is what debugging a model is like.",
  },
  {
    lab: "derive",
    title: "Derive and check",
    about:
      "Write the backward pass of an op in a few lines. Finite differences and the specification say where it is wrong; what you solved then trains a model.",
  },
  {
    lab: "write",
    title: "Write the kernel",
    about:
      "Our own WGSL, with its heart cut out: one to ten lines to write. Your GPU runs them on awkward shapes, the specification says where they are wrong, and what you solved then trains a model.",
  },
  {
    lab: "whatif",
    title: "What if?",
    about:
      "Travel to a step of a run, change one thing, and let it go on from there. The coach says what to expect, you predict, and both curves tell.",
  },
  {
    lab: "diverged",
    title: "Which op diverged first?",
    about: "Two runs that differ in one thing, trained in step: the first tensor that differs, by how much, and why.",
  },
  {
    lab: "homework",
    title: "Homework",
    about: "A link sets a task, the proof of a run is the answer. Drop a folder of answers, and a stretch of each is trained again.",
  },
];
