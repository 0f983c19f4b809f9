// How the page's charts look and live: axes in its own colours, drawn anew when the box or the colours change.
import uPlot from "uplot";

/** As the style has it just now, light or dark. */
export const colour = (element: HTMLElement): string => getComputedStyle(element).color;
export const faint = (element: HTMLElement): string => `color-mix(in srgb, ${colour(element)} 30%, transparent)`;

export const sizeOf = (box: HTMLElement) => ({ width: box.clientWidth, height: box.clientHeight });

/** An axis in the colour of the box. */
export function axis(box: HTMLElement, label: string): uPlot.Axis {
  const font = "12px system-ui, sans-serif";
  return {
    label,
    labelSize: 18,
    labelFont: font,
    font,
    stroke: () => colour(box),
    grid: { stroke: () => faint(box), width: 0.5 },
    ticks: { show: false },
  };
}

/** Keeps a plot in step with its box and with the colours. What is returned ends it, and the plot. */
export function kept(plot: uPlot, box: HTMLElement): () => void {
  const resized = new ResizeObserver(() => plot.setSize(sizeOf(box)));
  resized.observe(box);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => plot.redraw();
  scheme.addEventListener("change", repaint);
  return () => {
    resized.disconnect();
    scheme.removeEventListener("change", repaint);
    plot.destroy();
  };
}
