// The pictures of docs/, as they are.
import { readdirSync, readFileSync } from "node:fs";
import type { APIRoute } from "astro";

const FOLDER = new URL("../docs/", `file://${process.cwd()}/`);

export const getStaticPaths = () =>
  readdirSync(FOLDER)
    .filter((file) => file.endsWith(".png"))
    .map((file) => ({ params: { name: file.slice(0, -".png".length) } }));

export const GET: APIRoute = ({ params }) => new Response(Uint8Array.from(readFileSync(new URL(`${params["name"]}.png`, FOLDER))));
