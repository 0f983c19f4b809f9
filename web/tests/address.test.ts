// Addresses for others: who can open them, and what they carry.
import { describe, expect, it } from "vitest";
import { fromAddress, inAddress, isReachable } from "../src/lib/address";

describe("an address", () => {
  it.each([
    ["https:", "somebody.github.io", true],
    ["http:", "127.0.0.1", false],
    ["http:", "localhost", false],
    ["http:", "[::1]", false],
    ["file:", "", false],
  ])("%s//%s", (protocol, hostname, reachable) => {
    expect(isReachable({ protocol, hostname })).toBe(reachable);
  });

  it("carries a text whole, in letters that need no escape", async () => {
    const text = JSON.stringify({ title: "Größe & <b>?", losses: Array.from({ length: 300 }, (_, i) => 5.5 - i / 100) });
    const packed = await inAddress(text);
    expect(packed).toMatch(/^[\w-]+$/);
    expect(await fromAddress(packed, text.length * 2)).toBe(text);
  });

  it("does not unpack more than it may", async () => {
    const packed = await inAddress("a".repeat(1_000_000));
    await expect(fromAddress(packed, 1000)).rejects.toThrow("more than it may");
  });
});
