// What all parts of the page share, by context. They read the run and call it; none can assign its state.
import { createContext } from "svelte";
import type { Lessons } from "./lessons.svelte";
import type { Run } from "./run.svelte";
import type { Setup } from "./setup.svelte";
import type { Writing } from "./writing.svelte";

export type RunView = Readonly<Run>;

interface Shared {
  run: RunView;
  setup: Setup; // of the next run
  writing: Writing;
  lessons: Lessons;
}

export const [shared, share] = createContext<Shared>();
