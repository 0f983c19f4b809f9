"use strict";
// The page of `tinygpt look`. Whatever comes from a text is set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const inside = data.inside, T = inside.bytes.length, first = data.first;
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const unpacked = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const percent = (p) => `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;
const short = (value) => (value === null || value === undefined ? "–" : Math.abs(value) >= 0.01 && Math.abs(value) < 1e4 ? Number(value.toPrecision(3)).toString() : value === 0 ? "0" : value.toExponential(1));

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function drawn(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const NAMED = { 9: "⇥", 10: "⏎", 13: "␍", 32: "␣" };
const plain = (byte) => byte > 32 && byte < 127;
const nameOf = (byte) => NAMED[byte] ?? (plain(byte) ? String.fromCharCode(byte) : byte.toString(16).toUpperCase().padStart(2, "0"));

// --- the text -----------------------------------------------------------------------------------------------

const MOST_SHOWN = 20000; // bytes before the window
const begin = Math.max(0, first - MOST_SHOWN);
const cells = []; // of the window's bytes
let chosen = T - 1;
let view = "loss";
const views = { loss: "how surprising each byte was" };
if (data.origins) views.origins = "what stands in the text it learned from";

function byteCell(byte, tag = "span") {
  const cell = made(tag);
  if (byte === 10) cell.textContent = "⏎\n";
  else if (byte === 9) cell.textContent = "⇥\t";
  else if (byte === 32 || plain(byte)) cell.textContent = String.fromCharCode(byte);
  else cell.textContent = nameOf(byte);
  if (byte < 32 || byte > 126) cell.className = "odd";
  return cell;
}
function shade(cell, value, tone) {
  cell.style.setProperty("--v", Math.round(100 * Math.min(1, Math.max(0, value))));
  if (tone) cell.style.setProperty("--tone", tone);
}
function shadeText() {
  const every = byId("text").children;
  for (let i = begin; i < data.text.length; i++) {
    const loss = i ? data.losses[i - 1] : null;
    if (view === "loss") shade(every[i - begin], loss === null ? 0 : Math.min(0.7, loss / 8), "var(--heat)");
    else {
      const covered = data.origins.covered[i], known = covered > data.origins.by_chance;
      shade(every[i - begin], known ? Math.min(0.75, 0.3 + covered / 200) : covered / data.origins.by_chance / 12, "var(--red)");
    }
  }
  const mean = data.losses.reduce((sum, loss) => sum + loss, 0) / data.losses.length;
  byId("legend").textContent = view === "loss"
    ? `${data.text.length.toLocaleString()} bytes${begin ? `, of which the last ${(data.text.length - begin).toLocaleString()} are shown` : ""}; mean loss ${mean.toFixed(3)} nats per byte. The stronger, the less expected. The last ${T} can be chosen, with the arrow keys too.`
    : `Strong: stands in a stretch of more than ${data.origins.by_chance} bytes of ${data.origins.source}, longer than chance makes them.`;
}
function showText() {
  const text = byId("text");
  for (let i = begin; i < data.text.length; i++) {
    const cell = byteCell(data.text[i]);
    const loss = i ? `loss ${short(data.losses[i - 1])}` : "the first byte";
    cell.title = `${nameOf(data.text[i])}, byte ${i}: ${loss}`;
    if (i >= first) {
      cell.classList.add("inside");
      cell.id = `byte-${i - first}`;
      cell.setAttribute("role", "option");
      cells.push(cell);
    } else cell.classList.add("outside");
    text.append(cell);
  }
  text.addEventListener("click", (event) => {
    const at = cells.indexOf(event.target);
    if (at >= 0) choose(at);
  });
  text.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -T, End: T, PageUp: -16, PageDown: 16 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    choose(Math.min(T - 1, Math.max(0, chosen + moves[event.key])));
  });
  for (const [name, words] of Object.entries(views)) {
    const radio = made("input", { type: "radio", name: "view", value: name });
    radio.checked = name === view;
    radio.addEventListener("change", () => { view = name; shadeText(); });
    if (Object.keys(views).length > 1) byId("views").append(made("label", {}, radio, ` ${words}`));
  }
  shadeText();
}

// --- the chosen byte ------------------------------------------------------------------------------------------

const next = inside.next.map(unpacked).map((bytes) => new Uint16Array(bytes.buffer));
const stageNames = ["embedding", ...Array.from({ length: inside.lens.length - 1 }, (_, i) => `block ${i}`)];
const BARS = 10;

function choose(place) {
  cells[chosen].removeAttribute("aria-selected");
  chosen = place;
  cells[chosen].setAttribute("aria-selected", "true");
  byId("text").setAttribute("aria-activedescendant", cells[chosen].id);
  const box = byId("text"), at = cells[chosen].offsetTop - box.offsetTop;
  if (at < box.scrollTop || at > box.scrollTop + box.clientHeight - 30) box.scrollTop = at - box.clientHeight / 2;
  byId("chosen").textContent = `${nameOf(inside.bytes[place])} (byte ${first + place})`;
  const follows = place + 1 < T ? inside.bytes[place + 1] : null;
  const order = Array.from(next[place].keys()).sort((a, b) => next[place][b] - next[place][a]).slice(0, BARS);
  if (follows !== null && !order.includes(follows)) order[BARS - 1] = follows;
  byId("next").replaceChildren(...order.map((byte) => {
    const p = next[place][byte] / 65535, bar = made("i");
    bar.style.setProperty("--v", 100 * p);
    return made("li", byte === follows ? { class: "true" } : {}, made("span", {}, made("span", { class: "byte" }, nameOf(byte))), bar, made("span", {}, percent(p)));
  }));
  byId("opinions").replaceChildren(...inside.lens.map((rows, i) => {
    const bytes = rows[place].top.slice(0, 4).map(([byte, p]) => {
      const mark = made("b", byte === follows ? { class: "true", title: percent(p) } : { title: percent(p) }, nameOf(byte));
      shade(mark, p * 0.7);
      return mark;
    });
    return made("li", {}, made("span", {}, stageNames[i]), made("span", {}, ...bytes));
  }));
  for (const id of ["lens", "along"]) {
    for (const old of byId(id).querySelectorAll(".now")) old.classList.remove("now");
    for (const row of byId(id).rows) row.cells[place + 1]?.classList.add("now");
  }
  showLooks();
}

// --- attention ------------------------------------------------------------------------------------------------

const heads = inside.attention.map((layer) => layer.map(unpacked)); // the lower triangle, row by row
let layer = 0, head = 0;
const weightAt = (map, i, j) => map[(i * (i + 1)) / 2 + j] / 255;
const colourOf = (name) => {
  const probe = made("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return [r, g, b];
};
function paint(canvas, width, height, colours) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d"), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    const [colour, alpha] = colours(Math.floor(i / width), i % width);
    image.data.set([...colour, Math.round(255 * alpha)], 4 * i);
  }
  context.putImageData(image, 0, 0);
}
function paintHead(canvas, map) {
  const ink = colourOf("--blue");
  paint(canvas, T, T, (i, j) => [ink, j > i ? 0 : Math.sqrt(weightAt(map, i, j))]);
}
function showHead(l, h, focus) {
  layer = l;
  head = h;
  for (const button of byId("heads").querySelectorAll("button")) {
    const here = Number(button.dataset.layer) === l && Number(button.dataset.head) === h;
    button.setAttribute("aria-checked", here);
    button.tabIndex = here ? 0 : -1;
    if (here && focus) button.focus();
  }
  paintHead(byId("map"), heads[l][h]);
  byId("map").setAttribute("aria-label", `Attention of head ${h} in block ${l}`);
  byId("head-name").textContent = `blocks.${l}.head.${h}`;
  showLooks();
}
function showLooks() {
  if (!heads.length) return;
  byId("looks").replaceChildren(...inside.bytes.slice(0, chosen + 1).map((byte, j) => {
    const cell = byteCell(byte), weight = weightAt(heads[layer][head], chosen, j);
    shade(cell, Math.sqrt(weight), "var(--blue)");
    cell.title = `${nameOf(byte)}: ${percent(weight)}`;
    return cell;
  }));
}
function showHeads() {
  byId("attention").hidden = byId("stream").hidden = !heads.length;
  if (!heads.length) return;
  heads.forEach((maps, l) => {
    const row = made("div", {}, made("span", {}, `block ${l}`));
    maps.forEach((map, h) => {
      const canvas = made("canvas"), button = made("button", { type: "button", role: "radio", "aria-label": `block ${l}, head ${h}` }, canvas);
      button.dataset.layer = l;
      button.dataset.head = h;
      button.title = `blocks.${l}.head.${h}`;
      button.addEventListener("click", () => showHead(l, h));
      paintHead(canvas, map);
      row.append(button);
    });
    byId("heads").append(row);
  });
  byId("heads").addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const [down, right] = moves[event.key];
    const clamp = (value, most) => Math.min(most - 1, Math.max(0, value));
    showHead(clamp(layer + down, heads.length), clamp(head + right, heads[0].length), true);
  });
  byId("map").addEventListener("click", (event) => choose(Math.min(T - 1, Math.floor((T * event.offsetY) / byId("map").clientHeight))));
  byId("map").addEventListener("mousemove", (event) => {
    const i = Math.floor((T * event.offsetY) / byId("map").clientHeight), j = Math.floor((T * event.offsetX) / byId("map").clientWidth);
    if (j > i || i >= T) return;
    byId("head-name").textContent = `blocks.${layer}.head.${head}: ${nameOf(inside.bytes[i])} (${first + i}) looks at ${nameOf(inside.bytes[j])} (${first + j}), ${percent(weightAt(heads[layer][head], i, j))}`;
  });
  showHead(0, 0);
}

// --- lens and stream -------------------------------------------------------------------------------------------

const inputRow = () => made("tr", { class: "input" }, made("th", {}, "reads"), ...inside.bytes.map((byte) => made("td", {}, nameOf(byte))));

function showLens() {
  const rows = inside.lens.map((opinions, i) => {
    const row = made("tr", {}, made("th", { scope: "row" }, stageNames[i]));
    opinions.forEach((opinion, place) => {
      const [byte, p] = opinion.top[0];
      const cell = made("td", { title: opinion.top.map(([one, q]) => `${nameOf(one)} ${percent(q)}`).join("   ") }, nameOf(byte));
      if (place + 1 < T && byte === inside.bytes[place + 1]) cell.className = "true";
      shade(cell, p * 0.7);
      cell.addEventListener("click", () => choose(place));
      row.append(cell);
    });
    return row;
  });
  byId("lens").append(inputRow(), ...rows);
}
function showStream() {
  byId("byte").textContent = nameOf(data.byte);
  byId("along").append(inputRow(), ...inside.cosine.map((values, i) => {
    const row = made("tr", {}, made("th", { scope: "row" }, inside.stages[i]));
    values.forEach((value, place) => {
      const cell = made("td", { class: value < 0 ? "down" : "up", title: `cosine ${short(value)}, ${short(inside.along[i][place])} along it` });
      shade(cell, Math.min(1, 2 * Math.abs(value)));
      row.append(cell);
    });
    return row;
  }));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  byId("norms").append(bars(inside.stages, inside.norms.map(mean), "bar"));
  if (inside.gradients) byId("gradients").append(bars(inside.stages, inside.gradients.map(mean), "other"));
}
function bars(labels, values, kind) {
  const step = 20, height = step * labels.length + 4, most = Math.max(...values) || 1;
  const svg = drawn("svg", { viewBox: `0 0 420 ${height}`, role: "img" });
  labels.forEach((label, i) => {
    const y = i * step + 14;
    svg.append(drawn("text", { x: 92, y, "text-anchor": "end" }, label));
    svg.append(drawn("rect", { class: kind, x: 100, y: y - 10, width: Math.max(1, (250 * values[i]) / most), height: 13, rx: 3 }));
    svg.append(drawn("text", { x: 106 + (250 * values[i]) / most, y }, short(values[i])));
  });
  return svg;
}

// --- weights, origins, tensors --------------------------------------------------------------------------------

function showWeights() {
  const matrices = data.weights.filter((row) => row.singular.length), select = byId("matrix");
  matrices.forEach((row, i) => select.append(made("option", { value: i }, `${row.name} (${row.shape.join(" × ")})`)));
  const show = () => byId("singular").replaceChildren(curve(matrices[Number(select.value)].singular));
  select.addEventListener("change", show);
  select.value = "0";
  show();
  const head = made("tr", {}, ...["parameter", "shape", "norm", "gradient's norm", "largest singular value", "smallest"].map((word, i) => made(i ? "td" : "th", {}, word)));
  byId("parameters").append(head, ...data.weights.map((row) => made("tr", {}, made("th", { scope: "row" }, row.name),
    ...[row.shape.join(" × "), short(row.norm), short(row.gradient), short(row.singular[0]), short(row.singular.at(-1))].map((words) => made("td", {}, words)))));
}
function curve(values) {
  const width = 700, height = 190, left = 46, bottom = 22, most = values[0] || 1, least = Math.max(values.at(-1), most / 1e4);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "singular values, largest first" });
  const x = (i) => left + ((width - left - 8) * i) / Math.max(1, values.length - 1), y = (value) => 8 + ((height - bottom - 8) * Math.log(most / Math.max(value, least))) / (Math.log(most / least) || 1);
  for (const value of [most, Math.sqrt(most * least), least]) {
    svg.append(drawn("line", { class: "axis", x1: left, x2: width - 8, y1: y(value), y2: y(value) }));
    svg.append(drawn("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  svg.append(drawn("polyline", { points: values.map((value, i) => `${x(i).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
  svg.append(drawn("text", { x: left, y: height - 4 }, "1"), drawn("text", { x: width - 8, y: height - 4, "text-anchor": "end" }, `${values.length}`));
  return svg;
}
const inLine = (text) => text.replaceAll("\n", "⏎");
function showOrigins() {
  byId("origins").hidden = !data.origins;
  if (!data.origins) return;
  const { source, bytes, by_chance: limit, remembered, stretches } = data.origins;
  byId("told").textContent = `${percent(remembered)} of these bytes stand in stretches of more than ${limit} bytes of ${source} (${bytes.toLocaleString()} bytes), longer than a text it has not seen shares with it by chance: remembered. The rest it made up. The longest:`;
  byId("stretches").append(...stretches.map((one) => {
    const losses = data.losses.slice(Math.max(0, one.start - 1), one.start + one.length - 1);
    const mean = losses.reduce((sum, loss) => sum + loss, 0) / Math.max(1, losses.length);
    const words = `${one.length} bytes from byte ${one.start}${one.length > limit ? ", remembered" : ""}; mean loss ${mean.toFixed(2)}; in ${source} at ${one.place.toLocaleString()}`;
    return made("li", {}, made("div", { class: "note" }, words), made("q", {}, inLine(one.before), made("mark", {}, inLine(one.text)), inLine(one.behind)));
  }));
}
function showTensors() {
  byId("tensors").hidden = !data.tensors.length;
  byId("watched").replaceChildren(...data.tensors.map((one) => {
    const canvas = made("canvas", { role: "img", "aria-label": one.name }), image = unpacked(one.image), up = colourOf("--blue"), down = colourOf("--red");
    paint(canvas, one.columns, one.rows, (i, j) => {
      const value = image[i * one.columns + j] - 127;
      return [value < 0 ? down : up, Math.min(1, Math.abs(value) / 127)];
    });
    const most = Math.max(...one.bins, 1);
    const svg = drawn("svg", { viewBox: "0 0 320 70", role: "img", "aria-label": `histogram from ${short(one.low)} to ${short(one.high)}` },
      ...one.bins.map((count, i) => drawn("rect", { class: "bar", x: 10 * i + 1, y: 50 - (48 * count) / most, width: 8, height: Math.max(0.5, (48 * count) / most) })),
      drawn("text", { x: 0, y: 66 }, short(one.low)), drawn("text", { x: 320, y: 66, "text-anchor": "end" }, short(one.high)));
    const words = ` ${one.shape.join(" × ")}: norm ${short(one.norm)}, mean ${short(one.mean)}, deviation ${short(one.std)}${one.zeros ? `, ${percent(one.zeros)} zeros` : ""}`;
    return made("figure", {}, made("figcaption", {}, made("b", {}, one.name), words), canvas, svg);
  }));
}

function showFacts() {
  const model = data.model, changed = data.changed ?? [];
  byId("name").textContent = model.name || "a model";
  document.title = `Inside ${model.name || "a model"}`;
  const parts = [model.shape, `${model.parameters.toLocaleString()} parameters`, `${model.steps.toLocaleString()} steps`];
  if (model.val_loss !== null) parts.push(`validation loss ${model.val_loss.toFixed(3)}`);
  if (changed.length) parts.push(`changed: ${changed.join(", ")}`);
  byId("facts").textContent = parts.join(" · ");
}
showFacts();
showText();
showLens();
if (heads.length) showStream();
showHeads();
showWeights();
showOrigins();
showTensors();
choose(T - 1);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (heads.length) {
    heads.forEach((maps, l) => maps.forEach((map, h) => paintHead(byId("heads").querySelector(`[data-layer="${l}"][data-head="${h}"] canvas`), map)));
    paintHead(byId("map"), heads[layer][head]);
  }
  showTensors();
});
