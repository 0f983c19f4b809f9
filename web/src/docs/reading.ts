// What JavaScript adds to a page that is whole without it: copies of code, checked answers, marks, figures that move.
import { note } from "../learn/progress";
import { markChapters, showHowFar } from "../learn/marks";
import { askQuestions } from "../learn/questions";
import { ROOT } from "../lib/root";
import { showFigures } from "../figures/show";

const article = document.querySelector<HTMLElement>("article.prose");
const chapter = article?.dataset["page"] ?? "";
const isChapter = /\/learn\/\d\d-/.test(location.pathname);

if (article) {
  for (const block of article.querySelectorAll<HTMLElement>("figure.code:not(.output)")) addCopy(block);
  showFigures(article);
  if (isChapter) {
    askQuestions(article, chapter);
    // Whoever sees the way on has been through the chapter.
    const end = document.querySelector(".ways");
    if (end) new IntersectionObserver(([seen]) => seen?.isIntersecting && note("read", chapter)).observe(end);
  } else if (location.href.startsWith(`${ROOT}learn/`)) showHowFar(article);
}
markChapters();
addEventListener("learned", markChapters);

function addCopy(block: HTMLElement): void {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", async () => {
    const text = block.querySelector("pre")!.textContent;
    // Of a terminal's, the commands.
    const commands = block.querySelector("[data-language=console]") ? Array.from(text.matchAll(/^\$ (.*)$/gm), ([, line]) => line) : [];
    await navigator.clipboard.writeText(commands.length ? commands.join("\n") : text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}
