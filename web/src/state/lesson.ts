// A lesson in an address: "#lesson=…", a few cards of text, each with a place in the page. Whoever made it is not trusted: a card is text,
// it leads to a place of this page, and it is short.
import { fromAddress, inAddress } from "../lib/address";
import type { View } from "./views";

export interface Card {
  text: string;
  target: string; // an address in the page, as "#inside?head=1.2"; or nothing
}

export interface Lesson {
  title: string;
  cards: Card[];
}

export const [MOST_CARDS, LONGEST_TITLE, LONGEST_TEXT, LONGEST_TARGET] = [5, 80, 500, 600]; // of letters, but for the cards
const MOST_BYTES = 20_000; // unpacked
const NOT_WHOLE = "The link is not whole, or is no lesson: ask for it again.";

/** The places that a card can lead to, and what its button says. */
const TITLES: Partial<Record<View, string>> = {
  home: "Go to the first screen",
  play: "Go to Play",
  train: "Go to Train",
  text: "Go to your own text",
  measure: "Measure this machine",
  inside: "Look inside",
  models: "Go to My models",
  verify: "Verify a run",
  share: "Share",
};

/** An address for others; throws what is missing. */
export async function lessonAddress(lesson: Lesson): Promise<string> {
  return `#lesson=${await inAddress(JSON.stringify(checked(lesson)))}`;
}

/** What an address holds, or null where it has no lesson; throws a sentence where it is not whole. */
export async function lessonIn(hash: string): Promise<Lesson | null> {
  const packed = /^#lesson=(.+)$/.exec(hash)?.[1];
  if (!packed) return null;
  let found: unknown;
  try {
    found = JSON.parse(await fromAddress(packed, MOST_BYTES));
  } catch {
    throw new Error(NOT_WHOLE);
  }
  return checked(found);
}

/** The lesson alone: whatever else is said is left out. */
function checked(found: unknown): Lesson {
  const { title, cards } = fieldsOf(found);
  if (!Array.isArray(cards)) throw new Error(NOT_WHOLE);
  if (cards.length === 0 || cards.length > MOST_CARDS) throw new Error(`A lesson has 1 to ${MOST_CARDS} cards, not ${cards.length}.`);
  return {
    title: textOf(title, LONGEST_TITLE, "A lesson's title"),
    cards: cards.map((card: unknown, i) => {
      const { text, target } = fieldsOf(card);
      return { text: textOf(text, LONGEST_TEXT, `The text of card ${i + 1}`), target: targetOf(target, i + 1) };
    }),
  };
}

function fieldsOf(found: unknown): Record<string, unknown> {
  if (typeof found !== "object" || found === null) throw new Error(NOT_WHOLE);
  return found as Record<string, unknown>;
}

/** Without what is not to be seen, such as signs that turn the reading around. */
function textOf(found: unknown, longest: number, what: string): string {
  if (typeof found !== "string") throw new Error(NOT_WHOLE);
  const text = found.replace(/[^\P{C}\n]/gu, "").trim();
  if (!text) throw new Error(`${what} is empty: write something.`);
  if (text.length > longest) throw new Error(`${what} has ${text.length} letters, and ${longest} is the most.`);
  return text;
}

function targetOf(found: unknown, card: number): string {
  if (found === "" || found === undefined) return "";
  const known = typeof found === "string" && found.length <= LONGEST_TARGET && /^#(\w+)(\?|$)/.exec(found)?.[1];
  if (!known || !Object.hasOwn(TITLES, known)) throw new Error(`Card ${card} does not lead to a place of this page.`);
  return found;
}

/** Where a card leads, in the page's own words. */
export function targetTitle(target: string): string {
  const view = target.slice(1).split("?")[0] as View;
  const said = new URLSearchParams(target.split("?")[1]);
  const [layer, head] = (said.get("head") ?? "").split(".");
  const more = [
    ...(head ? [`layer ${layer}, head ${head}`] : []),
    ...(view === "train" && said.get("preset") ? [said.get("preset")!] : []),
    ...(said.get("model") ? [said.get("model")!] : []),
  ];
  return `${TITLES[view] ?? view}${more.length ? `: ${more.join(", ")}` : ""}`;
}
