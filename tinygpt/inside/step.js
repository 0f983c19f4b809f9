"use strict";
// A step: its shelf, its line of time, its ops, and of the chosen one everything there is to say.
const step = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1200, HEIGHT = 420, LINE = 90;
const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const size = (bytes) => (bytes < 1e6 ? `${number(bytes / 1e3)} KB` : `${number(bytes / 1e6)} MB`);
const shape = (dims) => dims.join(" × ");
let chosen = 0, language = "NumPy";

function element(parent, name, attributes = {}, text = "") {
  const made = parent.namespaceURI === SVG || name === "rect" ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

function colour(slot) {
  if (slot.kind !== "temp") return "kept";
  if (slot.name.startsWith("scratch")) return "scratch";
  return step.ops[slot.first].phase;
}

const x = (op) => (WIDTH * op) / step.ops.length;
const boxes = [];

function drawShelf() {
  const shelf = at("shelf");
  shelf.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  shelf.setAttribute("preserveAspectRatio", "none");
  shelf.style.height = "clamp(14rem, 42vw, 28rem)";
  const y = (place) => HEIGHT - (HEIGHT * place) / step.arena;
  for (const slot of step.slots) {
    const box = element(shelf, "rect", {
      class: colour(slot), x: x(slot.first), width: x(slot.last + 1) - x(slot.first),
      y: y(slot.start + slot.size), height: Math.max(0.5, y(slot.start) - y(slot.start + slot.size)),
    });
    element(box, "title", {}, `${slot.name}, ${shape(slot.shape)}`);
    box.addEventListener("pointerenter", () => {
      const life = slot.kind === "temp" ? `from op ${slot.first} to op ${slot.last}` : "all the time";
      at("hovered").textContent = `${slot.name}, ${shape(slot.shape)}, ${size(4 * slot.size)}, ${life}`;
    });
    boxes.push({ slot, box });
  }
  element(shelf, "rect", { id: "cursor", y: 0, height: HEIGHT });
  for (const drawing of [shelf, at("line")]) {
    drawing.addEventListener("click", (event) => {
      const place = drawing.getBoundingClientRect();
      choose(Math.floor(((event.clientX - place.left) / place.width) * step.ops.length));
    });
  }
}

function drawLine() {
  const timed = step.ops[0].ms !== null, line = at("line");
  const costs = step.ops.map((op) => (timed ? op.ms : op.bytes));
  const most = Math.max(...costs);
  line.setAttribute("viewBox", `0 0 ${WIDTH} ${LINE}`);
  line.setAttribute("preserveAspectRatio", "none");
  line.style.height = "5rem";
  step.ops.forEach((op, i) => {
    const height = (LINE * costs[i]) / most;
    const bar = element(line, "rect", { class: op.phase, x: x(i), width: x(i + 1) - x(i), y: LINE - height, height });
    element(bar, "title", {}, `${i} ${op.kernel}`);
  });
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  at("line-says").textContent = timed
    ? `How long each op takes: ${number(total)} ms in all, measured here (${step.device}).`
    : `How many bytes each op touches: ${size(total)} in all. With --time, how long each takes here.`;
}

function listOps() {
  step.ops.forEach((op, i) => {
    const row = element(at("ops"), "li", { role: "option", id: `op-${i}`, "aria-selected": "false" });
    row.style.setProperty("--tone", `var(--${op.phase})`);
    element(row, "span", {}, String(i));
    const name = element(row, "span", {}, op.kernel);
    element(name, "small", {}, op.writes.map(([tensor]) => tensor).join(", "));
    element(row, "span", {}, op.ms === null ? size(op.bytes) : `${number(1000 * op.ms)} µs`);
    row.addEventListener("click", () => choose(i));
  });
}

function choose(i, scroll = true) {
  at(`op-${chosen}`).setAttribute("aria-selected", "false");
  chosen = Math.max(0, Math.min(step.ops.length - 1, i));
  const op = step.ops[chosen], row = at(`op-${chosen}`);
  row.setAttribute("aria-selected", "true");
  at("ops").setAttribute("aria-activedescendant", row.id);
  if (scroll) at("ops").scrollTop = row.offsetTop - at("ops").offsetTop - at("ops").clientHeight / 3;
  const cursor = at("cursor");
  cursor.setAttribute("x", x(chosen));
  cursor.setAttribute("width", x(chosen + 1) - x(chosen));
  const touched = new Set([...op.reads, ...op.writes].map(([, , root]) => root));
  for (const { slot, box } of boxes) box.classList.toggle("dim", !touched.has(slot.name));
  at("chosen").textContent = `${chosen} ${op.kernel}`;
  const costs = [op.phase, `${size(op.bytes)} touched`];
  if (op.flops) costs.push(`${number(op.flops / 1e6)} MFLOP`);
  if (op.ms !== null) costs.push(`${number(1000 * op.ms)} µs here`);
  if (op.ms && op.flops) costs.push(`${number(op.flops / op.ms / 1e6)} GFLOP/s`);
  at("costs").textContent = costs.join(" · ");
  const list = at("tensors");
  list.replaceChildren();
  for (const [says, tensors] of [["reads", op.reads], ["writes", op.writes]]) {
    for (const [name, dims] of tensors) {
      element(list, "dt", {}, says);
      element(list, "dd", {}, `${name}, ${shape(dims)}`);
    }
  }
  element(list, "dt", {}, "with");
  element(list, "dd", {}, Object.entries(op.numbers).map(([name, value]) => `${name} ${value}`).join(", "));
  const sources = step.kernels[op.kernel];
  at("about").textContent = sources.about;
  at("tabs").replaceChildren();
  for (const name of Object.keys(sources).filter((key) => key !== "about")) {
    const tab = element(at("tabs"), "button", { role: "tab", type: "button", "aria-controls": "source", "aria-selected": String(name === language) }, name);
    tab.addEventListener("click", () => { language = name; choose(chosen, false); });
  }
  at("source").textContent = sources[language] ?? sources.NumPy;
}

for (const id of ["shelf", "ops"]) {
  at(id).addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(step.ops.length - 1);
    else if (by) choose(chosen + by);
    else return;
    event.preventDefault();
  });
}

document.title = at("title").textContent = step.title;
at("facts").textContent = `${step.ops.length} ops; an arena of ${size(4 * step.arena)}, of which ${size(4 * step.persistent)} are kept from step to step.`;
for (const [name, says] of [["kept", "weights, gradients, optimizer"], ["forward", "forward"], ["backward", "backward"], ["update", "update"], ["scratch", "scratch"]]) {
  element(at("legend"), "span", {}, says).style.setProperty("--tone", `var(--${name})`);
}
drawShelf();
drawLine();
listOps();
choose(0);
