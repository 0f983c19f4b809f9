// Settings of a new run as an address to share: "#train?preset=small&lr=0.001". What it does not name is as usual.
import { presetsOf, settings, site, siteTexts } from "../lib/site";
import type { Knob } from "../worker/protocol";
import { MINUTES, type Setup } from "./setup.svelte";

const HUB_PARTS = ["config", "split", "column"] as const;

/** Without the user's own text, which no address holds. */
export function linkOf(setup: Setup): string {
  const said = new URLSearchParams();
  const say = (name: string, value: string | number | null | undefined, usual?: string): void => {
    if (value !== null && value !== undefined && value !== "" && value !== usual) said.set(name, String(value));
  };
  if (setup.minutes === null || setup.goingOn || setup.asks) said.set("preset", setup.preset);
  else said.set("minutes", String(setup.minutes));
  say("recipe", setup.recipe, site.defaultRecipe);
  say("steps", setup.steps);
  for (const { name } of settings) say(name, setup.values[name]);
  if (setup.source === "corpus") say("text", setup.corpus.name);
  if (setup.source === "hub") {
    say("dataset", setup.hub.known?.name ?? setup.hub.dataset);
    for (const part of HUB_PARTS) say(part, setup.hub[part]);
  }
  say("engine", setup.chosenEngine);
  return `#train?${said}`;
}

/** Sets what an address names; what it names that there is not, as "lr=much". */
export function follow(setup: Setup, query: string): string[] {
  const said = new URLSearchParams(query);
  const names = new Set(said.keys());
  const take = (name: string, set: (value: string) => boolean): void => {
    const value = said.get(name);
    if (value !== null && set(value)) names.delete(name);
  };
  take("recipe", (value) => site.recipes.some(({ name }) => name === value) && ((setup.recipe = value), true));
  take("preset", (value) => presetsOf(setup.recipe).some(({ name }) => name === value) && (setup.chooseSize(value), true));
  take("minutes", (value) => MINUTES.includes(Number(value)) && ((setup.minutes = Number(value)), setup.beginNew(), true));
  take("steps", (value) => isWhole(value) && Number(value) > 0 && ((setup.steps = Number(value)), true));
  take("engine", (value) => (value === "wasm" || value === "webgpu") && ((setup.chosenEngine = value), true));
  take("text", (value) => {
    const found = siteTexts.find(({ name }) => name === value);
    if (found) [setup.source, setup.corpus] = ["corpus", found];
    return found !== undefined;
  });
  take("dataset", (value) => {
    const known = site.catalog.some(({ name }) => name === value);
    setup.source = "hub";
    setup.hub.pick(known ? value : "");
    if (!known) setup.hub.typed = value;
    for (const part of HUB_PARTS) take(part, (chosen) => ((setup.hub[part] = chosen), true));
    return true;
  });
  for (const field of settings) {
    take(field.name, (value) => {
      const read = valueOf(field, value);
      if (read !== null) setup.values[field.name] = read;
      return read !== null;
    });
  }
  return [...names].map((name) => `${name}=${said.get(name)}`);
}

function isWhole(value: string): boolean {
  return /^\d{1,9}$/.test(value);
}

function valueOf({ kind, choices, low, high }: Knob, value: string): number | string | null {
  if (choices) return choices.includes(value) ? value : null;
  const read = Number(value);
  const sound = value.trim() !== "" && Number.isFinite(read) && (kind !== "int" || Number.isInteger(read));
  return sound && (low === null || read >= low) && (high === null || read <= high) ? read : null;
}
