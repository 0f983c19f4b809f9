// Threads that the page makes for its worker. In Firefox a worker must not make its own: `new Worker` waits there for a
// signal that an idle thread waits for too, and where the thread takes it, `new Worker` never returns.
import { type FromThread, type Start, type Thread, threadMain } from "./thread.ts";

type Wish = { id: number; port: MessagePort } | { id: number; port: null }; // a thread that speaks through the port; its end
type Death = { id: number; cause: string };

const SOURCE = `onmessage = ({ data: port }) => {
  const start = (${threadMain})((message) => port.postMessage(message));
  port.onmessage = ({ data }) => start(data);
};`;

/** The page's side: a port for the worker, and what ends its threads. */
export function lendThreads(): { port: MessagePort; end: () => void } {
  const { port1: ours, port2: theirs } = new MessageChannel();
  const threads = new Map<number, Worker>();
  const url = URL.createObjectURL(new Blob([SOURCE], { type: "text/javascript" }));
  const end = (id: number): void => {
    threads.get(id)?.terminate();
    threads.delete(id);
  };
  ours.onmessage = ({ data: { id, port } }: MessageEvent<Wish>) => {
    if (!port) return end(id);
    const thread = new Worker(url);
    threads.set(id, thread);
    thread.onerror = ({ message }) => ours.postMessage({ id, cause: message } satisfies Death);
    thread.postMessage(port, [port]);
  };
  const endAll = (): void => {
    [...threads.keys()].forEach(end);
    URL.revokeObjectURL(url);
  };
  return { port: theirs, end: endAll };
}

/** The worker's side. It keeps every port in sight: Firefox may collect one that nothing but its listener refers to. */
export class Lender {
  private readonly lent = new Map<number, { port: MessagePort; died: (cause: string) => void }>();
  private readonly page: MessagePort;
  private made = 0;

  constructor(page: MessagePort) {
    this.page = page;
    page.onmessage = ({ data: { id, cause } }: MessageEvent<Death>) => this.lent.get(id)?.died(cause || "unknown cause");
  }

  thread(): Thread {
    const id = this.made++;
    const { port1: port, port2: its } = new MessageChannel();
    const one = { port, died: (_cause: string): void => {} };
    this.lent.set(id, one);
    this.page.postMessage({ id, port: its } satisfies Wish, [its]);
    return {
      onMessage: (listener) => (port.onmessage = ({ data }: MessageEvent<FromThread>) => listener(data)),
      onDeath: (listener) => (one.died = listener),
      start: (start: Start) => port.postMessage(start),
      end: () => {
        this.lent.delete(id);
        port.close();
        this.page.postMessage({ id, port: null } satisfies Wish);
      },
    };
  }
}
