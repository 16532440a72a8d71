// What the server sends: the types of picture.go, devices.go, waiting.go, delta.go and whatif.go.

export const states = ["free", "used", "shared", "blocked", "tainted", "unusable", "unreached"] as const;
export type State = (typeof states)[number];

export const stateText: Record<State, { name: string; help: string }> = {
  free: { name: "free", help: "can be allocated now" },
  used: { name: "held", help: "held by a claim" },
  shared: { name: "shared in part", help: "held by claims, and more shares may be had" },
  blocked: { name: "blocked", help: "free, but siblings have used up the counters that it draws on" },
  tainted: { name: "tainted", help: "free, but a taint keeps claims away that do not tolerate it" },
  unusable: { name: "unusable", help: "its pool cannot be used: slices are missing or contradict each other" },
  unreached: { name: "not reachable", help: "free, but no node reaches it" },
};

export interface Amount { name: string; left: string; total: string; part: number }
export interface Shape { product: string; attributes?: Record<string, string>; capacity?: Record<string, string>; shared?: boolean }
export interface Held { claim: string; request: string }
export interface Device {
  name: string; shape: number; state: State; own?: Record<string, string>; sets?: number[]; taints?: string[];
  capacity?: Amount[]; held?: Held[]; blockedBy?: string;
}
export interface CounterSet { name: string; counters: Amount[]; whole: number }
export interface Pool { driver: string; name: string; nodes?: string[]; problem?: string; sets?: CounterSet[]; devices: Device[] }
export interface Node { name: string; kind: string; labels?: Record<string, string>; cordoned?: boolean; taints?: string[] }
export interface Claim { namespace: string; name: string; pods?: string[]; since?: string }
export interface Taken { driver: string; pool: string; device: string }
export interface Waiting {
  kind: string; namespace: string; name: string; group?: string; node?: string; devices?: Taken[];
  reason?: string; answer: number; like?: boolean; nearest?: string[];
}
export interface Picture {
  revision: number; source: string; time: string; nodes: Node[]; shapes: Shape[]; pools: Pool[];
  claims: Record<string, Claim>; waiting: Waiting[]; notes?: string[];
}
export interface Delta {
  from: number; revision: number; time: string; nodes?: Record<string, Node | null>; pools?: Record<string, Pool | null>;
  claims?: Record<string, Claim | null>; shapes?: Shape[]; waiting?: Waiting[]; notes?: string[];
}
export interface Counts { devices: number; held: number; shares?: number; free: number; stranded: number; causes?: Record<string, number> }
/** Report is that of dray usage. A row without a name has what belongs nowhere. */
export interface Report { by: string; items: (Counts & { name: string })[]; total: Counts }
export interface Outcome { number: number; delta?: Delta; picture?: Picture; commands: string[]; manifests?: string }
export interface Cause { text: string; rejections?: { text: string; details?: string[] }[]; hints?: string[]; alternatives?: Cause[] }
export interface Refusal {
  count: number; nodes: string[]; summary: string; uniform: boolean; closest: string; causes?: Cause[];
  explanation?: { nearestMiss?: string };
}
export interface Answer {
  subject: { kind: string; namespace: string; name: string }; placedBefore: number; node?: string; reason?: string; error?: string;
  refusals?: Refusal[]; notes?: string[]; notLookedAt?: string[]; alike?: string[];
}

/** poolKey is by what deltas call a pool. */
export const poolKey = (pool: { driver: string; name: string }): string => pool.driver + "/" + pool.name;

/** World is a picture with its parts by name. It is replaced when it changes, as are its parts. */
export interface World {
  revision: number; source: string; time: string;
  nodes: Map<string, Node>; pools: Map<string, Pool>; claims: Map<string, Claim>; shapes: Shape[]; waiting: Waiting[]; notes: string[];
  /** own are the pools that only that node reaches, lanes those that several nodes reach, or none. */
  own: Map<string, Pool[]>; lanes: Pool[];
}

export function worldOf(p: Picture): World {
  return indexed({
    revision: p.revision, source: p.source, time: p.time, shapes: p.shapes, waiting: p.waiting, notes: p.notes ?? [],
    nodes: new Map(p.nodes.map((n) => [n.name, n])), pools: new Map(p.pools.map((x) => [poolKey(x), x])),
    claims: new Map(Object.entries(p.claims)), own: new Map(), lanes: [],
  });
}

function indexed(w: World): World {
  w.own = new Map();
  w.lanes = [];
  for (const pool of w.pools.values()) {
    const only = pool.nodes?.length === 1 ? pool.nodes[0] : undefined;
    if (only === undefined) {
      w.lanes.push(pool);
    } else if (w.own.has(only)) {
      w.own.get(only)!.push(pool);
    } else {
      w.own.set(only, [pool]);
    }
  }
  return w;
}

function patched<T>(map: Map<string, T>, parts: Record<string, T | null> | undefined): Map<string, T> {
  if (!parts) return map;
  const next = new Map(map);
  for (const [name, part] of Object.entries(parts)) {
    if (part === null) next.delete(name);
    else next.set(name, part);
  }
  return next;
}

/** applied is the world after a delta. */
export function applied(w: World, d: Delta): World {
  return indexed({
    ...w, revision: d.revision, time: d.time, nodes: patched(w.nodes, d.nodes), pools: patched(w.pools, d.pools), claims: patched(w.claims, d.claims),
    shapes: d.shapes ? w.shapes.concat(d.shapes) : w.shapes, waiting: d.waiting ?? w.waiting, notes: d.notes ?? w.notes,
  });
}

/** deviceKey names a device: driver/pool/device. Neither of the three has a slash but the pool. */
export const deviceKey = (pool: Pool, device: Device): string => poolKey(pool) + "/" + device.name;

/** changedDevices are the keys of devices that differ in what the map shows. */
export function changedDevices(before: World, after: World): Set<string> {
  const changed = new Set<string>();
  for (const [key, pool] of after.pools) {
    const old = before.pools.get(key);
    if (old === pool) continue;
    const known = new Map(old?.devices.map((d) => [d.name, d]));
    for (const device of pool.devices) {
      const then = known.get(device.name);
      if (!then || then.state !== device.state || JSON.stringify(then.held) !== JSON.stringify(device.held)) changed.add(deviceKey(pool, device));
    }
  }
  return changed;
}

/** counts is how many devices are in each state. */
export function counts(w: World): Record<State, number> {
  const n = Object.fromEntries(states.map((s) => [s, 0])) as Record<State, number>;
  for (const pool of w.pools.values()) for (const device of pool.devices) n[device.state]++;
  return n;
}
