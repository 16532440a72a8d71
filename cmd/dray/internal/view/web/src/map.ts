import { clean, count } from "./dom";
import type { Box, Layout } from "./layout";
import { arrange } from "./layout";
import type { Device, Pool, State, World } from "./model";
import { deviceKey, states } from "./model";

/** Viewport is which part of the map is seen: scale is pixels per unit. Two maps can share it. */
export interface Viewport { x: number; y: number; scale: number }
export interface Hit { box?: Box; pool?: Pool; device?: Device }
export interface Marks {
  /** selected and focused are keys of boxes or devices. Lit are nodes that light up; changed are devices. */
  selected: string; focused: string; lit: Set<string>; changed: Set<string>; matches?: Set<string>;
}

export type Colours = Record<State | "text" | "faint" | "box" | "edge" | "back" | "accent" | "lit" | "pale", string>;

/** MapView draws a world on a canvas. */
export class MapView {
  layout: Layout;
  world: World;
  marks: Marks = { selected: "", focused: "", lit: new Set(), changed: new Set() };
  viewport: Viewport = { x: 0, y: 0, scale: 1 };
  /** frames is how often the map was drawn. */
  frames = 0;
  /** bright and dim are rectangles of far boxes by colour: x, y, width and height of each. */
  private bright = new Map<string, number[]>();
  private dim = new Map<string, number[]>();
  private ringed: (() => void)[] = []; // rings of far boxes, which come last
  private stocks = new WeakMap<Box, { world: World; n: number[] }>();
  private flashes = new Map<string, number>();
  private colours: Colours;
  private context: CanvasRenderingContext2D;
  private planned = 0;
  private by = "kind";

  constructor(readonly canvas: HTMLCanvasElement, world: World, by: string) {
    this.context = canvas.getContext("2d", { alpha: false })!;
    this.world = world;
    this.by = by;
    this.layout = this.arranged(world);
    this.colours = readColours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = readColours(); this.draw(); });
  }

  /** arranged makes titles of groups so high that they can be read when all is seen. */
  private arranged(world: World): Layout {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const aspect = Math.max(0.3, w / Math.max(1, h));
    let layout = arrange(world, this.by, aspect, 24);
    const scale = Math.min(w / layout.w, h / layout.h);
    if (scale > 0 && scale < 0.9) layout = arrange(world, this.by, aspect, Math.min(21 / scale, layout.h / Math.max(6, layout.groups.length)));
    return layout;
  }

  /** show replaces the world. What is in both stays where it is if the nodes are the same. Places are those of that layout, if it is given. */
  show(world: World, by: string, places?: Layout): void {
    const moved = by !== this.by || places !== undefined || !sameBoxes(this.world, world);
    this.world = world;
    this.by = by;
    if (moved) this.layout = places ?? this.arranged(world);
    this.draw();
  }

  fit(): void {
    const { clientWidth: w, clientHeight: h } = this.canvas;
    const scale = Math.min((w - 24) / this.layout.w, (h - 24) / this.layout.h, 3);
    Object.assign(this.viewport, { scale, x: -(w / scale - this.layout.w) / 2, y: this.layout.h * scale < h * 0.7 ? -12 / scale : -(h / scale - this.layout.h) / 2 });
    this.draw();
  }

  /** resized arranges anew for another size of the canvas. */
  resized(): void {
    this.layout = this.arranged(this.world);
    this.fit();
  }

  zoom(factor: number, px: number, py: number): void {
    const v = this.viewport, smallest = 0.5 * Math.min(this.canvas.clientWidth / this.layout.w, this.canvas.clientHeight / this.layout.h);
    const scale = Math.min(8, Math.max(Math.min(smallest, 1), v.scale * factor));
    v.x += px / v.scale - px / scale;
    v.y += py / v.scale - py / scale;
    v.scale = scale;
    this.draw();
  }

  pan(dx: number, dy: number): void {
    this.viewport.x -= dx / this.viewport.scale;
    this.viewport.y -= dy / this.viewport.scale;
    this.draw();
  }

  /** reveal moves a box into view, and near enough to see its devices if one of them is meant. */
  reveal(box: Box, near: boolean): void {
    const v = this.viewport, { clientWidth: w, clientHeight: h } = this.canvas;
    if (near && v.scale < 0.9) v.scale = 1.4;
    const inside = box.x > v.x && box.y > v.y && box.x + box.w < v.x + w / v.scale && box.y + box.h < v.y + h / v.scale;
    if (!inside) Object.assign(v, { x: box.x + box.w / 2 - w / v.scale / 2, y: box.y + box.h / 2 - h / v.scale / 2 });
    this.draw();
  }

  /** corner is where a box, or a device of it, ends at the bottom right, in pixels of the canvas. */
  corner(box: Box, device?: string): { x: number; y: number } {
    const plan = device === undefined ? undefined : box.plan.cells.find((c) => {
      const pool = this.world.pools.get(box.pools[c.pool]), found = pool?.devices[c.device];
      return pool && found && deviceKey(pool, found) === device;
    });
    const x = plan ? box.x + plan.x + plan.w : box.x + box.w, y = plan ? box.y + plan.y + plan.h : box.y + box.h;
    return { x: (x - this.viewport.x) * this.viewport.scale, y: (y - this.viewport.y) * this.viewport.scale };
  }

  /** flash lets devices glow once. */
  flash(keys: Iterable<string>): void {
    const until = performance.now() + 1600;
    for (const key of keys) this.flashes.set(key, until);
    this.draw();
  }

  hit(px: number, py: number): Hit {
    const x = this.viewport.x + px / this.viewport.scale, y = this.viewport.y + py / this.viewport.scale;
    const inside = (r: { x: number; y: number; w: number; h: number }, dx = 0, dy = 0): boolean =>
      x >= r.x + dx && y >= r.y + dy && x <= r.x + dx + r.w && y <= r.y + dy + r.h;
    for (const group of this.layout.groups) {
      if (y < group.y || y > group.y + this.layout.titleHeight + group.h) continue;
      for (const box of group.boxes) {
        if (!inside(box)) continue;
        let found: Hit = { box };
        if (24 * this.viewport.scale < 5) return found;
        for (const c of box.plan.cells) { // parts come after their whole
          if (!inside(c, box.x, box.y)) continue;
          const pool = this.world.pools.get(box.pools[c.pool]);
          const device = pool?.devices[c.device];
          if (device) found = { box, pool, device };
        }
        return found;
      }
    }
    return {};
  }

  /** draw asks for a picture with the next frame. */
  draw(): void {
    if (!this.planned) this.planned = requestAnimationFrame(() => { this.planned = 0; this.paint(); });
  }

  private paint(): void {
    const { canvas, context: c, viewport: v, colours } = this, ratio = devicePixelRatio || 1;
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = colours.back;
    c.fillRect(0, 0, w, h);
    const x1 = v.x + w / v.scale, y1 = v.y + h / v.scale;
    const near = 24 * v.scale;
    for (const group of this.layout.groups) {
      if (group.y > y1 || group.y + this.layout.titleHeight + group.h < v.y) continue;
      this.title(group.title, group.boxes.length, group.lane, (group.x - v.x) * v.scale, (group.y - v.y) * v.scale);
      for (const box of group.boxes) {
        if (box.x > x1 || box.y > y1 || box.x + box.w < v.x || box.y + box.h < v.y) continue;
        if (near < 5) this.farBox(box);
        else this.nearBox(box, near);
      }
    }
    this.flush();
    this.ringed.forEach((draw) => draw());
    this.ringed.length = 0;
    this.glow();
    if (this.frames++ === 0) performance.mark("first-picture");
  }

  private title(text: string, n: number, lane: boolean, x: number, y: number): void {
    const height = this.layout.titleHeight * this.viewport.scale, size = Math.min(15, Math.max(8, height * 0.62)), c = this.context;
    if (height < 9) return;
    c.font = `600 ${size}px system-ui, sans-serif`;
    c.fillStyle = this.colours.text;
    c.textBaseline = "middle";
    c.fillText(`${clean(text).slice(0, 120)}  ·  ${count(n, lane ? "pool" : "node")}`, Math.max(x, 4), y + height / 2);
  }

  private isDim(box: Box): boolean {
    const { matches, lit } = this.marks;
    if (matches) return !matches.has(box.key);
    return lit.size > 0 && !lit.has(box.key);
  }

  /** farBox is a node as a cell: how many of its devices are in which state, from the left. It is drawn by flush. */
  private farBox(box: Box): void {
    const { viewport: v, colours } = this, rectangles = this.isDim(box) ? this.dim : this.bright;
    const x = (box.x - v.x) * v.scale, y = (box.y - v.y) * v.scale, w = Math.max(1.5, box.w * v.scale), h = Math.max(1.5, box.h * v.scale);
    const node = box.node !== undefined ? this.world.nodes.get(box.node) : undefined;
    if (box.node !== undefined && !node) return;
    const fill = (colour: string, left: number, width: number, height: number): void => {
      const known = rectangles.get(colour);
      if (known) known.push(left, y, width, height);
      else rectangles.set(colour, [left, y, width, height]);
    };
    const n = this.stock(box);
    let at = x, total = 0;
    for (const count of n) total += count;
    if (total === 0) fill(colours.edge, x, w, h);
    for (let i = 0; i < n.length; i++) {
      if (!n[i]) continue;
      const width = (w * n[i]) / total;
      fill(states[i] === "free" ? colours.pale : colours[states[i]], at, width, h); // free is open near by
      at += width;
    }
    if (node?.cordoned) fill(colours.text, x, w, Math.max(1, h / 8));
    if (this.isMarked(box)) this.ringed.push(() => this.rings(box, x, y, w, h));
  }

  /** flush draws far boxes, colour by colour: to change the colour takes longer than to fill. */
  private flush(): void {
    for (const [rectangles, alpha] of [[this.bright, 1], [this.dim, 0.25]] as const) {
      this.context.globalAlpha = alpha;
      for (const [colour, numbers] of rectangles) {
        this.context.fillStyle = colour;
        for (let i = 0; i < numbers.length; i += 4) this.context.fillRect(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]);
      }
      rectangles.clear();
    }
    this.context.globalAlpha = 1;
  }

  /** stock is how many devices of a box are in which state. */
  private stock(box: Box): number[] {
    const known = this.stocks.get(box);
    if (known?.world === this.world) return known.n;
    const n = states.map(() => 0);
    for (const key of box.pools) {
      const pool = this.world.pools.get(key);
      if (pool) tally(pool).forEach((count, i) => { n[i] += count; });
    }
    this.stocks.set(box, { world: this.world, n });
    return n;
  }

  private nearBox(box: Box, near: number): void {
    const { context: c, viewport: v, colours } = this;
    const x = (box.x - v.x) * v.scale, y = (box.y - v.y) * v.scale, w = box.w * v.scale, h = box.h * v.scale;
    const node = box.node !== undefined ? this.world.nodes.get(box.node) : undefined;
    c.globalAlpha = this.isDim(box) ? 0.3 : 1;
    if (box.node !== undefined && !node) { // it is not there before the what-if
      c.strokeStyle = colours.faint;
      c.setLineDash([4, 4]);
      c.strokeRect(x, y, w, h);
      c.setLineDash([]);
      c.globalAlpha = 1;
      return;
    }
    c.fillStyle = colours.box;
    c.fillRect(x, y, w, h);
    c.strokeStyle = colours.edge;
    c.lineWidth = 1;
    c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    if (near >= 12) {
      const size = Math.min(13, 12 * v.scale);
      c.font = `${size}px system-ui, sans-serif`;
      c.textBaseline = "middle";
      c.fillStyle = colours.text;
      c.save();
      c.beginPath();
      c.rect(x, y, w - 4, h);
      c.clip();
      c.fillText((node?.cordoned ? "⊘ " : "") + clean(box.title).slice(0, 60), x + 6 * v.scale, y + 9.5 * v.scale);
      c.restore();
    }
    for (const plan of box.plan.cells) {
      const device = this.world.pools.get(box.pools[plan.pool])?.devices[plan.device];
      if (device) this.cell(device.state, x + plan.x * v.scale, y + plan.y * v.scale, plan.w * v.scale, plan.h * v.scale, plan.frame, (device.taints?.length ?? 0) > 0);
    }
    if (near >= 14) this.details(box, x, y);
    c.globalAlpha = 1;
    this.rings(box, x, y, w, h);
    this.deviceRings(box, x, y);
  }

  /** details are bars of counters, names of wholes and, when there is room, of devices. */
  private details(box: Box, x: number, y: number): void {
    const { context: c, viewport: v, colours } = this, scale = v.scale;
    for (const b of box.plan.bars) {
      const amount = this.world.pools.get(box.pools[b.pool])?.sets?.[b.set]?.counters[b.counter];
      if (!amount) continue;
      c.fillStyle = colours.edge;
      c.fillRect(x + b.x * scale, y + b.y * scale, b.w * scale, b.h * scale);
      c.fillStyle = colours.used;
      c.fillRect(x + b.x * scale, y + b.y * scale, b.w * scale * (1 - amount.part), b.h * scale);
    }
    c.fillStyle = colours.text;
    if (scale > 0.8) {
      c.font = `${Math.min(13, 8 * scale)}px system-ui, sans-serif`;
      for (const t of box.plan.titles) {
        const set = this.world.pools.get(box.pools[t.pool])?.sets?.[t.set];
        if (set) c.fillText(clean(set.name).slice(0, 24), x + t.x * scale, y + (t.y + t.h / 2) * scale, t.w * scale);
      }
    }
    if (scale > 2.2) {
      for (const plan of box.plan.cells) {
        const device = this.world.pools.get(box.pools[plan.pool])?.devices[plan.device];
        if (!device || plan.frame) continue;
        const size = Math.min(13, Math.max(9, 4 * scale)), cx = x + plan.x * scale, cy = y + (plan.y + plan.h) * scale;
        c.font = `${size}px system-ui, sans-serif`;
        const label = [device.name, this.world.shapes[device.shape].product].map((t) => clean(t).slice(0, 60)).find((t) => c.measureText(t).width <= plan.w * scale - 4);
        if (!label) continue;
        c.fillStyle = colours.box;
        c.globalAlpha *= 0.85;
        c.fillRect(cx + 1, cy - size - 4, plan.w * scale - 2, size + 3);
        c.globalAlpha = this.isDim(box) ? 0.3 : 1;
        c.fillStyle = colours.text;
        c.fillText(label, cx + 2, cy - size / 2 - 2);
      }
    }
  }

  /** cell draws a device: each state has a shape of its own besides its colour. */
  private cell(state: State, x: number, y: number, w: number, h: number, frame: boolean, taint: boolean): void {
    drawState(this.context, this.colours, state, x, y, w, h, frame);
    if (taint && state !== "tainted" && w >= 8) {
      const c = this.context, s = Math.min(w, h) * 0.35;
      c.fillStyle = this.colours.tainted;
      c.beginPath();
      c.moveTo(x + w, y); c.lineTo(x + w - s, y); c.lineTo(x + w, y + s);
      c.fill();
    }
  }

  private ring(colour: string, x: number, y: number, w: number, h: number, width: number): void {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(x - width / 2, y - width / 2, w + width, h + width);
  }

  private isMarked(box: Box): boolean { return this.marks.lit.has(box.key) || this.marks.selected === box.key || this.marks.focused === box.key; }

  private rings(box: Box, x: number, y: number, w: number, h: number): void {
    const { marks, colours } = this;
    if (marks.lit.has(box.key)) this.ring(colours.lit, x, y, w, h, 2);
    if (marks.selected === box.key) this.ring(colours.accent, x, y, w, h, 2);
    if (marks.focused === box.key) this.ring(colours.text, x - 2, y - 2, w + 4, h + 4, 2);
  }

  private deviceRings(box: Box, x: number, y: number): void {
    const { marks, colours, viewport: v } = this;
    if (!marks.changed.size && !marks.lit.size && !marks.selected.startsWith("device/") && !marks.focused.startsWith("device/")) return;
    for (const plan of box.plan.cells) {
      const pool = this.world.pools.get(box.pools[plan.pool]), device = pool?.devices[plan.device];
      if (!pool || !device) continue;
      const key = "device/" + deviceKey(pool, device), at = [x + plan.x * v.scale, y + plan.y * v.scale, plan.w * v.scale, plan.h * v.scale] as const;
      if (marks.changed.has(key)) this.ring(colours.lit, ...at, 2.5);
      if (marks.lit.has(key)) this.ring(colours.lit, ...at, 2);
      if (marks.selected === key) this.ring(colours.accent, ...at, 2.5);
      if (marks.focused === key) this.ring(colours.text, at[0] - 2, at[1] - 2, at[2] + 4, at[3] + 4, 2);
    }
  }

  /** glow draws what has changed a moment ago. */
  private glow(): void {
    if (this.flashes.size === 0) return;
    const now = performance.now(), { context: c, viewport: v } = this;
    for (const [key, until] of this.flashes) if (until < now) this.flashes.delete(key);
    for (const group of this.layout.groups) {
      for (const box of group.boxes) {
        for (const plan of box.plan.cells) {
          const pool = this.world.pools.get(box.pools[plan.pool]), device = pool?.devices[plan.device];
          const until = pool && device ? this.flashes.get(deviceKey(pool, device)) : undefined;
          if (until === undefined) continue;
          c.globalAlpha = Math.min(1, (until - now) / 1000);
          const grow = 3;
          this.ring(this.colours.lit, (box.x + plan.x - v.x) * v.scale - grow, (box.y + plan.y - v.y) * v.scale - grow, plan.w * v.scale + 2 * grow, plan.h * v.scale + 2 * grow, 3);
        }
      }
    }
    c.globalAlpha = 1;
    this.draw();
  }
}

const tallies = new WeakMap<Pool, number[]>();

/** tally counts the devices of a pool, which is not modified, by their states. */
function tally(pool: Pool): number[] {
  let counts = tallies.get(pool);
  if (!counts) {
    counts = states.map((s) => pool.devices.filter((d) => d.state === s).length);
    tallies.set(pool, counts);
  }
  return counts;
}

function sameBoxes(a: World, b: World): boolean {
  if (a.nodes.size !== b.nodes.size || a.pools.size !== b.pools.size) return false;
  for (const [name, node] of b.nodes) { const old = a.nodes.get(name); if (old !== node && (!old || old.kind !== node.kind || JSON.stringify(old.labels) !== JSON.stringify(node.labels))) return false; }
  for (const [key, pool] of b.pools) { const old = a.pools.get(key); if (old !== pool && (!old || old.devices.length !== pool.devices.length || old.nodes?.length !== pool.nodes?.length)) return false; }
  return true;
}

/** readColours takes those of the style sheet, for the theme that is on. */
export function readColours(): Colours {
  const style = getComputedStyle(document.documentElement), colours = {} as Colours;
  for (const name of [...states, "text", "faint", "box", "edge", "back", "accent", "lit", "pale"] as const) colours[name] = style.getPropertyValue("--" + name).trim();
  return colours;
}

/** drawState draws the sign of a state: open, full, half, crossed, striped, with a gap, or dashed. */
export function drawState(c: CanvasRenderingContext2D, colours: Colours, state: State, x: number, y: number, w: number, h: number, frame: boolean): void {
  const small = Math.min(w, h) < 7;
  c.fillStyle = c.strokeStyle = colours[state];
  c.lineWidth = Math.max(1, Math.min(2, w / 10));
  if (frame) {
    c.globalAlpha *= 0.22;
    if (state !== "free") c.fillRect(x, y, w, h);
    c.globalAlpha /= 0.22;
    c.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
    return;
  }
  if (small && state !== "free") { c.fillRect(x, y, w, h); return; }
  const line = (...points: number[]): void => {
    c.beginPath();
    c.moveTo(points[0], points[1]);
    for (let i = 2; i < points.length; i += 2) c.lineTo(points[i], points[i + 1]);
  };
  const l = c.lineWidth / 2;
  switch (state) {
    case "used": c.fillRect(x, y, w, h); return;
    case "shared": line(x, y, x, y + h, x + w, y + h); c.closePath(); c.fill(); break;
    case "blocked": line(x, y, x + w, y + h); c.stroke(); line(x + w, y, x, y + h); c.stroke(); break;
    case "tainted": line(x, y + h * 0.45, x + w * 0.45, y); c.stroke(); line(x, y + h, x + w, y); c.stroke(); line(x + w * 0.55, y + h, x + w, y + h * 0.55); c.stroke(); break;
    case "unusable": c.fillRect(x + w * 0.44, y + h * 0.18, w * 0.12, h * 0.38); c.fillRect(x + w * 0.44, y + h * 0.68, w * 0.12, h * 0.14); break;
    case "unreached": c.setLineDash([3, 3]); break;
  }
  c.strokeRect(x + l, y + l, w - 2 * l, h - 2 * l);
  c.setLineDash([]);
}
