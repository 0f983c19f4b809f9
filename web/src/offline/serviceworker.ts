// Keeps the site for when there is no network, and adds to all that it serves the headers that a host may not send.
// A classic script without imports: tinygpt/site/hosting.py strips its types and puts BUILD in front of it.

interface Build {
  version: string; // a digest of all the site's files
  shell: Record<string, string>; // what the page itself is made of: digests, by path below the root; a folder ends in a slash
  later: Record<string, string>; // what is read, in the same way: kept once this version is in charge
  addressed: string[]; // kernels, texts, models: "path?digest", kept when first used
  headers: Record<string, string>;
}
declare const BUILD: Build;

interface Lasting extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Asked extends Lasting {
  request: Request;
  respondWith(answer: Promise<Response>): void;
}
interface WorkerScope {
  registration: ServiceWorkerRegistration;
  clients: { claim(): Promise<void> };
  addEventListener(type: "install" | "activate" | "message", listener: (event: Lasting) => void): void;
  addEventListener(type: "fetch", listener: (event: Asked) => void): void;
}

const worker = self as unknown as WorkerScope;
const PREFIX = "tinygpt ";
const SHELL = PREFIX + BUILD.version; // complete, or not there
const KEPT = `${PREFIX}kept`; // by addresses that say what they hold, so for every version
const PATIENCE = 4000; // ms for a network that may not answer

const root = worker.registration.scope;
const isSource = (url: string): boolean => url.startsWith(`${root}source/`);
const isAddressed = (url: string): boolean => /\?[0-9a-f]{16}$/.test(url);

/** Every file as it was built, or none: a host in the middle of an update has not all of them. */
async function install(): Promise<void> {
  const shell = await caches.open(SHELL);
  const one = async ([path, integrity]: [string, string]): Promise<void> => {
    const answer = await fetch(root + path, { integrity, cache: "no-cache" });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    await shell.put(root + path, answer);
  };
  await Promise.all(Object.entries(BUILD.shell).map(one));
}

/** Pages to read, once this version is in charge: whoever came to train does not wait for them. */
let reading: Promise<void> | null = null;
async function keepReading(): Promise<void> {
  const shell = await caches.open(SHELL);
  for (const [path, integrity] of Object.entries(BUILD.later)) {
    if (await shell.match(root + path)) continue;
    const answer = await fetch(root + path, { integrity, cache: "no-cache" });
    if (answer.ok) await shell.put(root + path, answer);
  }
}

/** No page of another version is open any more. */
async function activate(): Promise<void> {
  const names = (await caches.keys()).filter((name) => name.startsWith(PREFIX) && name !== SHELL && name !== KEPT);
  await Promise.all(names.map((name) => caches.delete(name)));
  const known = new Set(BUILD.addressed.map((address) => root + address));
  const kept = await caches.open(KEPT);
  for (const { url } of await kept.keys()) if ((isAddressed(url) && !known.has(url)) || isSource(url)) await kept.delete(url);
  await worker.clients.claim();
}

function dressed(answer: Response): Response {
  if (answer.type === "opaqueredirect" || answer.type === "error") return answer;
  const headers = new Headers(answer.headers);
  for (const [name, value] of Object.entries(BUILD.headers)) if (!headers.has(name)) headers.set(name, value);
  const { status, statusText } = answer;
  return new Response(answer.body, { status, statusText, headers });
}

/** Of this version, or of any by an address that says what it is. */
async function known(url: string): Promise<Response | undefined> {
  return (await caches.match(url, { cacheName: SHELL })) ?? (await caches.match(url, { cacheName: KEPT }));
}

/** What cannot change under its address. */
async function lasting(request: Request): Promise<Response> {
  const before = await known(request.url);
  if (before) return before;
  const answer = await fetch(request);
  if (answer.ok && isAddressed(request.url)) await keep(request.url, answer.clone());
  return answer;
}

/** What may have changed: from the network, so that a new version is seen at once; else as it was. */
async function latest(request: Request): Promise<Response> {
  const url = request.url.replace(/[?#].*$/, "");
  const before = await known(url);
  const asked = fetch(request, { cache: "no-cache" }); // hosts may state no age, and a browser guesses one
  const answer = await (before ? Promise.race([asked.catch(() => null), late()]) : asked);
  if (!answer || !(answer.ok || answer.type === "opaqueredirect")) return before ?? answer ?? Response.error();
  const mayKeep =
    request.mode !== "navigate" ? !(url.slice(root.length) in BUILD.shell) && !(url.slice(root.length) in BUILD.later) : isSource(url);
  if (answer.ok && mayKeep) await keep(url, answer.clone());
  return answer;
}

function late(): Promise<null> {
  return new Promise((resolve) => setTimeout(resolve, PATIENCE, null));
}

/** Where there is room. */
async function keep(url: string, answer: Response): Promise<void> {
  try {
    await (await caches.open(KEPT)).put(url, answer);
  } catch {
    // It is fetched again the next time.
  }
}

/** A host that has this site no more, or another one, is left alone from the next visit on. */
async function leaveWhereUnwanted(): Promise<void> {
  const { status } = await fetch(`${root}sw.js`, { method: "HEAD", cache: "no-store" });
  if (status !== 404 && status !== 410) return;
  await worker.registration.unregister();
  for (const name of await caches.keys()) if (name.startsWith(PREFIX)) await caches.delete(name);
}

worker.addEventListener("install", (event) => event.waitUntil(install()));
worker.addEventListener("activate", (event) => event.waitUntil(activate()));
worker.addEventListener("message", (event) => {
  reading ??= keepReading()
    .catch(() => undefined) // the network is gone: the next page asks again
    .finally(() => (reading = null));
  event.waitUntil(reading);
});
worker.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || !request.url.startsWith(root)) return;
  const hashed = request.url.startsWith(`${root}_astro/`) || isAddressed(request.url);
  event.respondWith((hashed ? lasting(request) : latest(request)).then(dressed));
  if (request.mode === "navigate") event.waitUntil(leaveWhereUnwanted().catch(() => undefined));
});
