// Figures that move, in texts: each is fetched when it comes into view.
import { type Component, mount } from "svelte";

const FIGURES = import.meta.glob<{ default: Component }>("./*.svelte");

export function showFigures(article: HTMLElement): void {
  const coming = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) {
        if (!isIntersecting) continue;
        coming.unobserve(target);
        void show(target as HTMLElement);
      }
    },
    { rootMargin: "300px" },
  );
  for (const place of article.querySelectorAll("[data-figure]")) coming.observe(place);
}

async function show(place: HTMLElement): Promise<void> {
  const load = FIGURES[`./${place.dataset["figure"]}.svelte`];
  if (load) mount((await load()).default, { target: place });
}
