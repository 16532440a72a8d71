import type { Child } from "./dom";
import { button, count, el, name, refill } from "./dom";
import type { Amount, Answer, Cause, Device, Node, Pool, Waiting, World } from "./model";
import { deviceKey, poolKey, stateText } from "./model";

// The side panel: all there is to say of a node, a device, or what waits.

export interface Actions {
  select(key: string): void;
  /** ask opens the what-if form for something; undefined if there is no server. */
  ask?: (kind: string, on: string) => void;
  explain(w: Waiting): Promise<Answer>;
  /** explained is what was said last of something that waits: it stands there until there is a newer explanation. */
  explained(w: Waiting): Answer | undefined;
}

/** title is where the focus goes when the panel opens. */
const title = (kind: string, text: string): HTMLElement => el("h2", { tabindex: -1 }, kind, name(text));

const rows = (pairs: [string, Node | Element | string | (Element | string)[] | undefined][]): HTMLElement =>
  el("dl", {}, pairs.filter(([, value]) => value !== undefined && value !== "").map(([term, value]) =>
    [el("dt", {}, term), el("dd", {}, ...(Array.isArray(value) ? value : [typeof value === "string" ? name(value) : (value as Element)]))]));

/** bars show what is left of counters or of a capacity. */
export const bars = (amounts: Amount[]): HTMLElement => el("div", { class: "bars" }, amounts.map((a) => el("div", {},
  el("span", {}, name(a.name), ` ${a.left} of ${a.total} left`),
  el("meter", { min: 0, max: 1, value: 1 - a.part, "aria-label": `${a.name}: in use` }))));

const sorted = (values: Record<string, string> | undefined): [string, string][] => Object.entries(values ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));

const list = (values: Record<string, string> | undefined): HTMLElement | undefined => {
  const pairs = sorted(values);
  return pairs.length ? el("ul", { class: "plain" }, pairs.map(([key, value]) => el("li", {}, name(key), " = ", name(value)))) : undefined;
};

export function findDevice(world: World, key: string): [Pool, Device] | undefined {
  const cut = key.lastIndexOf("/"), pool = world.pools.get(key.slice(0, cut));
  const device = pool?.devices.find((d) => d.name === key.slice(cut + 1));
  return pool && device ? [pool, device] : undefined;
}

export function deviceDetails(world: World, key: string, act: Actions): Element[] | undefined {
  const found = findDevice(world, key);
  if (!found) return undefined;
  const [pool, device] = found, shape = world.shapes[device.shape];
  const holders = (device.held ?? []).map((h) => {
    const claim = world.claims.get(h.claim);
    return el("li", {}, "claim ", name(h.claim), `, request `, name(h.request),
      claim?.pods?.length ? el("div", {}, "pod ", name(claim.pods.slice(0, 8).join(", ")), claim.pods.length > 8 ? ` and ${claim.pods.length - 8} more` : "") : null,
      el("div", { class: "faint" }, claim?.since ? `since ${claim.since.replace("T", " ").replace("Z", " UTC")}` : "since when is not known"));
  });
  const sets = (device.sets ?? []).map((i) => pool.sets![i]);
  return [
    title("Device ", device.name),
    rows([
      ["State", `${stateText[device.state].name}: ${stateText[device.state].help}`],
      ["Product", shape.product],
      ["Driver", pool.driver],
      ["Pool", pool.name],
      ["Node", pool.nodes?.length === 1 ? link(pool.nodes[0], "node/" + pool.nodes[0], act) : `${count(pool.nodes?.length ?? 0, "node")} ${(pool.nodes ?? []).slice(0, 5).join(", ")}`],
      ["Why", pool.problem ?? device.blockedBy],
      ["Held by", holders.length ? el("ul", { class: "plain" }, holders) : undefined],
      ["Taints", device.taints?.join(", ")],
      ["Capacity", device.capacity?.length ? bars(device.capacity) : list(shape.capacity)],
      ["Counters", sets.length ? el("div", {}, sets.map((s) => [el("div", {}, name(s.name)), bars(s.counters)])) : undefined],
      ["Attributes", list({ ...shape.attributes, ...device.own })],
    ]),
    act.ask ? el("p", { class: "actions" }, button("What if it is tainted?", () => act.ask!("taint", "device/" + key))) : el("p"),
  ];
}

/** shortDetails are a few lines on what the mouse or the focus of the keyboard is on: a node or pool, or a device of it. */
export function shortDetails(world: World, title: string, node: string | undefined, pool?: Pool, device?: Device): Child[] {
  if (!pool || !device) return [name(title), node !== undefined ? el("div", {}, name(world.nodes.get(node)?.kind ?? "")) : null];
  const shape = world.shapes[device.shape], most = 4;
  const capacity = device.capacity?.length ? device.capacity.map((a): [string, string] => [a.name, `${a.left} of ${a.total} left`]) : sorted(shape.capacity);
  const attributes = sorted({ ...shape.attributes, ...device.own });
  return [
    el("strong", {}, name(device.name)), ` ${stateText[device.state].name}`,
    el("div", {}, name(shape.product), " on ", name(title)),
    (device.held ?? []).slice(0, 3).map((h) => {
      const claim = world.claims.get(h.claim);
      return el("div", {}, "held by ", name(claim?.pods?.slice(0, 2).join(", ") || h.claim), claim?.since ? ` since ${claim.since.slice(0, 16).replace("T", " ")}` : "");
    }),
    device.blockedBy ? el("div", {}, name(device.blockedBy)) : null,
    pool.problem ? el("div", {}, name(pool.problem)) : null,
    device.taints?.length ? el("div", {}, "taint ", name(device.taints.join(", "))) : null,
    capacity.slice(0, most).map(([key, value]) => el("div", { class: "faint" }, name(key), " ", name(value))),
    attributes.slice(0, most).map(([key, value]) => el("div", { class: "faint" }, name(key), " = ", name(value.slice(0, 80)))),
    attributes.length > most ? el("div", { class: "faint" }, `and ${count(attributes.length - most, "more attribute")}`) : null,
  ];
}

const link = (text: string, key: string, act: Actions): HTMLElement => button(name(text), () => act.select(key), { class: "link" });

export function nodeDetails(world: World, key: string, act: Actions): Element[] | undefined {
  const node = world.nodes.get(key);
  if (!node) return undefined;
  const pools = world.own.get(key) ?? [], lanes = world.lanes.filter((p) => p.nodes?.includes(key));
  return [
    title("Node ", node.name),
    rows([
      ["Kind", node.kind],
      ["Cordoned", node.cordoned ? "yes: no pod is placed on it" : undefined],
      ["Taints", node.taints?.join(", ")],
      ["Pools of several nodes", lanes.length ? lanes.flatMap((p) => [link(p.name, "pool/" + poolKey(p), act), " "]) : undefined],
    ]),
    act.ask ? el("p", { class: "actions" }, "What if ", button("it is cordoned", () => act.ask!("cordon", key)), button("it is drained", () => act.ask!("drain", key)),
      button("its devices are tainted", () => act.ask!("taint", "node/" + key)), button("there are more like it", () => act.ask!("add", key))) : el("p"),
    ...pools.flatMap((pool) => poolTable(world, pool, act)),
    el("details", {}, el("summary", {}, "Labels"), list(node.labels) ?? el("p", {}, "none")),
  ];
}

export function poolDetails(world: World, key: string, act: Actions): Element[] | undefined {
  const pool = world.pools.get(key);
  if (!pool) return undefined;
  const nodes = pool.nodes ?? [];
  return [
    title("Pool ", pool.name),
    rows([["Driver", pool.driver], ["Reached by", nodes.length ? nodes.slice(0, 20).flatMap((n) => [link(n, "node/" + n, act), " "]).concat(nodes.length > 20 ? [`and ${nodes.length - 20} more`] : []) : "no node"]]),
    ...poolTable(world, pool, act),
  ];
}

function poolTable(world: World, pool: Pool, act: Actions): Element[] {
  const most = 200;
  return [
    el("h3", {}, name(poolKey(pool))),
    pool.problem ? el("p", { class: "bad" }, "Nothing can be allocated from it: ", name(pool.problem)) : el("p", { class: "faint" }, count(pool.devices.length, "device")),
    ...(pool.sets ?? []).slice(0, 16).map((s) => el("div", {}, name(s.name), bars(s.counters))),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "Device"), el("th", {}, "State"), el("th", {}, "Held by"))),
      el("tbody", {}, pool.devices.slice(0, most).map((d) => el("tr", {},
        el("td", {}, link(d.name, "device/" + deviceKey(pool, d), act)), el("td", {}, stateText[d.state].name),
        el("td", {}, name([...new Set((d.held ?? []).map((h) => world.claims.get(h.claim)?.pods?.join(", ") || h.claim))].join(", "))))))),
    pool.devices.length > most ? el("p", {}, `and ${pool.devices.length - most} more`) : el("p"),
  ];
}

export function waitingDetails(w: Waiting, act: Actions): Element[] {
  const head = title(`${w.kind} `, `${w.namespace}/${w.name}`);
  if (w.node !== undefined && w.answer < 0) {
    return [head, el("p", {}, "It can be placed on ", link(w.node, "node/" + w.node, act), ", with these devices, after what comes before it:"),
      el("ul", {}, (w.devices ?? []).map((d) => el("li", {}, link(`${poolKey({ driver: d.driver, name: d.pool })}/${d.device}`, `device/${d.driver}/${d.pool}/${d.device}`, act))))];
  }
  const last = act.explained(w), body = el("div", {}, last ? explanation(last, w, act) : el("p", { class: "faint" }, "Asking why …"));
  act.explain(w).then((answer) => refill(body, explanation(answer, w, act)), (err: Error) => refill(body, el("p", { class: "bad" }, err.message)));
  return [head, w.group ? el("p", {}, "Pod group ", name(w.group)) : el("p"), body,
    act.ask && w.kind === "Pod" ? el("p", { class: "actions" }, button("What if it goes?", () => act.ask!("remove", `${w.namespace}/${w.name}`))) : el("p")];
}

function explanation(answer: Answer, w: Waiting, act: Actions): Element[] {
  const sentence = (text: string): Element => el("p", {}, name(text));
  return [
    sentence(answer.error ?? answer.reason ?? w.reason ?? ""),
    w.like ? el("p", { class: "faint" }, "Refused for the same reasons as ", name(`${answer.subject.namespace}/${answer.subject.name}`), ", whose explanation this is.") : el("p"),
    answer.placedBefore > 0 ? el("p", { class: "faint" }, `Looked at after placing the ${count(answer.placedBefore, "workload")} before it.`) : el("p"),
    ...(answer.refusals ?? []).map((r, i) => el("section", { class: "refusal" },
      el("h3", {}, count(r.count, "node"), i === 0 && (answer.refusals?.length ?? 0) > 1 ? ", which come closest" : ""),
      el("p", { class: "nodes" }, r.nodes.slice(0, 12).map((n) => [link(n, "node/" + n, act), " "]), r.nodes.length > 12 ? `and ${r.nodes.length - 12} more` : ""),
      r.causes?.length ? el("ul", {}, r.causes.map(cause)) : el("p", {}, name(r.summary)),
      r.uniform ? null : el("p", { class: "faint" }, "The figures are those of ", link(r.closest, "node/" + r.closest, act), "."),
      r.explanation?.nearestMiss ? el("p", {}, "Nearest miss: ", name(r.explanation.nearestMiss)) : null)),
    ...(answer.notes ?? []).map((n) => el("p", {}, "Note: ", name(n))),
    answer.notLookedAt?.length ? el("p", {}, "Not looked at: ", name(answer.notLookedAt.join(", "))) : el("p"),
  ];
}

const cause = (c: Cause): Element => el("li", {}, name(c.text),
  c.rejections?.length ? el("ul", {}, c.rejections.map((r) => el("li", {}, name(r.text), (r.details ?? []).map((d) => el("div", { class: "faint" }, name(d)))))) : null,
  (c.hints ?? []).map((h) => el("div", { class: "faint" }, name(h))),
  c.alternatives?.length ? el("ul", {}, c.alternatives.map(cause)) : null);
