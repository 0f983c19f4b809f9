// Lessons in addresses: what a teacher made comes whole, and what somebody else made does no harm.
import { describe, expect, it } from "vitest";
import { inAddress } from "../src/lib/address";
import { LONGEST_TEXT, lessonAddress, lessonIn, targetTitle } from "../src/state/lesson";

const lesson = {
  title: "Größe & <b>Ruhm</b>",
  cards: [
    { text: "Look.\nThen think.", target: "#inside?text=what+light&head=2.1" },
    { text: "That is all.", target: "" },
  ],
};

const packed = async (found: unknown): Promise<string> => `#lesson=${await inAddress(JSON.stringify(found))}`;
const withTarget = (target: unknown): unknown => ({ title: "A", cards: [{ text: "b", target }] });

it("comes whole, and nothing that is not a lesson's comes with it", async () => {
  expect(await lessonIn(await lessonAddress(lesson))).toEqual(lesson);
  const more = { ...lesson, cards: lesson.cards.map((card) => ({ ...card, onclick: "alert(1)" })), __proto__: null, script: "alert(1)" };
  expect(await lessonIn(await packed(more))).toEqual(lesson);
  expect(await lessonIn("#class")).toBeNull();
});

it("has no signs that turn the reading around or do something to a terminal", async () => {
  const found = await lessonIn(await packed({ title: "a\u202eb\u0007", cards: [{ text: "c\u2066d\r\ne\u200b", target: "" }] }));
  expect(found).toEqual({ title: "ab", cards: [{ text: "cd\ne", target: "" }] });
});

describe("what is no lesson is refused in a sentence", () => {
  it.each([
    ["no object", [1, 2], "no lesson"],
    ["cards that are none", { title: "A", cards: "many" }, "no lesson"],
    ["a title that is no text", { title: { toString: 1 }, cards: lesson.cards }, "no lesson"],
    ["no cards", { title: "A", cards: [] }, "1 to 5 cards"],
    ["six cards", { title: "A", cards: Array(6).fill(lesson.cards[1]) }, "1 to 5 cards, not 6"],
    ["an empty title", { title: "  \u202e", cards: lesson.cards }, "title is empty"],
    ["a long text", { title: "A", cards: [{ text: "a".repeat(LONGEST_TEXT + 1), target: "" }] }, "501 letters"],
    ...[
      "javascript:alert(1)",
      "https://example.com/#play",
      "//example.com",
      "#model=hf:a/b",
      "#lesson=abc",
      "#constructor",
      "#play/../x",
      7,
    ].map((target): [string, unknown, string] => [String(target), withTarget(target), "does not lead to a place of this page"]),
    ["a long target", withTarget(`#play?text=${"a".repeat(600)}`), "does not lead to a place of this page"],
  ])("%s", async (_, found, said) => {
    await expect(lessonIn(await packed(found))).rejects.toThrow(said);
  });

  it.each(["#lesson=H4sIAAAA", "#lesson=%3Cscript%3E", `#lesson=${"A".repeat(5000)}`])("%s", async (hash) => {
    await expect(lessonIn(hash)).rejects.toThrow("The link is not whole");
  });

  it("not even unpacked, where it is too long", async () => {
    await expect(lessonIn(await packed({ title: "a".repeat(1_000_000), cards: [] }))).rejects.toThrow("The link is not whole");
  });
});

it("says where a card leads in words that are not the teacher's", () => {
  expect(targetTitle("#inside?text=x&head=2.1&model=moby-dick")).toBe("Look inside: layer 2, head 1, moby-dick");
  expect(targetTitle("#train?preset=tiny&steps=200")).toBe("Go to Train: tiny");
  expect(targetTitle("#play")).toBe("Go to Play");
});
