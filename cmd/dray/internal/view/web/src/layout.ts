import type { CounterSet, Device, Pool, World } from "./model";
import { poolKey } from "./model";

// Where things are, in units of the map: a device is a cell of 24.

export interface Rect { x: number; y: number; w: number; h: number }
/** Cell is a device of a box, by its place in the pools of the box. Frame is set for a whole that its parts are drawn in. */
export interface Cell extends Rect { pool: number; device: number; frame: boolean }
/** Bar is what is left of a counter. */
export interface Bar extends Rect { pool: number; set: number; counter: number }
/** Plan is how devices are arranged. Boxes of the same kind share it. */
export interface Plan { w: number; h: number; cells: Cell[]; bars: Bar[]; titles: (Rect & { pool: number; set: number })[] }
/** Box is a node, or a pool of the lane of pools that several nodes reach. */
export interface Box extends Rect { key: string; title: string; node?: string; pools: string[]; plan: Plan }
export interface Group extends Rect { title: string; boxes: Box[]; lane: boolean }
export interface Layout { w: number; h: number; titleHeight: number; groups: Group[]; boxes: Map<string, Box> }

const cell = 24, part = 15, gap = 4, pad = 6, head = 18, bar = 4;

function signature(pools: Pool[]): string {
  return pools.map((p) => p.devices.length + ":" + (p.sets ?? []).map((s) => s.whole + "." + s.counters.length).join() + ":" + p.devices.map((d) => d.sets?.join("+") ?? "").join()).join("|");
}

function planOf(pools: Pool[]): Plan {
  const plan: Plan = { w: 0, h: 0, cells: [], bars: [], titles: [] };
  const total = pools.reduce((n, p) => n + p.devices.length, 0);
  const widest = Math.max(4 * (cell + gap), Math.ceil(Math.sqrt(total) * 1.5) * (cell + gap));
  let x = pad, y = head, row = 0;
  const place = (w: number, h: number): Rect => {
    if (x > pad && x + w > widest + pad) { x = pad; y += row + gap; row = 0; }
    const at = { x, y, w, h };
    x += w + gap; row = Math.max(row, h); plan.w = Math.max(plan.w, x);
    return at;
  };
  pools.forEach((pool, p) => {
    const inSet = new Set<number>();
    (pool.sets ?? []).forEach((set, s) => placeSet(plan, pool, p, set, s, inSet, place));
    pool.devices.forEach((_, d) => { if (!inSet.has(d)) plan.cells.push({ ...place(cell, cell), pool: p, device: d, frame: false }); });
  });
  plan.w = Math.max(plan.w - gap + pad, 4 * (cell + gap) - gap + 2 * pad);
  plan.h = y + row + pad;
  return plan;
}

/** placeSet draws the parts of a whole inside of it, with bars of the counters below. */
function placeSet(plan: Plan, pool: Pool, p: number, set: CounterSet, s: number, inSet: Set<number>, place: (w: number, h: number) => Rect): void {
  const members = pool.devices.map((d, i) => [d, i] as [Device, number]).filter(([d, i]) => d.sets?.[0] === s && !inSet.has(i)).map(([, i]) => i);
  if (members.length === 0) return;
  members.forEach((i) => inSet.add(i));
  const parts = members.filter((i) => i !== set.whole);
  const columns = Math.max(3, Math.ceil(Math.sqrt(parts.length * 1.6)));
  const rows = Math.ceil(parts.length / columns);
  const title = 10, w = columns * (part + 2) + 8, h = title + rows * (part + 2) + set.counters.length * (bar + 2) + 8;
  const at = place(w, h);
  if (set.whole >= 0) plan.cells.push({ ...at, pool: p, device: set.whole, frame: true });
  plan.titles.push({ x: at.x + 4, y: at.y + 2, w: w - 8, h: title, pool: p, set: s });
  parts.forEach((device, k) => plan.cells.push({
    x: at.x + 5 + (k % columns) * (part + 2), y: at.y + title + 3 + Math.floor(k / columns) * (part + 2), w: part, h: part, pool: p, device, frame: false,
  }));
  set.counters.forEach((_, c) => plan.bars.push({ x: at.x + 5, y: at.y + h - (set.counters.length - c) * (bar + 2) - 1, w: w - 10, h: bar, pool: p, set: s, counter: c }));
}

const plans = new Map<string, Plan>();

function shared(pools: Pool[]): Plan {
  const key = signature(pools);
  let plan = plans.get(key);
  if (!plan) {
    if (plans.size > 2000) plans.clear();
    plan = planOf(pools);
    plans.set(key, plan);
  }
  return plan;
}

/** groupOf names the group of a node. */
function groupOf(w: World, node: string, by: string): string {
  if (by === "pool") {
    const lanes = w.lanes.filter((p) => p.nodes?.includes(node)).map((p) => p.name);
    return lanes.length > 0 ? "pool " + lanes.join(", ") : "only pools of their own";
  }
  if (by.startsWith("label:")) {
    const key = by.slice(6);
    return key + "=" + (w.nodes.get(node)!.labels?.[key] ?? "(none)");
  }
  return w.nodes.get(node)!.kind;
}

/** arrange puts boxes into groups, and groups onto a map of about that aspect (width by height). TitleHeight is that of titles of groups. */
export function arrange(w: World, by: string, aspect: number, titleHeight: number): Layout {
  const layout: Layout = { w: 0, h: 0, titleHeight, groups: [], boxes: new Map() };
  const groups = new Map<string, Box[]>();
  const lanesOf = by === "pool" ? laneNames(w) : undefined;
  for (const node of w.nodes.values()) {
    const title = lanesOf ? lanesOf.get(node.name) ?? "only pools of their own" : groupOf(w, node.name, by);
    const pools = w.own.get(node.name) ?? [];
    const plan = shared(pools);
    const box: Box = { key: "node/" + node.name, title: node.name, node: node.name, pools: pools.map(poolKey), plan, x: 0, y: 0, w: plan.w, h: plan.h };
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title)!.push(box);
    layout.boxes.set(box.key, box);
  }
  const titles = [...groups.keys()].sort((a, b) => groups.get(b)!.length - groups.get(a)!.length || a.localeCompare(b, "en", { numeric: true }));
  const lanes = w.lanes.map((pool): Box => {
    const plan = shared([pool]);
    return { key: "pool/" + poolKey(pool), title: pool.name, pools: [poolKey(pool)], plan, x: 0, y: 0, w: plan.w, h: plan.h };
  });
  lanes.forEach((box) => layout.boxes.set(box.key, box));
  const all: Group[] = lanes.length > 0 ? [{ title: "Pools that several nodes reach, or none", boxes: lanes, lane: true, x: 0, y: 0, w: 0, h: 0 }] : [];
  for (const title of titles) {
    const boxes = groups.get(title)!.sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
    all.push({ title, boxes, lane: false, x: 0, y: 0, w: 0, h: 0 });
  }
  const area = all.reduce((n, g) => n + g.boxes.reduce((m, b) => m + (b.w + 8) * (b.h + 8), 0), 0);
  const width = Math.max(400, Math.sqrt(area * aspect), ...all.map((g) => Math.max(...g.boxes.map((b) => b.w))));
  let y = 0;
  for (const group of all) {
    flow(group, y + titleHeight, width);
    group.y = y;
    y += titleHeight + group.h + 16;
    layout.w = Math.max(layout.w, group.w);
  }
  layout.groups = all;
  layout.h = Math.max(1, y - 16);
  layout.w = Math.max(1, layout.w);
  return layout;
}

function laneNames(w: World): Map<string, string> {
  const names = new Map<string, string>();
  for (const pool of w.lanes) for (const node of pool.nodes ?? []) names.set(node, names.has(node) ? names.get(node) + ", " + pool.name : "pool " + pool.name);
  return names;
}

/** flow puts the boxes of a group into rows. */
function flow(group: Group, top: number, width: number): void {
  let x = 0, y = top, row = 0;
  for (const box of group.boxes) {
    if (x > 0 && x + box.w > width) { x = 0; y += row + 8; row = 0; }
    box.x = x; box.y = y;
    x += box.w + 8; row = Math.max(row, box.h);
    group.w = Math.max(group.w, x - 8);
  }
  group.h = y + row - top;
}
