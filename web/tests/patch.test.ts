// Edits as patches: made, applied, and as the package's own are.
import { describe, expect, it } from "vitest";
import facts from "../src/generated/labs.json";
import { aboutOf, applied, firstChange, labelOf, patchOf, sizes } from "../src/lab/patch";
import { type Sources, texts } from "../src/lab/sources";

const stated = facts as Sources;
const originals = texts(stated);

describe("an edit as a patch", () => {
  it.each(Object.entries({ ...stated.ready, ...stated.mutants }))(
    "%s of the package applies, and is made again of what it changes",
    (_, patch) => {
      const changed = applied(patch, originals);
      expect(sizes(changed, originals).length).toBe(Object.keys(changed).length);
      const again = patchOf(changed, originals, aboutOf(patch));
      expect(applied(again, originals)).toEqual(changed);
      expect(aboutOf(again)).toBe(aboutOf(patch));
    },
  );

  it("finds lines that moved and none that changed", () => {
    const before = "a\nb\nc\nd\ne\n";
    const patch = patchOf({ "core/x.py": "a\nb\nC\nd\ne\n" }, { "core/x.py": before }, "Why.");
    expect(patch).toBe("Why.\n\n--- a/tinygpt/core/x.py\n+++ b/tinygpt/core/x.py\n@@ -1,5 +1,5 @@\n a\n b\n-c\n+C\n d\n e\n");
    expect(applied(patch, { "core/x.py": `new\n${before}` })).toEqual({ "core/x.py": "new\na\nb\nC\nd\ne\n" });
    expect(() => applied(patch, { "core/x.py": "a\nb\nx\nd\ne\n" })).toThrow("core/x.py has changed");
    expect(() => applied(patch, {})).toThrow("The patch changes core/x.py, which cannot be edited here.");
    expect(() => applied("nothing at all", {})).toThrow("changes nothing");
  });

  it("has a part for each file that differs, and is nothing where none does", () => {
    const two = patchOf({ "b.py": "x", "a.py": "1\n" }, { "a.py": "2\n", "b.py": "y\n" }, "");
    expect(two.match(/^--- .*$/gm)).toEqual(["--- a/tinygpt/a.py", "--- a/tinygpt/b.py"]);
    expect(applied(two, { "a.py": "2\n", "b.py": "y\n" })).toEqual({ "a.py": "1\n", "b.py": "x\n" });
    expect(patchOf({ "a.py": "2\n" }, { "a.py": "2\n" }, "About")).toBe("");
    expect(firstChange("a\nb\n", "a\nc\n")).toBe(2);
  });

  it("has the terminal's label", async () => {
    expect(await labelOf("mine", "hello\n")).toBe("mine 5891b5b522d5");
  });
});
