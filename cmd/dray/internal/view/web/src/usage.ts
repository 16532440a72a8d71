import { el, fill, name } from "./dom";
import type { Counts, Report, World } from "./model";

// How many devices are held, free or stranded, as dray usage counts them.

const fixed: Record<string, string> = { namespace: "namespace", workload: "workload", class: "device class", driver: "driver", node: "node" };
const most = 500;

export class Usage {
  readonly root = el("section", { class: "usage", "aria-label": "Usage", tabindex: 0 });
  private by = el("select", { id: "by", change: () => this.choose(this.by.value) });
  private body = el("div", { "aria-live": "polite" });
  private asked = "";

  /** ask gets a report of what is shown, select shows a node on the map. A file has only some reports. */
  constructor(private choose: (by: string) => void, private ask: (by: string) => Promise<Report>, private select: (key: string) => void, private only: string[] | undefined) {
    fill(this.root,
      el("p", { class: "actions" }, el("label", { for: "by" }, "Count by"), this.by),
      el("p", { class: "help" }, "A stranded device is held by nobody, and no claim could have it now: because of a taint, counters that siblings have used up, a cordoned node and the like. A device that several share counts in each of their rows."),
      el("ul", { class: "legend", "aria-label": "Signs" }, (["held", "free", "stranded"] as const).map((s) => el("li", {}, el("span", { class: "sample " + s }), " " + s))),
      this.body);
  }

  /** show counts what is shown, which has that version: it is asked for again when the version or BY is another one. */
  show(world: World, by: string, version: string): void {
    this.options(world, by);
    if (this.asked === by + " " + version) return;
    const asked = (this.asked = by + " " + version);
    this.ask(by).then(
      (report) => { if (this.asked === asked) this.report(report); },
      (err: Error) => { if (this.asked === asked) { this.asked = ""; fill(this.body, el("p", { class: "bad" }, err.message)); } });
  }

  private options(world: World, by: string): void {
    let values = this.only;
    if (!values) {
      const attributes = new Set(world.shapes.flatMap((s) => Object.keys(s.attributes ?? {})));
      values = [...Object.keys(fixed), ...[...attributes].sort().map((a) => "attribute=" + a)];
    }
    if (!values.includes(by)) values = [...values, by];
    if ([...this.by.options].map((o) => o.value).join("\n") !== values.join("\n")) {
      fill(this.by, values.map((v) => el("option", { value: v }, fixed[v] ?? v.replace("attribute=", "attribute "))));
    }
    this.by.value = by;
  }

  private report(report: Report): void {
    const { by, total } = report, widest = Math.max(1, ...report.items.map((r) => r.devices));
    const title = fixed[by] ?? by.replace("attribute=", ""), rows = report.items.slice(0, most);
    const row = (head: Element | string, c: Counts, of: number): Element => el("tr", {},
      el("th", { scope: "row" }, head, bar(c, of), c.stranded ? el("div", { class: "faint" }, "stranded: ", Object.entries(c.causes ?? {}).map(([cause, n]) => `${cause} (${n.toLocaleString("en")})`).join(", ")) : null,
        c.shares ? el("div", { class: "faint" }, `${c.shares.toLocaleString("en")} of the held with shares left`) : null),
      [c.devices, c.held, c.free, c.stranded].map((n) => el("td", {}, n.toLocaleString("en"))));
    const label = (text: string): Element => {
      if (text === "") return el("span", { class: "faint" }, by === "namespace" || by === "workload" ? "nobody" : "none");
      return by === "node" && !text.startsWith("(") ? el("button", { type: "button", class: "link", click: () => this.select("node/" + text) }, name(text)) : name(text);
    };
    fill(this.body, el("table", {},
      el("thead", {}, el("tr", {}, [title, "Devices", "Held", "Free", "Stranded"].map((t) => el("th", { scope: "col" }, t)))),
      el("tbody", {}, row("All", total, total.devices), rows.map((r) => row(label(r.name), r, widest)))),
    report.items.length > most ? el("p", {}, `and ${report.items.length - most} more: dray usage --by ${by} has them all`) : null);
  }
}

/** bar is as long as there are devices, in parts. The figures beside it say the same. */
function bar(c: Counts, of: number): Element {
  const parts = (["held", "free", "stranded"] as const).filter((s) => c[s] > 0).map((s) => {
    const part = el("span", { class: s });
    part.style.width = `${(100 * c[s]) / Math.max(1, of)}%`;
    return part;
  });
  return el("div", { class: "bar", "aria-hidden": "true" }, parts);
}
