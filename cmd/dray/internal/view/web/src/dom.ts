// Elements without markup: text is never parsed.

export type Child = Element | string | null | undefined | false | Child[];
type Handler = (event: Event) => void;
type Attributes = Record<string, string | number | boolean | Handler | undefined>;

/** el makes an element. Handlers are those attributes that are functions, by the name of the event. */
export function el<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  add(element, children);
  return element;
}

function add(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (typeof child === "string") element.append(clean(child));
    else if (child) element.append(child);
  }
}

/** fill replaces what is in an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  add(element, children);
}

/** refill replaces what is in an element that people may be in: the focus, open details and the scroll position stay. */
export function refill(element: HTMLElement, ...children: Child[]): void {
  const focus = element.contains(document.activeElement) ? placeOf(element, document.activeElement!) : undefined;
  const opened = new Set([...element.querySelectorAll("details")].filter((d) => d.open).map(textOf));
  const top = element.scrollTop;
  fill(element, ...children);
  for (const d of element.querySelectorAll("details")) d.open ||= opened.has(textOf(d));
  element.scrollTop = top;
  if (focus) (focusable(element).filter((e) => textOf(e) === focus.text)[focus.among] ?? focusable(element)[focus.at] ?? focusable(element).at(-1))?.focus({ preventScroll: true });
}

const focusable = (element: Element): HTMLElement[] => [...element.querySelectorAll<HTMLElement>("button, summary, select, input, textarea, [tabindex]")];
const textOf = (element: Element): string =>
  `${element.tagName} ${element.getAttribute("data-key") ?? element.getAttribute("aria-label") ?? (element.querySelector("summary") ?? element).textContent}`;

/** placeOf says where the focus is: on which element of that text, and how many there are before it. */
function placeOf(element: Element, focused: Element): { text: string; among: number; at: number } {
  const all = focusable(element), text = textOf(focused);
  return { text, among: all.filter((e) => textOf(e) === text).indexOf(focused as HTMLElement), at: all.indexOf(focused as HTMLElement) };
}

// What has no glyph, or changes the direction or order of what is around it.
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** clean shows characters that would change how other text looks as what they are. */
export function clean(text: string): string {
  return text.replace(unsafe, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** name is text of the cluster: it has a direction of its own. */
export const name = (text: string): HTMLElement => el("bdi", {}, text);

export const button = (label: Child, act: Handler, attributes: Attributes = {}): HTMLButtonElement =>
  el("button", { type: "button", click: act, ...attributes }, label);

/** count is "1 node" or "2 nodes". */
export const count = (n: number, noun: string): string => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
