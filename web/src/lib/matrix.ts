// A matrix as a picture, a point for each number, in the page's own colours.
type Colour = [red: number, green: number, blue: number];

const LARGEST = 512; // rows, and columns: of more, every n-th is drawn

function parsed(colour: string): Colour {
  const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return [red, green, blue];
}

/** Numbers from the canvas's background at 0 to its colour at `top`; below 0 to its text-decoration-color. NaN is left clear. */
export function paint(
  canvas: HTMLCanvasElement,
  rows: number,
  columns: number,
  top: number,
  at: (row: number, column: number) => number,
): void {
  const [down, right] = [Math.ceil(rows / LARGEST), Math.ceil(columns / LARGEST)];
  const [height, width] = [Math.ceil(rows / down), Math.ceil(columns / right)];
  const context = canvas.getContext("2d");
  if (!context || width === 0 || height === 0) return;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const { color, backgroundColor, textDecorationColor } = getComputedStyle(canvas);
  const [above, zero, below] = [parsed(color), parsed(backgroundColor), parsed(textDecorationColor)];
  const image = context.createImageData(width, height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const value = at(y * down, x * right);
      if (Number.isNaN(value)) continue;
      const share = Math.min(1, Math.sqrt(Math.abs(value) / (top || 1)));
      const end = value < 0 ? below : above;
      const pixel = 4 * (y * width + x);
      for (let c = 0; c < 3; c++) image.data[pixel + c] = Math.round(zero[c]! + share * (end[c]! - zero[c]!));
      image.data[pixel + 3] = 255;
    }
  context.putImageData(image, 0, 0);
}

/** Calls when the page turns dark or light. */
export function onScheme(repaint: () => void): () => void {
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", repaint);
  return () => scheme.removeEventListener("change", repaint);
}
