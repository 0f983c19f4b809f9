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

/** Where the pupil trains it: Train with these settings, and a seed of the pupil's own, for equal ones give equal capsules. */
export function trainAddress({ preset, recipe, steps, corpus }: Task, seed: number | null = null): string {
  const settings = new URLSearchParams({
    preset,
    ...(recipe === site.defaultRecipe ? {} : { recipe }),
    steps: String(steps),
    text: corpus,
    ...(seed === null ? {} : { seed: String(seed) }),
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

export const LAST = 20; // losses whose mean the table shows, as `tinygpt replay FOLDER` has it

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
  replayed: number; // from the first on
  loss: number | null; // what the capsule states
  edits: string[];
  strays: string[];
  twins: string[]; // files with the same bytes
  verdict: Verdict["verdict"] | "unread" | "waiting";
  why: string;
}

const VERDICTS: Record<Grade["verdict"], string> = {
  equal: "equal",
  unproved: "not proved here",
  different: "does not agree",
  unread: "not graded",
  waiting: "waiting",
};

type Judged = Pick<Grade, "verdict" | "steps" | "replayed">;

/** Whether the replay came to the end of what the capsule tells. */
const isWhole = ({ verdict, steps, replayed }: Judged): boolean => (verdict === "equal" || verdict === "unproved") && replayed === steps;

export function verdictOf(row: Judged): string {
  if (row.verdict !== "equal" || isWhole(row)) return VERDICTS[row.verdict];
  return `equal for the first ${row.replayed.toLocaleString("en")} of ${row.steps.toLocaleString("en")} steps`;
}

/** Whether the loss at the end is the capsule's word alone. */
export const isClaimed = (row: Judged & Pick<Grade, "loss">): boolean => row.loss !== null && !isWhole(row);

/** The whole run is proved, and it is what was asked for. */
export const isProved = (row: Grade): boolean => row.verdict === "equal" && isWhole(row) && row.strays.length === 0;

export const blank = (file: string): Grade => ({
  file,
  title: "",
  text: "",
  steps: 0,
  replayed: 0,
  loss: null,
  edits: [],
  strays: [],
  twins: [],
  verdict: "waiting",
  why: "",
});

const PLACES: Record<Grade["verdict"], number> = { equal: 0, unproved: 0, waiting: 1, different: 2, unread: 3 };

/** What agrees first, then what does not, then what was not graded; of each what is as asked, what was replayed to its end, the lowest loss. */
export function ranked(rows: Grade[]): Grade[] {
  const keys = (row: Grade): number[] => [
    PLACES[row.verdict],
    Number(row.strays.length > 0),
    Number(isClaimed(row)),
    row.loss ?? Number.MAX_VALUE,
  ];
  const by = (a: number[], b: number[]): number => a.map((key, i) => key - b[i]!).find((off) => off !== 0) ?? 0;
  return rows.toSorted((a, b) => by(keys(a), keys(b)) || (a.file < b.file ? -1 : 1));
}

/** What is said in place of what is not as asked. */
export const NO_TASK = "Graded without a task: open its link to compare.";

/** The table for a spreadsheet, which is to read no cell as a formula. */
export function csvOf(rows: Grade[], task: Task | null): string {
  const cell = (value: string | number): string => {
    const text = typeof value === "number" ? String(value) : value.replace(/^[=+\-@\t\r]/, "'$&");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const head = [
    "file",
    "verdict",
    "loss at the end",
    "claimed",
    "steps",
    "run",
    "text",
    "edited",
    "not as asked",
    "same file as",
    "in words",
  ];
  const lines = rows.map((row) =>
    [
      row.file,
      verdictOf(row),
      row.loss === null ? "" : row.loss.toFixed(4),
      isClaimed(row) ? "claimed" : "",
      row.steps || "",
      row.title,
      row.text,
      row.edits.join("; "),
      task ? row.strays.join("; ") : NO_TASK,
      row.twins.join("; "),
      row.why,
    ].map(cell),
  );
  return [head, ...lines].map((line) => line.join(",")).join("\r\n") + "\r\n";
}
