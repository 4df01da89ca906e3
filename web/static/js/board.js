// The blackboard: what stands on it, who wrote it and when, and what it was after an earlier turn.

import { h, one, pretty, setText } from "./dom.js";
import { agentName, counted, factName, objectOf, objectsIn, studioPath, sureness } from "./copilotwords.js";

const SHOWN = 40; // entries of a part, before somebody asks for all
const KEPT = 12; // boards of earlier turns that are remembered

export class Board {
  /** `now`: `{board, iteration, turn, written}`; `turns`: the list of turns, newest first; `fetchBoard(iteration)`. */
  constructor({ root, session, now, turns, first, fetchBoard }) {
    Object.assign(this, { root, session, now, turns, first, fetchBoard });
    this.sections = one("[data-sections]", root);
    this.slider = one("#lookback", root);
    this.newest = one("[data-board-newest]", root);
    this.writes = [...now.written, ...turns.toReversed().flatMap(writesOf)];
    this.earlier = new Map(); // iteration -> the board after it
    this.looked = null; // the iteration that is looked back at; null is the newest
    this.whole = new Set(); // parts that are shown with all they hold
    this.asked = 0;
  }

  start() {
    this.slider.addEventListener("input", () => this.#look());
    this.newest.addEventListener("click", () => this.#backToNewest());
    this.sections.addEventListener("click", (event) => {
      const button = event.target.closest("[data-all]");
      if (!button) return;
      this.whole.add(button.dataset.all);
      this.#draw();
    });
    this.#setSlider();
  }

  /** A turn that is stored, with the board after it. */
  take(turn, board) {
    this.writes.push(...writesOf(turn));
    if (board) this.now = { board, iteration: turn.iteration, turn: turn.turn };
    this.#setSlider();
    if (this.looked === null && board) this.#draw({ isLive: true });
  }

  #setSlider() {
    const steps = this.#steps();
    this.slider.max = String(Math.max(0, steps.length - 1));
    const at = this.looked === null ? steps.length - 1 : Math.max(0, steps.indexOf(this.looked));
    this.slider.value = String(at);
    one("[data-lookback]", this.root).hidden = steps.length < 2;
    this.#nameSlider();
  }

  #steps() {
    return this.turns.map(({ iteration }) => iteration).toReversed();
  }

  #nameSlider() {
    const { turn } = this.#turnOf(this.looked ?? this.now.iteration) ?? this.now;
    this.slider.setAttribute("aria-valuetext", this.looked === null ? `turn ${turn}, the newest` : `turn ${turn}`);
  }

  #turnOf(iteration) {
    return this.turns.find((turn) => turn.iteration === iteration);
  }

  async #look() {
    const iteration = this.#steps()[Number(this.slider.value)];
    this.looked = iteration === undefined || iteration === this.now.iteration ? null : iteration;
    this.#nameSlider();
    const asked = (this.asked += 1);
    if (this.looked !== null && !this.earlier.has(this.looked)) {
      try {
        this.#remember(iteration, await this.fetchBoard(iteration));
      } catch (problem) {
        setText(one("[data-board-turn]", this.root), `Could not load: ${problem.message}`);
        return;
      }
    }
    if (asked === this.asked) this.#draw(); // else the slider has moved on meanwhile
  }

  #remember(iteration, board) {
    this.earlier.set(iteration, board);
    if (this.earlier.size > KEPT) this.earlier.delete(this.earlier.keys().next().value);
  }

  #backToNewest() {
    this.looked = null;
    this.asked += 1;
    this.#setSlider();
    this.#draw();
    this.slider.focus();
  }

  #draw({ isLive = false } = {}) {
    const iteration = this.looked ?? this.now.iteration;
    const board = this.looked === null ? this.now.board : this.earlier.get(this.looked);
    const parts = partsOf(board, this.#writtenBy(iteration), iteration);
    this.sections.replaceChildren(...parts.map((part) => this.#partOf(part, isLive)));
    const changes = parts.flatMap(({ entries }) => entries).filter(({ isFresh }) => isFresh).length;
    const { turn } = this.#turnOf(iteration) ?? this.now;
    const what = this.looked === null ? "" : ` · ${changes ? counted(changes, "change") : "no change"}`;
    setText(one("[data-board-turn]", this.root), turn === null || turn === undefined ? "" : `after turn ${turn}${what}`);
    one("[data-board-empty]", this.root).hidden = parts.some(({ entries }) => entries.length);
    this.newest.hidden = this.looked === null;
    this.root.classList.toggle("looking-back", this.looked !== null);
  }

  /** Who had written what last when this step was stored. */
  #writtenBy(iteration) {
    const found = new Map();
    for (const [part, name, by] of this.writes) {
      const known = found.get(`${part} ${name}`);
      if (by.iteration <= iteration && (!known || known.iteration <= by.iteration)) found.set(`${part} ${name}`, by);
    }
    return found;
  }

  #partOf({ key, title, entries }, isLive) {
    const shown = this.whole.has(key) ? entries : entries.slice(0, SHOWN);
    const list = h("ul", { class: "entries", role: "list" }, ...shown.map((entry) => this.#entryOf(entry, isLive)));
    const more = shown.length < entries.length ? h("button", { type: "button", class: "quiet", "data-all": key }, `Show all ${entries.length}`) : null;
    return h("section", { class: "board-part", "data-part": key, hidden: !entries.length }, h("h3", {}, `${title} `, h("span", { class: "count" }, String(entries.length))), list, more);
  }

  #entryOf(entry, isLive) {
    const classes = ["entry", entry.isFresh ? "changed" : "", entry.isFresh && isLive ? "flash" : ""].filter(Boolean).join(" ");
    const sure = entry.confidence === undefined || entry.confidence === null ? null : h("span", { class: "sure" }, sureness(entry.confidence));
    const mark = entry.isFresh ? h("span", { class: "flag" }, "changed") : null;
    return h("li", { class: classes, "data-name": entry.name }, h("p", { class: "entry-name" }, h("span", {}, entry.name), sure, mark), valueOf(entry.value), this.#byLine(entry));
  }

  #byLine({ by, isEngine }) {
    const line = h("p", { class: "by muted" });
    if (by) line.append("written by ", h("a", { href: studioPath(this.session, by.agent_id), title: "Open in the studio" }, by.name || agentName(by.agent_id)), ` · turn ${by.turn}`);
    else line.append(isEngine ? "written by the engine" : this.first > 0 ? "written before the turns shown here" : "given by the host");
    return line;
  }
}

/** What a turn's runs wrote: `[part, name, by]`. */
function writesOf(turn) {
  const runs = turn.turns.flatMap(({ phases }) => phases).flatMap(({ ran }) => ran);
  return runs.flatMap((run) => {
    const by = { agent_id: run.agent_id, name: run.name, turn: turn.turn, iteration: turn.iteration };
    const names = [
      ...Object.keys(objectOf(run.variables)).map((name) => ["variables", name]),
      ...Object.keys(objectOf(run.queues)).map((name) => ["queues", name]),
      ...objectsIn(run.facts).map((fact) => ["facts", factName(fact)]),
      ...Object.keys(objectOf(run.memory)).map((name) => ["memory", `${run.agent_id} · ${name}`]),
    ];
    return names.map(([part, name]) => [part, name, by]);
  });
}

const isEngines = (name) => name.startsWith("sys.");

function partsOf(board, written, iteration) {
  const { variables, queues, facts, memory } = objectOf(board);
  const remembered = Object.entries(objectOf(memory)).flatMap(([id, values]) => Object.entries(objectOf(values)).map(([name, value]) => [`${id} · ${name}`, { value }]));
  const plain = (values) => Object.entries(objectOf(values)).map(([name, value]) => [name, { value }]);
  const parts = [
    ["variables", "Variables", plain(variables).filter(([name]) => !isEngines(name))],
    ["queues", "Queues", plain(queues)],
    ["facts", "Facts", objectsIn(facts).map((fact) => [factName(fact), fact])],
    ["memory", "Memory of agents", remembered],
    ["engine", "Of the engine", plain(variables).filter(([name]) => isEngines(name))],
  ];
  const entryOf = (key, name, { value, confidence }) => {
    const by = written.get(`${key} ${name}`);
    return { name, value, confidence: key === "facts" ? confidence : null, by, isEngine: key === "engine", isFresh: by?.iteration === iteration };
  };
  return parts.map(([key, title, entries]) => ({ key, title, entries: entries.map(([name, entry]) => entryOf(key, name, entry)) }));
}

function valueOf(value) {
  if (typeof value === "string") return h("span", { class: "value text" }, value);
  if (value === null || value === undefined) return h("span", { class: "value none" }, "nothing");
  if (typeof value === "boolean") return h("span", { class: "value bool" }, value ? "yes" : "no");
  if (typeof value === "number") return h("span", { class: "value num" }, String(value));
  if (Array.isArray(value) && value.length && value.every((item) => typeof item === "string")) return h("ol", { class: "value items" }, ...value.map((item) => h("li", {}, item)));
  return h("pre", { class: "value json", tabindex: "0" }, pretty(value));
}
