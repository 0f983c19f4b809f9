// The notebooks of the first chapters, to be downloaded.
import type { APIRoute } from "astro";
import { contentOf } from "../../docs/addresses";
import shown from "../../generated/sources.json";

const FOLDER = "docs/learn/notebooks/";

export const getStaticPaths = () =>
  shown
    .filter((path) => path.startsWith(FOLDER) && path.endsWith(".ipynb"))
    .map((path) => ({ params: { name: path.slice(FOLDER.length, -".ipynb".length) } }));

export const GET: APIRoute = ({ params }) => new Response(contentOf(`${FOLDER}${params["name"]}.ipynb`));
