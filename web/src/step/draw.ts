// Fetches a step and lets it be drawn by the script that draws the page of `tinygpt program --html`.
import drawing from "../generated/step.js?url&no-inline";
import { ROOT } from "../lib/root";
import { unpacked } from "../lib/unpacked";

async function draw(place: HTMLElement): Promise<void> {
  const said = place.querySelector("[role=status]")!;
  try {
    const data = document.createElement("script");
    data.type = "application/json";
    data.id = "data";
    data.textContent = await unpacked(ROOT + place.dataset["file"]!);
    const script = Object.assign(document.createElement("script"), { src: drawing });
    document.body.append(data, script);
    said.remove();
  } catch {
    said.textContent = "The step cannot be fetched: there is no network, and it is not in this browser yet.";
  }
}

const place = document.querySelector<HTMLElement>("[data-file]");
if (place) void draw(place);
