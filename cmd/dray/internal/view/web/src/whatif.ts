import fallback from "../../../../../../examples/prioritized-fallback/workload.yaml";
import gang from "../../../../../../examples/gang-halves/pods.yaml";
import gpuNIC from "../../../../../../examples/gpu-nic-pcie/workload.yaml";
import partitions from "../../../../../../examples/mig-partitions/claims.yaml";
import bandwidth from "../../../../../../examples/shared-nic-bandwidth/workload.yaml";
import singleGPU from "../../../../../../examples/single-gpu/workload.yaml";
import zones from "../../../../../../examples/network-attached-zones/workload.yaml";
import { button, el, fill, name } from "./dom";
import type { Outcome, World } from "./model";
import { counts, states, stateText } from "./model";

// The forms of what if. Nothing is written to the cluster: the server computes on a copy.

export interface Change {
  yaml?: string; taint?: { taint: string; driver?: string; pool?: string; device?: string; node?: string };
  cordon?: string[]; drain?: string[]; remove?: string[]; add?: Record<string, number>;
}

const kinds: Record<string, string> = {
  taint: "Taint devices", cordon: "Cordon a node", drain: "Drain a node", add: "Add nodes like one", remove: "Remove a pod", yaml: "Add pods or claims",
};

// Templates are files of the examples, each with what it asks for.
const templates: Record<string, string> = {
  "a GPU, any or a large one": singleGPU, "a GPU and a NIC of one PCIe root": gpuNIC, "partitions of a GPU": partitions, "a share of a NIC's bandwidth": bandwidth,
  "the best GPU, or a second or third choice": fallback, "a claim that several pods share": zones, "pods that start together": gang,
};

export class WhatIf {
  readonly root = el("section", { class: "whatif", "aria-label": "What if" });
  private kind = el("select", { id: "ask-kind", change: () => this.fields() }, Object.entries(kinds).map(([value, text]) => el("option", { value }, text)));
  private form = el("div");
  private answer = el("div", { role: "status" });
  private inputs: Record<string, HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement> = {};

  constructor(private post: (change: Change) => Promise<Outcome>, private world: () => World, private show: (outcome: Outcome | undefined) => { before: World; after: World } | undefined) {
    fill(this.root,
      el("h2", {}, "What if"), el("p", { class: "faint" }, "Tried on a copy of what is shown. Nothing is written to the cluster."),
      el("form", { submit: (e: Event) => { e.preventDefault(); void this.ask(); } },
        el("label", { for: "ask-kind" }, "Change"), this.kind, this.form,
        el("p", { class: "actions" }, el("button", { type: "submit", class: "primary" }, "Try"), button("Back to what is", () => this.clear()))),
      this.answer);
    this.fields();
  }

  private input(key: string, label: string, value = "", options?: string[]): Element[] {
    const id = "ask-" + key, entry = el("input", { id, value, list: options ? id + "-list" : undefined, autocomplete: "off", spellcheck: "false" });
    this.inputs[key] = entry;
    return [el("label", { for: id }, label), entry, options ? el("datalist", { id: id + "-list" }, options.slice(0, 1000).map((o) => el("option", { value: o }))) : el("span")];
  }

  private fields(): void {
    this.inputs = {};
    const nodes = [...this.world().nodes.keys()];
    switch (this.kind.value) {
      case "taint":
        fill(this.form, this.input("taint", "Taint, KEY[=VALUE]:EFFECT", "example.com/broken:NoSchedule"), this.input("node", "Node (empty for any)", "", nodes), this.input("driver", "Driver"), this.input("pool", "Pool"), this.input("device", "Device"));
        break;
      case "add":
        fill(this.form, this.input("node", "Node that they are like", "", nodes), this.input("count", "How many", "1"));
        this.inputs.count.setAttribute("inputmode", "numeric");
        break;
      case "remove":
        fill(this.form, this.input("pod", "Pod, NAMESPACE/NAME", "", [...new Set([...this.world().claims.values()].flatMap((c) => (c.pods ?? []).map((p) => `${c.namespace}/${p}`)))]));
        break;
      case "yaml": {
        const text = el("textarea", { id: "ask-yaml", rows: 16, spellcheck: "false" });
        this.inputs.yaml = text;
        const choose = el("select", { id: "ask-template", change: () => { text.value = templates[choose.value] ?? ""; } }, el("option", { value: "" }, "choose …"), Object.keys(templates).map((t) => el("option", {}, t)));
        fill(this.form, el("label", { for: "ask-template" }, "Begin with"), choose, el("label", { for: "ask-yaml" }, "Manifests (YAML)"), text);
        break;
      }
      default: fill(this.form, this.input("node", "Node", "", nodes));
    }
  }

  private value = (key: string): string => this.inputs[key]?.value.trim() ?? "";

  private change(): Change {
    switch (this.kind.value) {
      case "taint": return { taint: { taint: this.value("taint"), node: this.value("node"), driver: this.value("driver"), pool: this.value("pool"), device: this.value("device") } };
      case "add": return { add: { [this.value("node")]: Math.trunc(Number(this.value("count"))) || 0 } };
      case "remove": return { remove: [this.value("pod")] };
      case "yaml": return { yaml: this.inputs.yaml.value };
      case "drain": return { drain: [this.value("node")] };
      default: return { cordon: [this.value("node")] };
    }
  }

  /** start fills in the form for something of the map. */
  start(kind: string, on: string): void {
    this.kind.value = kind;
    this.fields();
    const set = (key: string, value: string): void => { if (this.inputs[key]) this.inputs[key].value = value; };
    if (on.startsWith("device/")) {
      const [driver, ...rest] = on.slice(7).split("/");
      set("driver", driver); set("pool", rest.slice(0, -1).join("/")); set("device", rest.at(-1) ?? "");
    } else if (kind === "remove") set("pod", on);
    else set("node", on.replace(/^node\//, ""));
    this.kind.focus();
  }

  clear(): void {
    this.show(undefined);
    fill(this.answer);
  }

  private async ask(): Promise<void> {
    fill(this.answer, el("p", { class: "faint" }, "Trying …"));
    try {
      const outcome = await this.post(this.change()), both = this.show(outcome);
      if (both) this.report(outcome, both.before, both.after);
    } catch (err) {
      this.show(undefined);
      fill(this.answer, el("h3", {}, "That is not possible"), el("ul", { class: "bad" }, (err as Error).message.split("\n").map((line) => el("li", {}, name(line)))));
    }
  }

  private report(outcome: Outcome, before: World, after: World): void {
    const was = counts(before), is = counts(after), without = (w: World): number => w.waiting.filter((x) => x.answer >= 0).length;
    const row = (title: string, a: number, b: number): Element => el("tr", { class: a === b ? "" : "differs" }, el("th", { scope: "row" }, title), el("td", {}, String(a)), el("td", {}, String(b)));
    fill(this.answer,
      el("h3", {}, "Before and after"),
      el("table", {}, el("thead", {}, el("tr", {}, el("td"), el("th", { scope: "col" }, "Before"), el("th", { scope: "col" }, "After"))),
        el("tbody", {}, row("nodes", before.nodes.size, after.nodes.size), states.filter((s) => was[s] || is[s]).map((s) => row(stateText[s].name, was[s], is[s])),
          row("waiting without a place", without(before), without(after)), row("waiting that can be placed", before.waiting.length - without(before), after.waiting.length - without(after)))),
      el("h3", {}, "In a terminal"),
      outcome.commands.map((c) => el("pre", { tabindex: 0 }, c)),
      outcome.manifests ? el("details", {}, el("summary", {}, "with this on standard input"), el("pre", { tabindex: 0 }, outcome.manifests)) : null);
  }
}
