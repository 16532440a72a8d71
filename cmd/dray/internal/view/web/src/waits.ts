import { count, el, name, refill } from "./dom";
import type { Waiting, World } from "./model";

// The list of what waits. A pod group is one entry, as are pods that are refused for the same reasons.

export const waitKey = (w: Waiting): string => `wait/${w.kind}/${w.namespace}/${w.name}`;

interface Entry { title: string; members: Waiting[] }

export function entries(world: World, find: string): Entry[] {
  const all = new Map<string, Entry>();
  for (const w of world.waiting) {
    if (find && !`${w.namespace}/${w.name} ${w.group ?? ""} ${w.reason ?? ""}`.toLowerCase().includes(find)) continue;
    const key = w.group ? "group " + w.group : w.answer >= 0 ? "answer " + w.answer : waitKey(w);
    const entry = all.get(key) ?? { title: w.group ? `Pod group ${w.group}` : `${w.namespace}/${w.name}`, members: [] };
    entry.members.push(w);
    all.set(key, entry);
  }
  return [...all.values()].sort((a, b) => Number(a.members.every((w) => w.answer < 0)) - Number(b.members.every((w) => w.answer < 0)));
}

const most = 300;

export function showWaits(at: HTMLElement, world: World, selected: string, find: string, select: (key: string) => void): void {
  const shown = entries(world, find);
  const refused = world.waiting.filter((w) => w.answer >= 0).length;
  const item = (w: Waiting): HTMLElement => el("button", {
    type: "button", class: "wait", "data-key": waitKey(w), "aria-pressed": String(waitKey(w) === selected), click: () => select(waitKey(w)),
  }, el("strong", {}, w.kind === "Pod" ? null : "claim ", name(`${w.namespace}/${w.name}`)),
  el("span", { class: w.answer >= 0 ? "reason" : "reason good" }, w.answer >= 0 ? name(w.reason ?? "") : ["can be placed on ", name(w.node ?? "")]));
  refill(at,
    el("h2", {}, "What waits"),
    el("p", { class: "faint" }, world.waiting.length === 0 ? "Nothing is pending that asks for devices." : `${world.waiting.length === 1 ? "1 pod or claim" : world.waiting.length + " pods and claims"}: ${refused} without a place, ${world.waiting.length - refused} can be placed`),
    el("ul", { class: "plain" }, shown.slice(0, most).map((entry) => {
      const [first, ...others] = entry.members;
      if (others.length === 0) return el("li", {}, item(first));
      const group = entry.title.startsWith("Pod group");
      return el("li", {}, group ? el("h3", {}, name(entry.title), `: ${count(entry.members.length, "pod")}`) : null, item(first),
        el("details", { "data-key": entry.title, open: others.some((w) => waitKey(w) === selected) }, el("summary", {}, `${count(others.length, "more pod")}${group ? " of the group" : ", for the same reasons"}`),
          others.slice(0, most).map(item)));
    })),
    shown.length > most ? el("p", {}, `and ${shown.length - most} more`) : null);
}
