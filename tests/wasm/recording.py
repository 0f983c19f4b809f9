"""MicroPython in Chromium, with every call across its border recorded and held to core/tab/protocol.pyi."""

import json

from described import check_recorded

START = """
const { startPython, bridge } = await import("/worker/python.ts");
const files = await (await fetch("/python.json")).json();
globalThis.plain ??= await startPython(files, "/micropython/micropython.wasm");
const recorded = [];
const plainValue = (value) => (value === null || ["string", "number", "boolean"].includes(typeof value));
const shown = (value) => (value === undefined ? null : plainValue(value) ? value : { bytes: true });
const isPage = (value) => value instanceof Object && Object.getPrototypeOf(value) === Object.prototype;
// An object whose calls are recorded under its path in the description.
const watched = (target, path) => new Proxy(isPage(target) ? target : {}, {
  get: (_, name) => {
    const found = target[name];
    if (name === "then" || typeof found !== "function") return name === "then" ? undefined : found;
    return (...given) => {
      const told = (answer) => {
        const text = [...given, answer].reduce((sum, value) => sum + (typeof value === "string" ? value.length : 0), 0);
        if (text < 1e6) recorded.push([[...path, name], given.map(shown), shown(answer)]);
        const made = plainValue(answer ?? null) || ArrayBuffer.isView(answer);
        return made ? answer : watched(answer, [...path, [name, null]]);
      };
      const passed = given.map((value, i) => (isPage(value) ? watched(value, [...path, [name, i]]) : value));
      const answer = found.apply(target, passed);
      return typeof answer?.then === "function" ? answer.then(told) : told(answer);
    };
  },
});
const python = { run: plain.run };
for (const name of Object.keys(plain)) if (name !== "run") python[name] = watched(plain[name], [name]);
"""


def evaluate(chromium, *parts, **values):
    """What the code returns; it has `python`, and `bridge`."""
    stated = "".join(f"const {name} = {json.dumps(value)};\n" for name, value in values.items())
    code = f"{START}{stated}const value = await (async () => {{{''.join(parts)}}})(); return {{ value, recorded }};"
    made = chromium.ask("evaluate", code=code)[0]["value"]
    check_recorded(made["recorded"])
    return made.get("value")
