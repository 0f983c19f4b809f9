// What the page is doing with its model: one thing at a time. Each happening leads from one state to the next.
import type { Compiling } from "../worker/protocol";

export type State =
  | { name: "loading" } // the worker starts
  | { name: "idle" }
  | { name: "checking" } // a file, or a run of the library
  | { name: "planning"; measuring: boolean; compiled: Compiling | null } // a run, or which run fits a time; then its kernels are compiled
  | { name: "training" }
  | { name: "stopping" }
  | { name: "writing"; compiled: Compiling | null }
  | { name: "broken" }; // there is no worker

export type Happening =
  | { type: "connected" | "ready" | "check" | "started" | "stop" | "ask" | "answered" | "refused" | "ended" | "died" }
  | { type: "plan"; measuring: boolean }
  | Compiling;

export const BUSY: State["name"][] = ["planning", "training", "stopping"];

/** What does not concern a state leaves it as it is. */
export function after(state: State, happening: Happening): State {
  if ("event" in happening) return state.name === "planning" || state.name === "writing" ? { ...state, compiled: happening } : state;
  switch (happening.type) {
    case "connected":
      return { name: "loading" };
    case "ready":
      return state.name === "loading" ? { name: "idle" } : state;
    case "check":
      return { name: "checking" };
    case "plan":
      return { name: "planning", measuring: happening.measuring, compiled: null };
    case "started":
      return state.name === "planning" || state.name === "stopping" ? { name: "training" } : state;
    case "stop":
      return BUSY.includes(state.name) ? { name: "stopping" } : state;
    case "ask":
      return state.name === "training" ? state : { name: "writing", compiled: null };
    case "answered":
      return state.name === "writing" ? { name: "idle" } : state;
    case "refused":
      return state.name === "training" ? state : { name: "idle" };
    case "ended":
      return { name: "idle" };
    case "died":
      return { name: "broken" };
  }
}
