import { el, count, fill } from "./dom";
import type { Box, Group } from "./layout";
import type { MapView } from "./map";
import type { Device, Pool, World } from "./model";
import { deviceKey, stateText } from "./model";

// The map for the keyboard and for screen readers: a tree of groups, nodes and devices. Only what is around the focus is
// there as elements; positions say how much there is.

interface Place { group: number; box: number; cell: number } // box and cell are -1 above

const around = 12;

export class Tree {
  readonly root: HTMLElement;
  private at: Place = { group: 0, box: -1, cell: -1 };

  constructor(private map: MapView, private enter: (key: string) => void, private moved: (key: string) => void) {
    this.root = el("div", {
      role: "tree", tabindex: 0, id: "tree", class: "tree", "aria-label": "Cluster map",
      keydown: (event: Event) => this.key(event as KeyboardEvent), focus: () => this.update(), blur: () => this.moved(""),
    });
  }

  private get groups(): Group[] { return this.map.layout.groups; }
  private get world(): World { return this.map.world; }

  private devices(box: Box): [Pool, Device][] {
    return box.pools.flatMap((key) => { const pool = this.world.pools.get(key); return pool ? pool.devices.map((d): [Pool, Device] => [pool, d]) : []; });
  }

  /** focus goes to what has that key, if it is on the map. */
  go(key: string): void {
    this.groups.forEach((group, g) => group.boxes.forEach((box, b) => {
      if (box.key === key) this.at = { group: g, box: b, cell: -1 };
      else if (key.startsWith("device/") && box.pools.some((p) => key.startsWith("device/" + p + "/"))) {
        const cell = this.devices(box).findIndex(([p, d]) => "device/" + deviceKey(p, d) === key);
        if (cell >= 0) this.at = { group: g, box: b, cell };
      }
    }));
    this.update();
  }

  private key(event: KeyboardEvent): void {
    const at = this.at, group = this.groups[at.group], box = group?.boxes[at.box];
    if (!group) return;
    const siblings = at.cell >= 0 ? this.devices(box).length : at.box >= 0 ? group.boxes.length : this.groups.length;
    const move = (to: number): void => {
      const n = Math.max(0, Math.min(siblings - 1, to));
      if (at.cell >= 0) at.cell = n;
      else if (at.box >= 0) at.box = n;
      else at.group = n;
    };
    const now = at.cell >= 0 ? at.cell : at.box >= 0 ? at.box : at.group;
    switch (event.key) {
      case "ArrowDown": move(now + 1); break;
      case "ArrowUp": move(now - 1); break;
      case "PageDown": move(now + 10); break;
      case "PageUp": move(now - 10); break;
      case "Home": move(0); break;
      case "End": move(siblings - 1); break;
      case "ArrowRight":
        if (at.box < 0) at.box = group.boxes.length ? 0 : -1;
        else if (at.cell < 0 && this.devices(box).length) at.cell = 0;
        break;
      case "ArrowLeft":
        if (at.cell >= 0) at.cell = -1;
        else at.box = -1;
        break;
      case "Enter": case " ": { const key = this.focused(); if (key) this.enter(key); break; }
      case "+": case "=": this.map.zoom(1.3, this.map.canvas.clientWidth / 2, this.map.canvas.clientHeight / 2); break;
      case "-": this.map.zoom(1 / 1.3, this.map.canvas.clientWidth / 2, this.map.canvas.clientHeight / 2); break;
      case "0": this.map.fit(); break;
      default: return;
    }
    event.preventDefault();
    this.update();
  }

  /** focused is the key of the node or device that has the focus; empty for a group. */
  private focused(): string {
    const box = this.groups[this.at.group]?.boxes[this.at.box];
    if (!box) return "";
    const device = this.devices(box)[this.at.cell];
    return device ? "device/" + deviceKey(...device) : box.key;
  }

  /** update shows what is around the focus. */
  update(): void {
    const at = this.at;
    at.group = Math.min(at.group, this.groups.length - 1);
    const group = this.groups[at.group];
    if (!group) { fill(this.root, el("div", { role: "treeitem", id: "tree-0" }, "There are no nodes.")); return; }
    at.box = Math.min(at.box, group.boxes.length - 1);
    const items: HTMLElement[] = [];
    const level = (n: number, of: number, depth: number, text: (i: number) => string, opened: number, expandable: boolean): void => {
      for (let i = Math.max(0, (opened < 0 ? 0 : opened) - around); i < Math.min(of, (opened < 0 ? 0 : opened) + around + 1); i++) {
        const expanded = depth < 3 && i === opened && (depth === 1 ? at.box >= 0 : at.cell >= 0);
        items.push(el("div", {
          role: "treeitem", id: `tree-${depth}-${i}`, "aria-level": depth, "aria-setsize": of, "aria-posinset": i + 1,
          "aria-expanded": expandable ? String(expanded) : undefined, "aria-selected": String(i === n),
        }, text(i)));
        if (i === opened && depth === 1 && at.box >= 0) level(at.cell < 0 ? at.box : -1, group.boxes.length, 2, (k) => this.nodeText(group.boxes[k]), at.box, true);
        if (i === opened && depth === 2 && at.cell >= 0) {
          const devices = this.devices(group.boxes[at.box]);
          at.cell = Math.min(at.cell, devices.length - 1);
          level(at.cell, devices.length, 3, (k) => this.deviceText(...devices[k]), at.cell, false);
        }
      }
    };
    level(at.box < 0 ? at.group : -1, this.groups.length, 1, (i) => `${this.groups[i].title}, ${count(this.groups[i].boxes.length, this.groups[i].lane ? "pool" : "node")}`, at.group, true);
    fill(this.root, items);
    this.root.setAttribute("aria-activedescendant", at.cell >= 0 ? `tree-3-${at.cell}` : at.box >= 0 ? `tree-2-${at.box}` : `tree-1-${at.group}`);
    if (document.activeElement === this.root) {
      const box = group.boxes[at.box];
      if (box) this.map.reveal(box, at.cell >= 0);
      this.moved(this.focused());
    }
  }

  private nodeText(box: Box): string {
    const node = box.node !== undefined ? this.world.nodes.get(box.node) : undefined;
    const n = new Map<string, number>();
    for (const [, device] of this.devices(box)) n.set(stateText[device.state].name, (n.get(stateText[device.state].name) ?? 0) + 1);
    const devices = [...n].map(([state, k]) => `${k} ${state}`).join(", ") || "no devices";
    return `${box.node !== undefined ? "Node" : "Pool"} ${box.title}${node?.cordoned ? ", cordoned" : ""}${this.map.marks.lit.has(box.key) ? ", lit up" : ""}: ${devices}`;
  }

  private deviceText(pool: Pool, device: Device): string {
    const key = "device/" + deviceKey(pool, device), { lit, changed } = this.map.marks;
    return (changed.has(key) ? "Changed: " : "") + (lit.has(key) ? "Lit up: " : "") + `Device ${device.name}, ${this.world.shapes[device.shape].product}: ${stateText[device.state].name}` +
      (device.held?.length ? `, by ${[...new Set(device.held.map((h) => h.claim))].slice(0, 3).join(", ")}` : "") + (device.taints?.length ? `, taint ${device.taints.join(", ")}` : "");
  }
}
