// Homework: a task in a link, and what is said of an answer, a capsule. The link and the capsules are strangers'.
import { fromAddress, inAddress } from "../lib/address";
import { knob, presetsOf, site, siteTexts } from "../lib/site";
import type { CapsuleFacts, RunConfig, Verdict } from "../worker/protocol";

/** What is asked for: a run of a preset, of so many steps, on one of the site's texts. */
export interface Task {
  title: string;
  text: string; // what the teacher says
  preset: string;
  recipe: string;
  steps: number;
  corpus: string; // its name
}

export const [LONGEST_TITLE, LONGEST_TEXT, MOST_STEPS] = [80, 1000, 100_000];
const MOST_BYTES = 10_000;
const NOT_WHOLE = "The link is not whole, or holds no task: ask for it again.";

export async function taskAddress(task: Task): Promise<string> {
  return `#homework=${await inAddress(JSON.stringify(checked(task)))}`;
}

/** What a link holds; throws a sentence where it is not whole. */
export async function taskIn(packed: string): Promise<Task> {
  let found: unknown;
  try {
    found = JSON.parse(await fromAddress(packed, MOST_BYTES));
  } catch {
    throw new Error(NOT_WHOLE);
  }
  return checked(found);
}

/** The task alone, whatever else is said; throws what is missing. */
export function checked(found: unknown): Task {
  if (typeof found !== "object" || found === null) throw new Error(NOT_WHOLE);
  const { title, text, preset, recipe, steps, corpus } = found as Record<keyof Task, unknown>;
  if (typeof recipe !== "string" || !site.recipes.some(({ name }) => name === recipe))
    throw new Error(`There is no recipe ${said(recipe)}.`);
  if (typeof preset !== "string" || !presetsOf(recipe).some(({ name }) => name === preset))
    throw new Error(`There is no size ${said(preset)}.`);
  if (typeof corpus !== "string" || !siteTexts.some(({ name }) => name === corpus))
    throw new Error(`There is no text ${said(corpus)} here.`);
  if (!Number.isInteger(steps) || (steps as number) < 1 || (steps as number) > MOST_STEPS)
    throw new Error(`A task has from 1 to ${MOST_STEPS.toLocaleString("en")} steps, not ${said(steps)}.`);
  const words = { title: plain(title, LONGEST_TITLE, "title"), text: text === "" ? "" : plain(text, LONGEST_TEXT, "text") };
  return { ...words, preset, recipe, steps: steps as number, corpus };
}

const said = (value: unknown): string => String(value).slice(0, 40) || "without a name";

/** Without what is not to be seen, such as signs that turn the reading around. */
function plain(found: unknown, longest: number, what: string): string {
  if (typeof found !== "string") throw new Error(NOT_WHOLE);
  const text = found.replace(/[^\P{C}\n]/gu, "").trim();
  if (!text) throw new Error(`The task's ${what} is empty: write something.`);
  if (text.length > longest) throw new Error(`The task's ${what} has ${text.length} letters, and ${longest} is the most.`);
  return text;
}

/** Where the pupil trains it: Train with these settings. */
export function trainAddress({ preset, recipe, steps, corpus }: Task): string {
  const settings = new URLSearchParams({
    preset,
    ...(recipe === site.defaultRecipe ? {} : { recipe }),
    steps: String(steps),
    text: corpus,
  });
  return `../#train?${settings}`;
}

type Answer = Pick<CapsuleFacts, "config" | "text" | "steps">;

/** In what an answer is not what was asked for. */
export function strays({ config, text, steps }: Answer, task: Task): string[] {
  const asked = presetsOf(task.recipe).find(({ name }) => name === task.preset)!;
  const corpus = siteTexts.find(({ name }) => name === task.corpus)!;
  const sizes = ["layers", "d_model", "heads", "ctx"].filter((name) => config.model[name] !== asked.model[name]);
  return [
    ...(text.sha256 === corpus.sha256 ? [] : [`another text (${text.name})`]),
    ...(sizes.length ? [`another size than ${task.preset}`] : []),
    ...(steps === task.steps ? [] : [`${steps.toLocaleString("en")} steps instead of ${task.steps.toLocaleString("en")}`]),
  ];
}

// What differs by itself: a length and what is fitted to it, a seed, when a run is looked at, and what short texts go without.
const ASIDE = ["steps", "warmup", "seed", "val_fraction", "eval_every", "eval_batches", "sample_every", "checkpoint_every", "keep_every", "patience"]; // prettier-ignore

/** In which settings a run is another than the recipes have it for its size, as "dropout 0.2 instead of 0", by the nearest recipe. */
export function edits(config: RunConfig, version: string): string[] {
  const sources = /\+edit\.(\w+)/.exec(version)?.[1];
  const found = site.recipes.map(({ name }) => changesFrom(config, name));
  const nearest = found.reduce((best, one) => (one.length < best.length ? one : best));
  return [...(sources ? [`edited sources (${sources})`] : []), ...nearest];
}

function changesFrom({ model, train }: RunConfig, recipe: string): string[] {
  const presets = presetsOf(recipe);
  const sized = presets.find((one) => ["layers", "d_model", "heads", "ctx"].every((name) => one.model[name] === model[name]));
  const usual = sized ?? presets[0]!;
  const size = sized ? [] : [`a size of its own: ${model["layers"]} layers of width ${model["d_model"]}`];
  const of = (section: "model" | "train", stated: Record<string, unknown>, theirs: Record<string, unknown>): string[] =>
    Object.keys(theirs)
      .filter((name) => name in stated && stated[name] !== theirs[name] && !ASIDE.includes(name))
      .filter((name) => !(name === "ngrams" && stated[name] === "")) // a short text goes without
      .filter((name) => sized || !["layers", "d_model", "heads", "ctx"].includes(name))
      .map((name) => `${knob(section, name).label} ${stated[name] as string} instead of ${theirs[name] as string}`);
  return [...size, ...of("model", model, usual.model), ...of("train", train, usual.train)];
}

const LAST = 20; // losses whose mean the table shows, as `tinygpt replay FOLDER` has it

export function endLoss(curve: CapsuleFacts["curve"]): number | null {
  const last = curve.slice(-LAST).map(([, loss]) => loss);
  return last.length ? last.reduce((sum, loss) => sum + loss, 0) / last.length : null;
}

/** A row of the table. */
export interface Grade {
  file: string;
  title: string;
  text: string;
  steps: number;
  loss: number | null;
  edits: string[];
  strays: string[];
  verdict: Verdict["verdict"] | "unread" | "waiting";
  why: string;
}

export const VERDICTS: Record<Grade["verdict"], string> = {
  equal: "equal",
  unproved: "not proved here",
  different: "does not agree",
  unread: "not graded",
  waiting: "waiting",
};

export const blank = (file: string): Grade => ({
  file,
  title: "",
  text: "",
  steps: 0,
  loss: null,
  edits: [],
  strays: [],
  verdict: "waiting",
  why: "",
});

const PLACES: Record<Grade["verdict"], number> = { equal: 0, unproved: 0, waiting: 1, different: 2, unread: 3 };

/** What was replayed with the lowest loss first, then what does not agree, whose loss is a claim, then what was not graded. */
export function ranked(rows: Grade[]): Grade[] {
  const by = (a: Grade, b: Grade): number => PLACES[a.verdict] - PLACES[b.verdict] || (a.loss ?? Infinity) - (b.loss ?? Infinity);
  return rows.toSorted((a, b) => by(a, b) || (a.file < b.file ? -1 : 1));
}

/** The table for a spreadsheet, which is to read no cell as a formula. */
export function csvOf(rows: Grade[]): string {
  const cell = (value: string | number): string => {
    const text = typeof value === "number" ? String(value) : value.replace(/^[=+\-@\t\r]/, "'$&");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const head = ["file", "verdict", "loss", "steps", "run", "text", "edited", "not as asked", "in words"];
  const lines = rows.map((row) =>
    [
      row.file,
      VERDICTS[row.verdict],
      row.loss === null ? "" : row.loss.toFixed(4),
      row.steps || "",
      row.title,
      row.text,
      row.edits.join("; "),
      row.strays.join("; "),
      row.why,
    ].map(cell),
  );
  return [head, ...lines].map((line) => line.join(",")).join("\r\n") + "\r\n";
}
