// What an address says beside the view: settings of the next run, a model to open, what to look at. Nothing starts by itself.
import { fileOf, siteModels } from "../lib/models";
import { follow } from "./link";
import type { Run } from "./run.svelte";
import type { Setup } from "./setup.svelte";
import { type View, viewIn } from "./views";
import type { Writing } from "./writing.svelte";

const LONGEST_TEXT = 500; // letters of a prompt or of a text to look into

interface Page {
  run: Run;
  setup: Setup;
  writing: Writing;
}

/** Heeds it; what is not possible is said. */
export async function arrive(hash: string, page: Page): Promise<void> {
  const view = viewIn(hash);
  const query = hash.split("?")[1];
  if (!query) return;
  if (view === "train") heedSettings(query, page);
  if (view === "play" || view === "inside") await heedModel(view, new URLSearchParams(query), page);
}

/** An address with settings changes what is chosen, and no more. */
function heedSettings(query: string, { run, setup }: Page): void {
  if (run.busy)
    return run.complain("A run is under way: the settings of this address were not taken over. Stop it, then open the address again.");
  const unknown = follow(setup, query);
  if (unknown.length) run.complain(`This address has settings that this page does not know, which were left out: ${unknown.join(", ")}.`);
}

/** "model" is one of the site's; "text" is what it begins with, or what is looked into; "head" as "1.2", of layer 1 the second. */
async function heedModel(view: View, said: URLSearchParams, { run, writing }: Page): Promise<void> {
  const name = said.get("model");
  if (name && run.model?.title !== `${name}.tinygpt`) {
    if (run.busy || run.occupied)
      return run.complain("A run is under way: the model of this address was not opened. Stop it, then try again.");
    const model = (await siteModels()).find((one) => one.name === name);
    if (!model) return run.complain("This address names a model that this site does not have.");
    if (!run.mayReplace(`Open ${name}`)) return;
    await run.load(fileOf(model));
  }
  const text = said.get("text")?.slice(0, LONGEST_TEXT);
  if (text && view === "play") writing.prompt = text;
  if (text && view === "inside") run.inside.text = text;
  const [layer, head] = (said.get("head") ?? "").split(".").map(Number);
  if (view === "inside" && layer && head) run.inside.chooseHead(layer - 1, head - 1);
}
