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
];
