// What the chosen run would take here: asked of the worker, and forgotten when another is chosen. How long steps took stays known.
import { inWords, sentence } from "../lib/format";
import { presetNamed, site } from "../lib/site";
import type { EngineName, EstimatedRun } from "../worker/protocol";
import { Gone } from "../worker/remote";
import type { Calls } from "./connection";

const KEPT = "tinygpt seconds per step"; // in this browser

type Steps = Partial<Record<EngineName, Record<string, number>>>;

export class Estimate {
  /** Seconds that a step took here, by engine and preset, as far as any was measured; the last one measured is last. */
  private steps = $state.raw<Steps>(kept());
  answer = $state.raw<EstimatedRun | null>(null);
  fault = $state("");
  measuring = $state(false);

  private readonly calls: () => Calls | null;
  private asked = 0;

  constructor(calls: () => Calls | null) {
    this.calls = calls;
  }

  async ask(wanted: Parameters<Calls["estimate"]>[0]): Promise<void> {
    this.forget();
    this.measuring = true;
    const mine = this.asked;
    try {
      const answer = await this.calls()?.estimate(wanted);
      if (mine === this.asked) this.answer = answer ?? null;
    } catch (error) {
      if (mine === this.asked && !(error instanceof Gone)) this.fault = sentence((error as Error).message);
    }
    if (mine === this.asked) this.measuring = false;
  }

  /** A step of that size took so long here. */
  learn(preset: string, seconds: number, engine: EngineName): void {
    const others = Object.entries(this.steps[engine] ?? {}).filter(([name]) => name !== preset);
    this.steps = { ...this.steps, [engine]: Object.fromEntries([...others, [preset, seconds]]) };
    try {
      localStorage.setItem(KEPT, JSON.stringify(this.steps));
    } catch {
      // It does for as long as the page is open.
    }
  }

  /** About how many seconds so many steps of a size take here; of one that was not measured, by how the sizes compare on our
   * machines. Null where none was measured. */
  here(preset: string, steps: number, engine: EngineName): number | null {
    const [measured, seconds] = Object.entries(this.steps[engine] ?? {}).at(-1) ?? [];
    if (measured === undefined || seconds === undefined) return null;
    const known = this.steps[engine]![preset];
    return steps * (known ?? (seconds * usual(preset, engine)) / usual(measured, engine));
  }

  /** The same in words; where nothing was measured here, on a machine of ours. */
  about(preset: string, steps: number, engine: EngineName): string {
    const seconds = this.here(preset, steps, engine);
    if (seconds !== null) return `about ${inWords(seconds)} here`;
    const ours = engine === "wasm" ? "on two cores" : "on a fast GPU";
    return `about ${inWords((steps * usual(preset, engine)) / 1000)} ${ours}`;
  }

  /** Another run is chosen: what is still heard of this one is late. */
  forget(): void {
    this.asked += 1;
    this.answer = null;
    this.fault = "";
    this.measuring = false;
  }
}

function kept(): Steps {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}") as Steps;
  } catch {
    return {};
  }
}

/** Milliseconds of a step on our machine; where a size was not measured there, by what its steps compute. */
function usual(preset: string, engine: EngineName): number {
  const points = site.speeds.find((speed) => speed.engine === engine)!.points;
  const away = ([name]: [string, number]): number => Math.abs(Math.log(work(name) / work(preset)));
  const [nearest, ms] = points.reduce((best, point) => (away(point) < away(best) ? point : best));
  return (ms * work(preset)) / work(nearest);
}

function work(preset: string): number {
  const { parameters, model, train } = presetNamed(preset, site.defaultRecipe);
  return parameters * Number(train["batch"]) * Number(model["ctx"]);
}
