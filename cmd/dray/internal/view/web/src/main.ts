import { button, count, el, fill, name, refill } from "./dom";
import type { Actions } from "./details";
import { deviceDetails, findDevice, nodeDetails, poolDetails, shortDetails, waitingDetails } from "./details";
import type { Box } from "./layout";
import { apply, follow, History } from "./live";
import type { Viewport } from "./map";
import { drawState, MapView, readColours } from "./map";
import type { Answer, Device, Outcome, Picture, Pool, Report, Waiting, World } from "./model";
import { applied, changedDevices, counts, deviceKey, poolKey, states, stateText, worldOf } from "./model";
import { read, write } from "./state";
import { Tree } from "./tree";
import { Usage } from "./usage";
import { showWaits, waitKey } from "./waits";
import type { Change } from "./whatif";
import { WhatIf } from "./whatif";

interface Kept { picture: Picture; answers: Answer[]; usage: Record<string, Report> }

class Page {
  private state = read();
  private history = new History();
  private past: number | undefined; // a step of the history; undefined is now
  private outcome: { number: number; before: World; after: World } | undefined;
  private explained: { key: string; answer: Answer } | undefined;
  private viewport: Viewport = { x: 0, y: 0, scale: 1 };

  private canvas = el("canvas", { "aria-hidden": "true" });
  private before = el("canvas", { "aria-hidden": "true" });
  private map: MapView;
  private beforeMap: MapView | undefined;
  private tree: Tree;
  private status = el("p", { class: "status", role: "status" });
  private notes = el("details", { class: "notes", hidden: true });
  private legend = el("ul", { class: "legend", "aria-label": "States of devices" });
  private waits = el("section", { class: "waits", "aria-label": "What waits" });
  private panel = el("section", { class: "panel", "aria-label": "Details", hidden: true, keydown: (e: Event) => { if ((e as KeyboardEvent).key === "Escape") this.close(); } });
  private tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  private maps = el("div", { class: "maps" });
  private scrub = el("div", { class: "scrub", hidden: true });
  private group = el("select", { id: "group", change: () => this.set({ group: this.group.value }) });
  private grouping = el("div", { class: "actions" }, el("label", { for: "group" }, "Group by"), this.group);
  private find = el("input", { id: "find", type: "search", placeholder: "node, device, pod, claim", input: () => this.set({ find: this.find.value }) });
  private usage: Usage;
  private whatIf: WhatIf | undefined;
  private tabs: HTMLButtonElement[] = [];

  constructor(private world: World, private kept: Kept | undefined) {
    this.usage = new Usage((by) => this.set({ by }), (by) => this.count(by), (key) => { this.state.tab = "map"; this.select(key); }, kept && Object.keys(kept.usage));
    this.build();
    this.map = new MapView(this.canvas, world, this.state.group);
    this.map.viewport = this.viewport;
    this.tree = new Tree(this.map, (key) => this.select(key), (key) => this.focused(key));
    this.maps.firstElementChild!.append(this.tree.root);
    this.pointer(this.map, this.canvas);
    this.map.fit();
    let size = this.size();
    new ResizeObserver(() => { // the map is hidden beside figures, and is then as it was
      if (!this.canvas.clientWidth || this.size() === size) return;
      size = this.size();
      this.map.resized();
      this.beforeMap?.show(this.beforeMap.world, this.state.group, this.map.layout);
    }).observe(this.canvas);
    addEventListener("hashchange", () => { this.state = read(); this.update(); });
    this.update();
    if (!kept) this.follow();
  }

  private size(): string { return `${this.canvas.clientWidth} ${this.canvas.clientHeight}`; }

  private build(): void {
    const tab = (key: string, text: string): HTMLButtonElement => button(text, () => this.set({ tab: key }), { "data-tab": key });
    this.tabs = [tab("map", "Map"), tab("usage", "Usage"), ...(this.kept ? [] : [tab("whatif", "What if")])];
    if (!this.kept) this.whatIf = new WhatIf((c) => this.post(c), () => this.world, (o) => this.tried(o));
    const slider = el("input", { type: "range", id: "scrub", min: 0, max: 0, value: 0, input: () => this.scrubTo(Number(slider.value)) });
    fill(this.scrub, el("label", { for: "scrub" }, "Last 15 minutes"), slider, el("output", { id: "scrub-time" }, "now"), button("Now", () => this.scrubTo(this.history.length)));
    const zoomed = (f: number) => () => this.map.zoom(f, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2);
    fill(this.maps, el("figure", { class: "main" }, this.canvas), el("div", { class: "zoom" }, button("+", zoomed(1.4), { "aria-label": "Zoom in" }), button("−", zoomed(1 / 1.4), { "aria-label": "Zoom out" }), button("Fit", () => this.map.fit(), { "aria-label": "Fit all" })), this.tip);
    fill(document.getElementById("app")!,
      el("header", {},
        el("h1", {}, "Dray"), el("p", { class: "source" }, name(this.world.source)), el("nav", { "aria-label": "Views" }, this.tabs),
        el("div", { class: "tools" }, this.grouping, el("label", { for: "find" }, "Find"), this.find), this.status),
      el("main", {},
        el("div", { class: "left" }, this.waits, this.whatIf?.root),
        el("div", { class: "centre" },
          el("p", { class: "help for-map" }, "Each box is a node, each cell a device. Scroll to zoom, drag to move, click for details; with the keyboard, focus the map and use the arrow keys."),
          this.legend, this.notes, this.maps, this.usage.root, this.scrub),
        this.panel));
  }

  private set(change: Partial<typeof this.state>): void {
    Object.assign(this.state, change);
    write(this.state);
    this.update();
  }

  /** shown is the world on the map: of now, of the past, or after a what-if. */
  private get shown(): World { return this.outcome?.after ?? (this.past === undefined ? this.world : this.history.at(this.past)?.world ?? this.world); }

  private update(): void {
    write(this.state);
    const world = this.shown, { state } = this;
    this.tabs.forEach((t) => t.setAttribute("aria-current", t.dataset.tab === state.tab ? "page" : "false"));
    this.waits.hidden = state.tab === "whatif";
    if (this.whatIf) this.whatIf.root.hidden = state.tab !== "whatif";
    this.showUsage(world);
    this.options(world);
    if (this.find.value !== state.find) this.find.value = state.find;
    this.map.show(world, state.group);
    this.beforeMap?.show(this.outcome?.before ?? this.world, state.group, this.map.layout);
    this.showLegend(world);
    this.notes.hidden = world.notes.length === 0;
    if (world.notes.length) fill(this.notes, el("summary", {}, count(world.notes.length, "note")), el("ul", {}, world.notes.map((n) => el("li", {}, name(n)))));
    showWaits(this.waits, world, state.select, state.find.toLowerCase(), (key) => this.select(key));
    this.showDetails(world);
    this.mark(world);
    this.tree.update();
  }

  /** showUsage shows figures in the place of the map. They are not kept of the past. */
  private showUsage(world: World): void {
    const isUsage = this.state.tab === "usage";
    this.usage.root.hidden = !isUsage;
    for (const element of [this.maps, this.legend, this.grouping, document.querySelector<HTMLElement>(".for-map")!]) element.hidden = isUsage;
    this.scrub.hidden = isUsage || this.history.length === 0;
    if (!isUsage) return;
    if (this.past !== undefined) { this.scrubTo(this.history.length); return; }
    this.usage.show(world, this.state.by, this.version(world));
  }

  /** version names what is shown to the server. */
  private version(world: World): string { return this.outcome && world === this.outcome.after ? `whatif=${this.outcome.number}` : `revision=${world.revision}`; }

  private async count(by: string): Promise<Report> {
    if (this.kept) {
      if (!Object.hasOwn(this.kept.usage, by)) throw new Error("The file does not have this: dray usage --by " + by);
      return this.kept.usage[by];
    }
    const response = await fetch(`api/usage?${this.version(this.shown)}&by=${encodeURIComponent(by)}`);
    if (!response.ok) throw new Error((await response.text()).trim());
    return (await response.json()) as Report;
  }

  private options(world: World): void {
    const keys = new Map<string, Set<string>>();
    for (const node of world.nodes.values()) for (const [k, v] of Object.entries(node.labels ?? {})) { if (!keys.has(k)) keys.set(k, new Set()); keys.get(k)!.add(v); }
    const useful = [...keys].filter(([, v]) => v.size > 1 && v.size <= Math.max(2, world.nodes.size / 2)).map(([k]) => k).sort();
    const values = ["kind", "pool", ...useful.map((k) => "label:" + k)];
    if (this.state.group.startsWith("label:") && !values.includes(this.state.group)) values.push(this.state.group);
    if ([...this.group.options].map((o) => o.value).join("\n") !== values.join("\n")) {
      fill(this.group, values.map((v) => el("option", { value: v }, v === "kind" ? "kind of node" : v === "pool" ? "pool" : "label " + v.slice(6))));
    }
    this.group.value = this.state.group;
  }

  private showLegend(world: World): void {
    const n = counts(world), total = states.reduce((sum, s) => sum + n[s], 0), colours = readColours();
    fill(this.legend, el("li", {}, el("strong", {}, count(world.nodes.size, "node")), ", ", el("strong", {}, count(total, "device"))), states.map((s) => {
      const sign = el("canvas", { width: 32, height: 32, "aria-hidden": "true" }), c = sign.getContext("2d")!;
      c.scale(2, 2);
      drawState(c, colours, s, 1, 1, 14, 14, false);
      return el("li", { title: stateText[s].help, class: n[s] ? "" : "none" }, sign, ` ${stateText[s].name} `, el("strong", {}, n[s].toLocaleString("en")));
    }));
  }

  private showDetails(world: World): void {
    const key = this.state.select, act = this.actions(world);
    let content: Element[] | undefined;
    if (key.startsWith("device/")) content = deviceDetails(world, key.slice(7), act);
    else if (key.startsWith("node/")) content = nodeDetails(world, key.slice(5), act);
    else if (key.startsWith("pool/")) content = poolDetails(world, key.slice(5), act);
    else if (key.startsWith("wait/")) {
      const w = world.waiting.find((x) => waitKey(x) === key);
      content = w && waitingDetails(w, act);
    }
    if (key && !content) content = [el("h2", {}, "Not there"), el("p", {}, name(key), " is not in what is shown.")];
    this.panel.hidden = !content;
    if (!content) return;
    const isSame = this.panel.dataset.key === key;
    this.panel.dataset.key = key;
    (isSame ? refill : fill)(this.panel, button("×", () => this.close(), { class: "close", "aria-label": "Close details" }), content);
  }

  private actions(world: World): Actions {
    return {
      select: (key) => this.select(key),
      ask: this.whatIf && ((kind, on) => { this.set({ tab: "whatif" }); this.whatIf!.start(kind, on); }),
      explain: async (w) => {
        const answer = await this.explain(world, w);
        this.explained = { key: waitKey(w), answer };
        return answer;
      },
      explained: (w) => (this.explained?.key === waitKey(w) ? this.explained.answer : undefined),
    };
  }

  private async explain(world: World, w: Waiting): Promise<Answer> {
    if (this.kept) {
      const answer = this.kept.answers[w.answer];
      if (!answer) throw new Error("The file does not have this explanation. " + (w.reason ?? ""));
      return answer;
    }
    const response = await fetch(`api/explanation?${this.version(world)}&answer=${w.answer}`);
    if (!response.ok) throw new Error(`${w.reason ?? ""} (${(await response.text()).trim()}: the whole explanation is that of now)`);
    return (await response.json()) as Answer;
  }

  /** mark lights up what is meant: nodes that come closest, devices that would be taken, what was found. */
  private mark(world: World): void {
    const lit = new Set<string>(), w = world.waiting.find((x) => waitKey(x) === this.state.select);
    if (w?.node && w.answer < 0) lit.add("node/" + w.node);
    for (const d of w?.devices ?? []) lit.add(`device/${poolKey({ driver: d.driver, name: d.pool })}/${d.device}`);
    for (const n of w?.nearest ?? []) lit.add("node/" + n);
    if (this.state.select.startsWith("pool/")) for (const n of world.pools.get(this.state.select.slice(5))?.nodes ?? []) lit.add("node/" + n);
    const changed = new Set(this.outcome ? [...changedDevices(this.outcome.before, this.outcome.after)].map((k) => "device/" + k) : []);
    const matches = this.state.find ? this.matching(world, this.state.find.toLowerCase()) : undefined;
    for (const map of [this.map, this.beforeMap]) if (map) map.marks = { ...map.marks, selected: this.state.select, lit, changed, matches };
    this.map.draw();
    this.beforeMap?.draw();
  }

  private matching(world: World, text: string): Set<string> {
    const found = new Set<string>();
    const has = (s: string): boolean => s.toLowerCase().includes(text);
    for (const box of this.map.layout.boxes.values()) {
      const hit = has(box.title) || box.pools.some((key) => {
        const pool = world.pools.get(key);
        return pool?.devices.some((d) => has(d.name) || has(world.shapes[d.shape].product) || d.held?.some((h) => has(h.claim) || world.claims.get(h.claim)?.pods?.some(has)));
      });
      if (hit) found.add(box.key);
    }
    return found;
  }

  private select(key: string): void {
    const byKeyboard = document.activeElement?.matches(":focus-visible");
    this.set({ select: key });
    const world = this.shown;
    const device = key.startsWith("device/") ? findDevice(world, key.slice(7)) : undefined;
    const box = device ? this.boxOf(device[0]) : this.map.layout.boxes.get(key);
    if (box) { this.map.reveal(box, device !== undefined); this.tree.go(key); }
    const w = world.waiting.find((x) => waitKey(x) === key), near = w && this.map.layout.boxes.get("node/" + (w.node && w.answer < 0 ? w.node : w.nearest?.[0] ?? ""));
    if (near) this.map.reveal(near, false);
    if (key && matchMedia("(max-width: 800px)").matches) this.panel.scrollIntoView();
    if (key && byKeyboard) this.panel.querySelector("h2")?.focus();
  }

  private boxOf(pool: Pool): Box | undefined { return [...this.map.layout.boxes.values()].find((b) => b.pools.includes(poolKey(pool))); }

  /** close closes the details. The focus goes back to what they were of. */
  private close(): void {
    const key = this.state.select;
    this.set({ select: "" });
    const of = this.waits.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
    (of?.checkVisibility() ? of : this.tree.root).focus();
  }

  private focused(key: string): void {
    this.map.marks.focused = key;
    this.map.draw();
    const device = key.startsWith("device/") ? findDevice(this.shown, key.slice(7)) : undefined;
    const box = device ? this.boxOf(device[0]) : this.map.layout.boxes.get(key), at = box && this.map.corner(box, device && deviceKey(...device));
    const shift = this.canvas.parentElement!.offsetLeft + this.canvas.offsetLeft;
    this.showTip(this.shown, box, device?.[0], device?.[1], (at?.x ?? 0) + shift, (at?.y ?? 0) + this.canvas.offsetTop);
  }

  private pointer(map: MapView, canvas: HTMLCanvasElement): void {
    const down = new Map<number, { x: number; y: number }>();
    let moved = 0;
    const both = (): void => { this.map.draw(); this.beforeMap?.draw(); };
    canvas.addEventListener("pointerdown", (e) => { canvas.setPointerCapture(e.pointerId); down.set(e.pointerId, { x: e.offsetX, y: e.offsetY }); moved = 0; });
    canvas.addEventListener("pointermove", (e) => {
      const last = down.get(e.pointerId);
      if (!last) { this.hover(map, e); return; }
      const dx = e.offsetX - last.x, dy = e.offsetY - last.y;
      moved += Math.abs(dx) + Math.abs(dy);
      const other = [...down].find(([id]) => id !== e.pointerId)?.[1];
      if (other) map.zoom(Math.hypot(e.offsetX - other.x, e.offsetY - other.y) / Math.max(1, Math.hypot(last.x - other.x, last.y - other.y)), other.x, other.y);
      else map.pan(dx, dy);
      down.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
      both();
    });
    const up = (e: PointerEvent): void => {
      if (!down.delete(e.pointerId) || moved > 5 || e.type !== "pointerup") return;
      this.tip.hidden = true; // the panel may move the map
      const { box, pool, device } = map.hit(e.offsetX, e.offsetY);
      this.select(pool && device ? "device/" + deviceKey(pool, device) : box?.key ?? "");
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); map.zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0018)), e.offsetX, e.offsetY); both(); }, { passive: false });
  }

  private hover(map: MapView, e: PointerEvent): void {
    const { box, pool, device } = map.hit(e.offsetX, e.offsetY), at = this.maps.getBoundingClientRect();
    this.showTip(map.world, box, pool, device, e.clientX - at.left, e.clientY - at.top);
  }

  /** showTip says in a few lines what is at a place of the maps. */
  private showTip(world: World, box: Box | undefined, pool: Pool | undefined, device: Device | undefined, x: number, y: number): void {
    this.tip.hidden = !box;
    if (!box) return;
    fill(this.tip, shortDetails(world, box.title, box.node, pool, device));
    const { clientWidth: w, clientHeight: h } = this.maps, { offsetWidth: width, offsetHeight: height } = this.tip;
    this.tip.style.left = Math.max(0, x + 14 + width + 4 > w ? x - 14 - width : x + 14) + "px";
    this.tip.style.top = Math.max(0, Math.min(y + 14, h - height - 4)) + "px";
  }

  // Live.

  private follow(): void {
    follow(() => this.world.revision, {
      delta: (d) => { const next = apply(this.world, d); if (next) this.next(next, JSON.stringify(d).length); else void this.whole(); },
      whole: () => void this.whole(),
      lost: (why, live) => {
        this.status.classList.toggle("bad", why !== "");
        fill(this.status, why || (live ? "live" : "as read once"));
      },
    });
  }

  private async whole(): Promise<void> {
    const response = await fetch("api/picture");
    if (!response.ok) { fill(this.status, (await response.text()).trim()); return; }
    const text = await response.text();
    this.next(worldOf(JSON.parse(text) as Picture), text.length);
  }

  private next(world: World, size: number): void {
    const before = this.world;
    this.world = world;
    this.history.add(before, world, size);
    if (this.past !== undefined) this.past = Math.min(this.past, this.history.length - 1);
    this.showScrub();
    if (this.past !== undefined || this.outcome) return;
    this.update();
    this.map.flash(changedDevices(before, world));
  }

  private showScrub(): void {
    this.scrub.hidden = this.state.tab === "usage" || this.history.length === 0;
    const slider = this.scrub.querySelector("input")!, n = this.past ?? this.history.length, at = this.history.at(n);
    slider.max = String(this.history.length);
    slider.value = String(n);
    const text = this.past === undefined || !at ? "now" : new Date(at.time).toLocaleTimeString();
    this.scrub.querySelector("output")!.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }

  private scrubTo(n: number): void {
    const before = this.shown;
    this.past = n >= this.history.length ? undefined : n;
    this.outcome = undefined;
    this.showScrub();
    this.update();
    this.map.flash(changedDevices(before, this.shown));
  }

  // What if.

  private async post(change: Change): Promise<Outcome> {
    const response = await fetch("api/whatif", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change) });
    if (response.status === 422) throw new Error(((await response.json()) as { errors: string[] }).errors.join("\n"));
    if (!response.ok) throw new Error((await response.text()).trim());
    return (await response.json()) as Outcome;
  }

  private tried(outcome: Outcome | undefined): { before: World; after: World } | undefined {
    this.past = undefined;
    const after = outcome && (outcome.picture ? worldOf(outcome.picture) : outcome.delta!.from === this.world.revision ? applied(this.world, outcome.delta!) : undefined);
    if (outcome && !after) throw new Error("The cluster has changed in the meantime: try again.");
    this.outcome = after && { number: outcome!.number, before: this.world, after };
    const figure = this.maps.querySelector("figure.before");
    if (!after) {
      figure?.remove();
      this.beforeMap = undefined;
      this.maps.querySelector("figcaption")?.remove();
    } else if (!figure) {
      this.maps.prepend(el("figure", { class: "before" }, el("figcaption", {}, "Before"), this.before));
      this.maps.querySelector("figure.main")!.prepend(el("figcaption", {}, "After"));
      this.beforeMap = new MapView(this.before, this.world, this.state.group);
      this.beforeMap.viewport = this.viewport;
      this.pointer(this.beforeMap, this.before);
    }
    this.update();
    this.map.resized();
    this.beforeMap?.show(this.world, this.state.group, this.map.layout);
    return after && { before: this.world, after };
  }
}

async function start(): Promise<void> {
  const kept = document.getElementById("kept");
  if (kept) {
    const data = JSON.parse(kept.textContent ?? "") as Kept;
    new Page(worldOf(data.picture), data);
    return;
  }
  const response = await fetch("api/picture");
  if (!response.ok) throw new Error((await response.text()).trim());
  new Page(worldOf((await response.json()) as Picture), undefined);
}

start().catch((err: Error) => fill(document.getElementById("app")!, el("p", { class: "bad", role: "alert" }, err.message)));
