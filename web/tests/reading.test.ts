// What a page to read adds: whether an answer is right, and what search finds.
import { expect, test } from "vitest";
import { asked, judge } from "../src/learn/judge";
import { excerptOf, Index } from "../src/search/find";
import { sectionsOf } from "../src/search/sections";

test.each([
  ["1.39", "1.39"],
  ["1.39", "1.386"], // more digits than were asked
  ["1.39", " 1,39 nats"],
  ["1.39", "ln 4"],
  ["1.39", "-ln(1/4)"],
  ["1.39", "2 ln 2 nats"],
  ["1.39", "log(4)"],
  ["8", "log2(256)"],
  ["0.125", "1/8"],
  ["0.14", "sqrt(0.02)"],
  ["0.083", "1/12"],
  ["0.083", ",0833"],
  ["-0.75", "−0.75"],
  ["16777216", "16,777,216"],
  ["16777216", "256^3"],
  ["16777216", "2**24"],
  ["70464", "70 464"],
  ["0.1", "0.0999967"],
  ["0.037", "0.0375"],
  ["0.0", "0"],
  ["18", "18"],
])("%s is answered by %s", (answer, typed) => {
  expect(judge(typed, answer)).toEqual({ right: true, says: "Right." });
});

test.each([
  ["1.39", "1.4", "last digits"],
  ["1.39", "-1.39", "sign"],
  ["-0.75", "0.75", "sign"],
  ["0.083", "0.83", "decimal point"],
  ["18", "18.4", "exact"],
  ["18", "16", "too small"],
  ["36", "64", "too large"],
  ["0.0", "2.98e-8", "Almost"], // what float32 does not have
  ["0.1", "0.11", "too large"],
  ["6", "3", "factor of two"],
  ["768", "many", "Type a number"],
  ["1.39", "ln", "Type a number"],
  ["1.39", "ln(4", "Type a number"],
  ["1.39", "ln 0", "Type a number"],
  ["1.39", "sin 4", "Type a number"],
  ["1.39", "ln 2", "factor of two"],
  ["768", "", "Type a number"],
])("%s is not answered by %s: %s", (answer, typed, says) => {
  const verdict = judge(typed, answer);
  expect(verdict.right).toBe(false);
  expect(verdict.says).toContain(says);
});

test("how exact an answer has to be is said", () => {
  expect([asked("18"), asked("0.8"), asked("1.39"), asked("0.037"), asked("0.0")]).toEqual([
    "a whole number",
    "one decimal is enough",
    "two decimals are enough",
    "three decimals are enough",
    "a number, exactly",
  ]);
});

const PAGE = `<h1 id="one">Attention</h1><p>Shares &amp; scores.</p><h2 id="two">The <code>mask</code></h2><pre>qk_norm = 1</pre>`;

test("a page is found by its sections, a word by its beginning, all words together", () => {
  const sections = sectionsOf(PAGE, "learn/x/", "Attention");
  expect(sections).toEqual([
    { address: "learn/x/", page: "Attention", title: "Attention", text: "Shares & scores." },
    { address: "learn/x/#two", page: "Attention", title: "The mask", text: "qk_norm = 1" },
  ]);
  const index = new Index(sections);
  const found = (query: string): string[] => index.find(query).map(({ address }) => address);
  expect(found("sco")).toEqual(["learn/x/"]);
  expect(found("mask norm")).toEqual(["learn/x/#two"]);
  expect(found("mask scores")).toEqual([]);
  expect(found("attention")[0]).toBe("learn/x/");
});

test("an excerpt is around what was looked for", () => {
  const text = `${"word ".repeat(60)}a gradient ${"word ".repeat(60)}`;
  const pieces = excerptOf(text, ["gradient"]);
  expect(pieces.filter(([, wanted]) => wanted)).toEqual([["gradient", true]]);
  expect(pieces.map(([piece]) => piece).join("")).toMatch(/^… word .* gradient .* …$/);
});
