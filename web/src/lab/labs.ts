// The labs that there are.
import type { Named } from "./address";

export const LABS: { lab: Exclude<Named["lab"], "list">; title: string; about: string }[] = [
  {
    lab: "edit",
    title: "Edit the step",
    about:
      "Remove the residual, the mask, a term of a gradient. See what becomes of the plan, whether the backward pass is still right, and how it trains beside the original.",
  },
];
