import { describe, expect, it } from "vitest";
import { count, duration, loss, printable, sentence, short } from "../src/lib/format";

describe("numbers in words", () => {
  it("groups, shortens and gives losses three digits", () => {
    expect([count(1234567), short(366432), loss(1.6234), loss(null)]).toEqual(["1,234,567", "366K", "1.623", "–"]);
  });

  it("shows a duration as a clock does, and none below zero", () => {
    expect([3700, 61.4, 59.6, -3].map(duration)).toEqual(["1:01:40", "1:01", "1:00", "0:00"]);
  });
});

describe("texts", () => {
  it("makes a sentence of a message, but leaves a name as it is", () => {
    expect(sentence("nothing was kept")).toBe("Nothing was kept.");
    expect(sentence("d_model 30 is odd.")).toBe("d_model 30 is odd.");
  });

  it("shows control characters as dots and keeps lines", () => {
    expect(printable("a\u0000b\tc\nd\u0085")).toBe("a·b·c\nd·");
  });
});
