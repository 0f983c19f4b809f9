// What of the trail was done, shown where its chapters are listed.
import { forget, progress } from "./progress";

const CHAPTER = /\/learn\/(\d\d-[^/#]+)\/(?:#.*)?$/;

/** In the list at the side, and in the table of the trail's first page. */
export function markChapters(): void {
  const { read, answered } = progress();
  for (const link of document.querySelectorAll<HTMLAnchorElement>("a[data-chapter], .prose[data-page=''] td a")) {
    const name = link.dataset["chapter"] ?? CHAPTER.exec(link.href)?.[1];
    if (!name) continue;
    const mark = link.parentElement!.querySelector<HTMLElement>(".mark") ?? link.parentElement!.appendChild(document.createElement("span"));
    mark.className = "mark";
    mark.dataset["state"] = answered.includes(name) ? "answered" : read.includes(name) ? "read" : "";
    mark.textContent = { answered: "answered", read: "read", "": "" }[mark.dataset["state"]] ?? "";
  }
}

/** On the trail's first page: how far one has come, and where to continue. */
export function showHowFar(article: HTMLElement): void {
  const chapters = Array.from(article.querySelectorAll<HTMLAnchorElement>("td a")).filter(({ href }) => CHAPTER.test(href));
  const table = article.querySelector(".wide");
  if (!table || chapters.length === 0) return;
  const box = document.createElement("section");
  box.className = "far";
  table.before(box);
  const draw = (): void => {
    const { read, answered } = progress();
    const isRead = ({ href }: HTMLAnchorElement): boolean => read.includes(CHAPTER.exec(href)![1]!);
    const next = chapters[chapters.findLastIndex(isRead) + 1] ?? chapters.find((chapter) => !isRead(chapter)); // chapters may be skipped
    box.hidden = read.length + answered.length === 0;
    box.replaceChildren();
    const bar = Object.assign(document.createElement("progress"), { max: chapters.length, value: read.length });
    bar.setAttribute("aria-label", "Chapters read");
    const said = document.createElement("p");
    said.textContent = `${read.length} of ${chapters.length} chapters read, ${answered.length} ${answered.length === 1 ? "question" : "questions"} answered. `;
    if (next)
      said.append("Continue with ", Object.assign(document.createElement("a"), { href: next.href, textContent: next.textContent }), ".");
    const clear = Object.assign(document.createElement("button"), {
      type: "button",
      className: "plain",
      textContent: "Forget my progress",
    });
    clear.addEventListener("click", () => {
      if (confirm("Forget which chapters you have read and which questions you have answered?")) forget();
    });
    box.append(bar, said, clear);
  };
  draw();
  addEventListener("learned", draw);
}
