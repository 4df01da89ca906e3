// The trace of one turn: a table of what it did, with bars to scale. Text first: the bars repeat what the table says.

import { ask, h, one, setText } from "./dom.js";
import { clock } from "./time.js";

const SVG = "http://www.w3.org/2000/svg";
const REFRESH_MS = 700;
const MOST_ROWS = 500;
const NARROWEST = 0.4; // percent of the width: what took no time can still be seen
const NEWEST = "";
const MARKS = { error: "failed", blocked: "held back", open: "goes on", cut: "cut off" };

export class Waterfall {
  constructor(root, timeline, toggle, api) {
    Object.assign(this, { root, timeline, toggle, api });
    this.turns = one("[data-trace-turn]", root);
    this.rows = one("[data-trace-spans]", root);
    this.more = one("[data-trace-all]", root);
    this.error = one("[data-trace-error]", root);
    this.chosen = NEWEST; // while nobody has chosen it is the newest, whichever that is
    this.most = MOST_ROWS;
    this.shown = ""; // what the rows were made from
    this.timer = null;
    this.isReading = false;
    this.isStale = false;
  }

  /** Wire it; `#trace` in the address opens it, `#trace:<id>` at one turn. */
  start(hash) {
    const asked = /^#trace(?::(.+))?$/.exec(hash);
    if (asked?.[1]) this.chosen = plainId(asked[1]);
    this.toggle.addEventListener("click", () => this.#open(this.root.hidden));
    this.turns.addEventListener("change", () => {
      this.chosen = this.turns.selectedIndex === 0 ? NEWEST : this.turns.value;
      this.most = MOST_ROWS;
      this.#read();
    });
    this.more.addEventListener("click", () => {
      this.most = Infinity;
      this.shown = "";
      this.#read();
    });
    if (asked) this.#open(true);
  }

  /** Something happened to the session: read again, but not with every step. */
  refresh() {
    if (this.root.hidden || this.timer !== null) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.#read();
    }, REFRESH_MS);
  }

  #open(isOpen) {
    this.root.hidden = !isOpen;
    this.timeline.hidden = isOpen;
    this.toggle.setAttribute("aria-pressed", String(isOpen));
    history.replaceState(null, "", isOpen ? "#trace" : location.pathname + location.search);
    if (isOpen) this.#read();
  }

  async #read() {
    if (this.isReading) {
      this.isStale = true;
      return;
    }
    this.isReading = true;
    try {
      const { items } = await ask("GET", `${this.api}/trace?limit=50`);
      this.#listTurns(items);
      const id = this.chosen || items[0]?.trace_id;
      if (id) this.#show((await ask("GET", `${this.api}/trace?${new URLSearchParams({ trace_id: id })}`)).items[0]);
      setText(this.error, "");
      if (items.some(({ status }) => status === "running")) this.refresh();
    } catch (problem) {
      setText(this.error, `Trace: ${problem.message}`);
    } finally {
      this.isReading = false;
    }
    if (this.isStale) {
      this.isStale = false;
      this.refresh();
    }
  }

  #listTurns(traces) {
    const labels = traces.map((trace) => [trace.trace_id, labelOf(trace)]);
    const known = [...this.turns.options].map((option) => [option.value, option.textContent]);
    if (JSON.stringify(labels) === JSON.stringify(known)) return;
    this.turns.replaceChildren(...labels.map(([id, label]) => h("option", { value: id }, label)));
    const at = labels.findIndex(([id]) => id === this.chosen);
    if (at < 0) this.chosen = NEWEST;
    this.turns.selectedIndex = Math.max(at, 0);
  }

  #show(trace) {
    const made = JSON.stringify([trace.trace_id, trace.spans]);
    if (made === this.shown) return;
    this.shown = made;
    setText(one("[data-trace-sums]", this.root), sumsOf(trace));
    const spans = trace.spans.slice(0, this.most);
    const whole = Math.max(trace.spans[0].ms, 1);
    const depths = new Map([[null, -1]]);
    const rows = document.createDocumentFragment();
    for (const span of spans) {
      const depth = (depths.get(span.parent) ?? 0) + 1;
      depths.set(span.id, depth);
      rows.append(rowOf(span, Math.min(depth, 2), whole));
    }
    this.rows.replaceChildren(rows);
    this.more.hidden = spans.length === trace.spans.length;
    setText(this.more, `Show all ${trace.spans.length} spans`);
  }
}

function plainId(encoded) {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return NEWEST; // an address that somebody has cut
  }
}

function labelOf(trace) {
  const took = trace.duration_ms === null ? "" : ` · ${duration(trace.duration_ms)}`;
  return `${clock(trace.started_at)} · ${trace.kind} · ${trace.status}${took}`;
}

function sumsOf(trace) {
  const tokens = trace.input_tokens + trace.output_tokens;
  const parts = [
    `${trace.steps} ${trace.steps === 1 ? "step" : "steps"}`,
    trace.calls ? `${trace.calls} model ${trace.calls === 1 ? "call" : "calls"}` : null,
    tokens ? `${tokens.toLocaleString("en")} tokens` : null,
    trace.cost === null ? null : `cost ${money(trace.cost)}`,
    trace.wait_ms === null ? null : `waited ${duration(trace.wait_ms)}`,
    trace.left_out ? `${trace.left_out} left out` : null,
  ];
  return parts.filter(Boolean).join(" · ");
}

function rowOf(span, depth, whole) {
  const { facts } = span;
  const tokens = (facts.input_tokens ?? 0) + (facts.output_tokens ?? 0);
  const mark = MARKS[span.status] ? h("div", { class: "fault" }, [MARKS[span.status], span.error].filter(Boolean).join(": ")) : null;
  const told = [facts.purpose, facts.verdict ?? facts.decision].filter(Boolean).join(", ");
  const cells = [
    h("td", { class: "what" }, told ? `${span.name} (${told})` : span.name, mark),
    h("td", { class: "kind" }, span.kind),
    h("td", { class: "num" }, duration(span.start_ms)),
    h("td", { class: "num" }, duration(span.ms)),
    h("td", { class: "num" }, tokens ? tokens.toLocaleString("en") : ""),
    h("td", { class: "num" }, facts.cost === undefined ? "" : money(facts.cost)),
    h("td", { class: "bars" }, barOf(span, whole)),
  ];
  return h("tr", { class: `deep-${depth} k-${span.kind} t-${span.status}`, "data-span": span.id }, ...cells);
}

function barOf(span, whole) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const bar = document.createElementNS(SVG, "rect");
  const width = Math.min(100, Math.max(NARROWEST, (span.ms / whole) * 100));
  const from = Math.max(0, Math.min((span.start_ms / whole) * 100, 100 - width));
  for (const [name, value] of Object.entries({ x: `${from}%`, width: `${width}%`, height: "10", rx: "2" })) bar.setAttribute(name, value);
  svg.append(bar);
  return svg;
}

const money = (cost) => cost.toLocaleString("en", { maximumSignificantDigits: 3 });

/** "12 ms", "3.4 s", "5 min 02 s". */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor((seconds % 3600) / 60)).padStart(2, "0")} min`;
}
