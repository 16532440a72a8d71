// What is looked at stands in the fragment of the URL, so that a link shows the same.

export interface ViewState {
  tab: string; // map, usage or whatif
  by: string; // what usage counts by
  group: string; // kind, pool or label:KEY
  find: string;
  /** select is node/NAME, device/KEY or wait/KIND/NAMESPACE/NAME; empty for nothing. */
  select: string;
}

const initial: ViewState = { tab: "map", by: "namespace", group: "kind", find: "", select: "" };

export function read(): ViewState {
  const params = new URLSearchParams(location.hash.slice(1));
  const state = { ...initial };
  for (const key of Object.keys(initial) as (keyof ViewState)[]) state[key] = params.get(key) ?? initial[key];
  if (!["map", "usage", "whatif"].includes(state.tab)) state.tab = initial.tab;
  return state;
}

export function write(state: ViewState): void {
  const params = new URLSearchParams();
  for (const key of Object.keys(initial) as (keyof ViewState)[]) if (state[key] !== initial[key]) params.set(key, state[key]);
  const text = params.toString();
  // The token that was in the address is a cookie now: it does not belong into a link, nor into the history.
  history.replaceState(null, "", location.protocol === "file:" ? "#" + text : "/" + (text ? "#" + text : ""));
}
