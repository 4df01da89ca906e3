// Small helpers every page uses: elements, words for states, one way to ask the server, one way to hold buttons back.
// Text never becomes HTML: whatever users or models wrote reaches the page as text nodes only.

const SVG = "http://www.w3.org/2000/svg";

export const one = (selector, root = document) => root.querySelector(selector);
export const all = (selector, root = document) => [...root.querySelectorAll(selector)];

/** An element: `h("p", {class: "muted", hidden: true}, "text", child)`. Functions among the attributes are listeners. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An icon of the sprite. */
export function icon(name, tone = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", tone ? `icon ${tone}` : "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** What the server put into the page as JSON under an id. */
export function pageData(id) {
  const block = document.getElementById(id);
  return block ? JSON.parse(block.textContent) : null;
}

let words = null;
const vocabulary = () => (words ??= pageData("vocabulary"));

/** The word, tone and glyph of a row with a status. A wait for a moment is called sleeping. */
export function stateOf(row) {
  const status = row.status === "waiting" && row.wake_at ? "sleeping" : row.status;
  const [word, tone, glyph] = vocabulary().states[status] ?? [status ?? "unknown", "queued", "queued"];
  return { word, tone, glyph };
}

export const isFinal = (status) => vocabulary().final.includes(status);

/** A state as glyph, word and colour. */
export function stateMark(row) {
  const { word, tone, glyph } = stateOf(row);
  return h("span", { class: `state t-${tone}`, "data-glyph": glyph }, icon(glyph), h("span", { class: "word" }, word));
}

/** The two-word name of a session; the same words as `web/names.py` finds. */
export function nameFrom(id, [adjectives, nouns]) {
  let number = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(id)) number = Math.imul(number ^ byte, 0x01000193) >>> 0;
  number ^= number >>> 15;
  number = Math.imul(number, 0x2c1b3c6d) >>> 0;
  number = (number ^ (number >>> 13)) >>> 0;
  return `${adjectives[number % adjectives.length]} ${nouns[Math.floor(number / adjectives.length) % nouns.length]}`;
}

export const sessionName = (id) => nameFrom(id, vocabulary().names);

export const shortId = (id) => id.replace(/[^\p{L}\p{N}]/gu, "").slice(-6).toLowerCase() || id.slice(-6);

export const sessionPath = (id) => `/sessions/${encodeURIComponent(id)}`;

/** The first line of a text, an error or a result: what fits into a row. */
export function firstLine(value) {
  return wordsOf(value).trim().split("\n", 1)[0].slice(0, 240);
}

function wordsOf(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  const named = ["message", "text", "detail", "summary"].map((key) => value[key]);
  return named.find((text) => typeof text === "string" && text) ?? JSON.stringify(value);
}

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

export const isEmpty = (value) =>
  value === null || value === undefined || value === "" || (typeof value === "object" && !Object.keys(value).length);

/** Some fields of a row as pretty-printed JSON, each under its name; empty ones are left out. */
export function jsonParts(row, names) {
  const part = (name) => {
    const label = name === "usage" ? "Usage so far" : name.charAt(0).toUpperCase() + name.slice(1);
    const heading = h("h2", { class: name === "error" ? "part t-failed" : "part" }, label);
    return h("div", {}, heading, h("pre", { tabindex: "0", role: "group", "aria-label": label }, pretty(row[name])));
  };
  return h("div", { class: "parts" }, ...names.filter((name) => !isEmpty(row[name])).map(part));
}

/** Set a text only when it differs: an untouched node costs no layout and no announcement. */
export function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** An error answer of the server (problem+json), or none at all. */
export class Problem extends Error {
  constructor({ title, detail, status = 0, errors = [] }) {
    super(detail || title || "Something went wrong.");
    this.status = status;
    this.errors = errors;
  }
}

/** Ask the server for JSON. Throws `Problem`, also when it does not answer. */
export async function ask(method, url, body, options = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), ...options });
  } catch {
    throw new Problem({ title: "The server did not answer. Nothing is lost: try again when the connection is back." });
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem({ ...content, title: content.title ?? `The server answered ${answer.status}.`, status: answer.status });
  return content;
}

export const newKey = () =>
  crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// --- buttons that write ---------------------------------------------------------------------------------------------

let heldBecause = "";

/** A writing button may be used, or not for a reason that its tooltip gives. A lost connection holds all of them. */
export function allow(button, barredBecause = "") {
  button.dataset.write = "";
  button.dataset.barred = barredBecause;
  button.dataset.hint ??= button.title;
  settleButton(button);
}

/** Hold every writing button of the page for a reason; an empty reason lets them go. */
export function holdWrites(reason) {
  heldBecause = reason;
  all("[data-write]").forEach(settleButton);
}

function settleButton(button) {
  const reason = heldBecause || button.dataset.barred;
  button.disabled = Boolean(reason) || button.dataset.busy === "true";
  button.title = reason || button.dataset.hint;
}

const DOUBLE_CLICK_MS = 400;

/** Run `work` for a button once at a time; a double click on a fast server is still once. Answers whether it ran. */
export async function onceAtATime(button, work) {
  if (button.dataset.busy === "true" || heldBecause) return false;
  button.dataset.busy = "true";
  settleButton(button);
  try {
    await work();
    return true;
  } finally {
    setTimeout(() => {
      delete button.dataset.busy;
      settleButton(button);
    }, DOUBLE_CLICK_MS);
  }
}

// --- one line for screen readers, one bar to change one's mind --------------------------------------------------------

let sayTimer = null;

/** Announce a change of state politely, at most once a second. */
export function say(text) {
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => setText(one("[data-say]"), text), 300);
}

const UNDO_SECONDS = 6;
let undoing = null;

/** Do something after six seconds unless somebody says Undo. Leaving the page does it at once. */
export function doUnlessUndone(describe, commit, onUndo) {
  undoing?.finish(true);
  const bar = one("[data-undo]");
  let left = UNDO_SECONDS;
  const show = () => setText(one("[data-undo-text]"), describe(left));
  const finish = (isMeant) => {
    clearInterval(timer);
    removeEventListener("pagehide", leave);
    bar.hidden = true;
    undoing = null;
    if (isMeant) commit();
    else onUndo();
  };
  const leave = () => finish(true);
  const timer = setInterval(() => {
    left -= 1;
    if (left <= 0) finish(true);
    else show();
  }, 1000);
  addEventListener("pagehide", leave);
  one("[data-undo-back]").onclick = () => finish(false);
  one("[data-undo-now]").onclick = () => finish(true);
  undoing = { finish };
  bar.hidden = false;
  show();
}

export const undo = () => undoing?.finish(false);

// --- lists that grow --------------------------------------------------------------------------------------------------

/** "Show older" adds the rows of the next page to this one instead of leaving it. */
export function growList(rows, onGrown = () => {}) {
  const link = one("[data-more]");
  link?.addEventListener("click", async (event) => {
    event.preventDefault();
    if (link.dataset.busy) return;
    link.dataset.busy = "true";
    try {
      const answer = await fetch(link.href);
      if (!answer.ok) throw new Error();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = all("[data-rows] > li", page).filter((row) => !hasRow(rows, row));
      rows.append(...fresh.map((row) => document.adoptNode(row)));
      onGrown(page);
      const next = one("[data-more]", page);
      if (next) link.href = next.getAttribute("href");
      else link.remove();
    } catch {
      link.textContent = "Could not load more. Try again";
    } finally {
      delete link.dataset.busy;
    }
  });
}

function hasRow(rows, row) {
  const [key, value] = Object.entries(row.dataset).find(([name]) => name.endsWith("Id")) ?? [];
  return key ? [...rows.children].some((known) => known.dataset[key] === value) : false;
}

/** Copy buttons, and text areas that grow with what is typed. */
export function wireCommon() {
  for (const button of all("[data-copy]")) {
    button.addEventListener("click", async () => {
      await navigator.clipboard?.writeText(button.dataset.copy).catch(() => {});
      button.classList.add("copied");
      say("Copied");
      setTimeout(() => button.classList.remove("copied"), 1200);
    });
  }
  for (const area of all("[data-grow]")) {
    const grow = () => {
      area.rows = Math.min(8, Math.max(1, area.value.split("\n").length));
    };
    area.addEventListener("input", grow);
    grow();
  }
}
