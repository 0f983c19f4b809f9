// Calls across a worker's border as promises. Comlink does not fit: there a call whose worker dies never ends, every
// stream of events needs a channel of its own, and nothing takes a call back.

/** What a method has of its caller. */
export interface Line<Event> {
  tell(event: Event): void;
  signal: AbortSignal; // the caller wants no more of it
}

interface Options<Event> {
  heard?: (event: Event) => void;
  signal?: AbortSignal;
  transfer?: Transferable[];
}

/** The same methods, called from the other side. */
export type Remote<Methods> = {
  [Name in keyof Methods]: Methods[Name] extends (asked: infer Asked, line: Line<infer Event>) => infer Answer
    ? (
        ...given: unknown extends Asked ? [asked?: undefined, options?: Options<Event>] : [asked: Asked, options?: Options<Event>]
      ) => Promise<Awaited<Answer>>
    : never;
};

type ToWorker = { id: number; name: string; asked: unknown } | { id: number; cancel: true };
type FromWorker = { id: number; event: unknown } | { id: number; answer: unknown } | { id: number; fault: { message: string } };

/** The worker is gone: whoever ended it has said so. */
export class Gone extends Error {}

interface Waiting {
  heard: (event: never) => void;
  resolve(answer: unknown): void;
  reject(error: Error): void;
}

/** The page's side. `end` fails whatever is not answered yet. */
export function callsTo<Methods>(worker: Worker): { calls: Remote<Methods>; end(): void } {
  const waiting = new Map<number, Waiting>();
  let made = 0;
  worker.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    const one = waiting.get(data.id);
    if ("event" in data) return one?.heard(data.event as never);
    waiting.delete(data.id);
    if ("fault" in data) one?.reject(Object.assign(new Error(), data.fault));
    else one?.resolve(data.answer);
  };
  const call = (name: string, asked: unknown, { heard = () => undefined, signal, transfer = [] }: Options<never> = {}) =>
    new Promise((resolve, reject) => {
      const id = ++made;
      waiting.set(id, { heard, resolve, reject });
      worker.postMessage({ id, name, asked } satisfies ToWorker, transfer);
      const cancel = (): void => worker.postMessage({ id, cancel: true } satisfies ToWorker);
      if (signal?.aborted) cancel();
      signal?.addEventListener("abort", cancel, { once: true });
    });
  const get = (_: object, name: string) => (asked: unknown, options?: Options<never>) => call(name, asked, options);
  const end = (): void => {
    for (const one of waiting.values()) one.reject(new Gone("the worker is gone"));
    waiting.clear();
  };
  return { calls: new Proxy({}, { get }) as Remote<Methods>, end };
}

const transfers = new WeakMap<object, Transferable[]>();

/** An answer whose buffers move to the page. */
export function moving<Answer extends object>(answer: Answer, ...buffers: Transferable[]): Answer {
  transfers.set(answer, buffers);
  return answer;
}

/** The worker's side. `fault` makes of an error what the page is told. */
export function answerCalls(methods: object, ready: Promise<unknown>, fault: (error: unknown) => { message: string }): void {
  const underWay = new Map<number, AbortController>();
  onmessage = async ({ data }: MessageEvent<ToWorker>) => {
    const { id } = data;
    if ("cancel" in data) return underWay.get(id)?.abort();
    const control = new AbortController();
    underWay.set(id, control);
    try {
      await ready;
      const method = methods[data.name as never] as (asked: unknown, line: Line<unknown>) => unknown;
      const answer = await method(data.asked, { tell: (event) => postMessage({ id, event }), signal: control.signal });
      postMessage({ id, answer } satisfies FromWorker, { transfer: transfers.get(answer as object) ?? [] });
    } catch (error) {
      postMessage({ id, fault: fault(error) } satisfies FromWorker);
    }
    underWay.delete(id);
  };
}
