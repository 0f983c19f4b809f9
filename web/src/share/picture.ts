// A run's film as an animated picture: what it wrote, step by step, over the curve of its loss.
import { applyPalette, GIFEncoder, quantize } from "gifenc";
import type { Life, Point } from "../worker/protocol.ts";
import { count, loss, printable } from "../lib/format.ts";

export const [WIDTH, HEIGHT] = [960, 600];
const [EDGE, CURVE] = [56, 96]; // pixels: around everything; the height of the curve
const COLOURS = 32;
const [PAUSE, LAST] = [1100, 4000]; // ms that a frame, and the last one, are seen
const LINES = 7;

/** How the page looks, from its own tokens. */
export interface Look {
  paper: string;
  ink: string;
  muted: string;
  hot: string;
  warm: string;
  serif: string;
  sans: string;
}

export function pause(life: Life, frame: number): number {
  return frame === life.film.length - 1 ? LAST : PAUSE;
}

export function draw(brush: CanvasRenderingContext2D, life: Life, frame: number, look: Look): void {
  const [step, text] = life.film[frame]!;
  const last = Math.max(life.film.at(-1)![0], life.history.at(-1)?.[0] ?? 1, 1);
  brush.fillStyle = look.paper;
  brush.fillRect(0, 0, WIDTH, HEIGHT);
  brush.textBaseline = "alphabetic";
  brush.fillStyle = look.muted;
  brush.font = `400 20px ${look.sans}`;
  brush.fillText(shortened(brush, life.title, WIDTH - 2 * EDGE - 360), EDGE, EDGE);
  const reached = life.history.findLast(([when]) => when <= step)?.[1];
  const told = `step ${count(step)} of ${count(last)}${reached === undefined ? "" : ` · loss ${loss(reached)}`}`;
  brush.textAlign = "right";
  brush.fillText(told, WIDTH - EDGE, EDGE);
  brush.textAlign = "left";
  brush.fillStyle = look.ink;
  brush.font = `400 32px ${look.serif}`;
  lines(brush, printable(text), WIDTH - 2 * EDGE).forEach((line, i) => brush.fillText(line, EDGE, EDGE + 68 + 46 * i));
  curve(brush, life.history, step, last, look);
  brush.fillStyle = look.muted;
  brush.font = `400 16px ${look.sans}`;
  brush.fillText(`${count(life.parameters)} numbers, trained with TinyGPT`, EDGE, HEIGHT - 20);
}

/** The loss over the root of the steps, as everywhere; what is still to come is pale. */
function curve(brush: CanvasRenderingContext2D, history: Point[], step: number, last: number, look: Look): void {
  if (history.length < 2) return;
  const losses = history.map(([, value]) => value);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const bottom = HEIGHT - EDGE;
  const x = (at: number): number => EDGE + (WIDTH - 2 * EDGE) * Math.sqrt(at / last);
  const y = (value: number): number => bottom - CURVE * ((value - low) / (high - low || 1));
  const path = (points: Point[]): void => {
    brush.beginPath();
    for (const [at, value] of points) brush.lineTo(x(at), y(value));
  };
  path(history);
  brush.lineWidth = 2;
  brush.strokeStyle = look.warm;
  brush.stroke();
  const done = history.filter(([at]) => at <= step);
  path(done);
  brush.lineWidth = 3;
  brush.strokeStyle = look.hot;
  brush.stroke();
  const [at, value] = done.at(-1) ?? [0, high];
  brush.beginPath();
  brush.arc(x(at), y(value), 7, 0, 2 * Math.PI);
  brush.fillStyle = look.hot;
  brush.fill();
}

/** As many lines as there is room for, broken between words, or within what is longer than a line. */
function lines(brush: CanvasRenderingContext2D, text: string, width: number): string[] {
  const found: string[] = [];
  for (const paragraph of text.split("\n")) {
    let line = "";
    for (const word of paragraph.match(/\s*\S+|\s+$/g) ?? []) {
      if (line && brush.measureText(line + word).width > width) {
        found.push(line);
        line = "";
      }
      for (const letter of line ? word : word.trimStart()) {
        if (brush.measureText(line + letter).width > width) {
          found.push(line);
          line = "";
        }
        line += letter;
      }
    }
    found.push(line);
  }
  return found.slice(0, LINES);
}

function shortened(brush: CanvasRenderingContext2D, text: string, width: number): string {
  if (brush.measureText(text).width <= width) return text;
  let short = text;
  while (short && brush.measureText(`${short}…`).width > width) short = short.slice(0, -1);
  return `${short}…`;
}

/** All frames, again and again. */
export function gifOf(life: Life, look: Look): Uint8Array<ArrayBuffer> {
  const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
  const brush = canvas.getContext("2d", { willReadFrequently: true }) as unknown as CanvasRenderingContext2D;
  const gif = GIFEncoder();
  life.film.forEach((_, frame) => {
    draw(brush, life, frame, look);
    const { data } = brush.getImageData(0, 0, WIDTH, HEIGHT);
    const palette = quantize(data, COLOURS);
    gif.writeFrame(applyPalette(data, palette), WIDTH, HEIGHT, { palette, delay: pause(life, frame), repeat: 0 });
  });
  gif.finish();
  return gif.bytes();
}

const PLAIN: Look = {
  paper: "#fbf8f1",
  ink: "#1c1a15",
  muted: "#625d51",
  hot: "#b04a1e",
  warm: "#f0c9a4",
  serif: "Georgia, serif",
  sans: "Arial, sans-serif",
};

/** What it writes at the end, and the whole curve. */
export async function pictureOf(life: Life): Promise<Blob> {
  const canvas = new OffscreenCanvas(WIDTH, HEIGHT);
  const film = life.film.length ? life.film : [[life.history.at(-1)?.[0] ?? 0, ""] as [number, string]];
  draw(canvas.getContext("2d") as unknown as CanvasRenderingContext2D, { ...life, film }, film.length - 1, PLAIN);
  return canvas.convertToBlob({ type: "image/png" });
}
