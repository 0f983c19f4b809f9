// A question becomes a field whose answer is checked; what explains it opens when it is right, or when asked for.
import { asked, judge } from "./judge";
import { note, progress } from "./progress";

export function askQuestions(article: HTMLElement, chapter: string): void {
  for (const details of article.querySelectorAll<HTMLDetailsElement>("details[data-answer]")) ask(details, chapter);
}

function ask(details: HTMLDetailsElement, chapter: string): void {
  const { answer = "", hint } = details.dataset;
  const summary = details.querySelector("summary")!;
  const box = document.createElement("section");
  box.className = "question";
  box.innerHTML = `<p></p><form novalidate><label>Your answer <input type="text" inputmode="decimal" autocomplete="off" size="12"></label>
    <button type="submit">Check</button><small></small></form><p role="status"></p>`;
  const [question, said] = box.querySelectorAll("p") as unknown as [HTMLElement, HTMLElement];
  const input = box.querySelector("input")!;
  question.append(...summary.childNodes);
  box.querySelector("small")!.textContent = asked(answer);
  summary.textContent = "Show the explanation";
  details.replaceWith(box);
  box.append(details);

  const show = (right: boolean, says: string): void => {
    box.dataset["right"] = String(right);
    said.textContent = says;
    input.setAttribute("aria-invalid", String(!right));
  };
  box.querySelector("form")!.addEventListener("submit", (event) => {
    event.preventDefault();
    const verdict = judge(input.value, answer);
    show(verdict.right, verdict.right ? `${verdict.says} The explanation is below.` : [verdict.says, hint].filter(Boolean).join(" "));
    if (!verdict.right) return input.select();
    details.open = true;
    note("answered", chapter);
    note("read", chapter);
  });
  input.addEventListener("input", () => {
    if (box.dataset["right"] === "false") show(true, "");
    delete box.dataset["right"];
  });
  if (progress().answered.includes(chapter)) said.textContent = "You have answered this one.";
}
