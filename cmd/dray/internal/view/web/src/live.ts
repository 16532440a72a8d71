import type { Delta, World } from "./model";
import { applied } from "./model";

// What the server sends while the page is open, and what was.

export interface Listener {
  delta(d: Delta): void;
  whole(): void;
  /** lost says why nothing new comes; empty if it does. */
  lost(why: string, live: boolean): void;
}

/** follow reads events, and comes back after a pause if the connection is lost. */
export function follow(revision: () => number, listener: Listener): void {
  let pause = 500, hidden: number | undefined, events: EventSource | undefined;
  const open = (): void => {
    events?.close();
    events = new EventSource("api/events?revision=" + revision());
    events.addEventListener("status", (e) => {
      const status = JSON.parse((e as MessageEvent<string>).data) as { lost: string; live: boolean };
      pause = 500;
      listener.lost(status.lost && "The cluster does not answer: " + status.lost, status.live);
    });
    events.addEventListener("delta", (e) => listener.delta(JSON.parse((e as MessageEvent<string>).data) as Delta));
    events.addEventListener("whole", () => listener.whole());
    events.addEventListener("error", () => { // a browser would ask with the old revision again
      events?.close();
      listener.lost("dray view does not answer: it may have ended", true);
      setTimeout(open, pause);
      pause = Math.min(pause * 2, 10_000);
    });
  };
  open();
  // A browser has six connections for a server: pages that nobody looks at leave theirs to others.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden) hidden = setTimeout(() => events?.close(), patience);
    else if (events?.readyState === EventSource.CLOSED) open();
  });
}

const patience = 60_000;

interface Step { time: number; before: World; after: World; size: number }

const longest = 15 * 60_000, largest = 4_000_000;

/** History is the last fifteen minutes. Worlds share what did not change; how much changed is bounded. */
export class History {
  private steps: Step[] = [];
  private size = 0;

  get length(): number { return this.steps.length; }

  add(before: World, after: World, size: number): void {
    this.steps.push({ time: Date.now(), before, after, size });
    this.size += size;
    while (this.steps.length > 600 || this.size > largest || (this.steps.length && this.steps[0].time < Date.now() - longest)) this.size -= this.steps.shift()!.size;
  }

  /** at is the world after so many steps, from 0; the last is the one of now. */
  at(n: number): { world: World; time: number } | undefined {
    if (n === 0 && this.steps.length) return { world: this.steps[0].before, time: this.steps[0].time };
    const step = this.steps[n - 1];
    return step && { world: step.after, time: step.time };
  }
}

export const apply = (world: World, d: Delta): World | undefined => (d.from === world.revision ? applied(world, d) : undefined);
