// The steps of a session as a window over a list that may be long: at most `MAX_ROWS` rows are in the page at any time.
// It sticks to the newest row only while the reader is there; otherwise a pill counts what is new below.

import { all, allow, h, icon, isEmpty, jsonParts, newKey, one, setText, stateOf } from "./dom.js";
import { ageOf, exact } from "./time.js";
import { costOf, spanTakenBack, stepLine, tokensOf } from "./words.js";

const MAX_ROWS = 190; // with ten elements a row this keeps the page under 2,500
const PAGE = 100;
const NEAR_PX = 40;
const QUIET_STATUSES = ["running", "created", "ok"];
const PARTS = ["data", "state", "guidance", "notes", "error", "usage"];

export class Timeline {
  constructor({ scroll, list, pill, earlier, empty, running, fetchSteps, fork }) {
    Object.assign(this, { scroll, list, pill, earlier, empty, running, fetchSteps, fork });
    this.steps = new Map(); // what is known of the rows in the page, for their details
    this.last = this.#lastShown();
    this.newestKnown = this.last;
    this.unseen = 0;
    this.away = 0;
    this.isLoading = false;
    this.isFollowing = true;
  }

  /** Wire the list and show its end, or the step that the address names. */
  start(wanted) {
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest(".step-row");
      if (row) this.#toggle(row);
    });
    this.scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.scroll.addEventListener("follow", () => this.toEnd());
    this.pill.addEventListener("click", () => this.toEnd());
    this.earlier.addEventListener("click", () => this.#showEarlier());
    this.#markTakeovers();
    if (Number.isInteger(wanted)) this.#showStep(wanted);
    else this.#stick();
    new ResizeObserver(() => {
      if (this.isFollowing) this.#stick();
    }).observe(this.scroll);
  }

  /** New steps in order. `how.isAfterAway` puts a line above them. */
  add(steps, how) {
    const isAtEnd = this.#isAtEnd();
    const isShowingNewest = this.#lastShown() === this.newestKnown;
    this.newestKnown = steps.at(-1).iteration;
    this.last = this.newestKnown;
    this.empty.hidden = true;
    one(".now", this.list)?.remove();
    this.running.drop(this.last);
    const hasRoom = isAtEnd || this.list.children.length + steps.length <= MAX_ROWS;
    if (isShowingNewest && hasRoom) this.#append(steps, how);
    if (isAtEnd && isShowingNewest) this.#stick();
    else this.unseen += steps.length;
    this.#showPill();
  }

  /** A sign of life of the step that runs now; gone when the step is stored. */
  showToken(event, iteration) {
    if ((event.iteration ?? iteration) < iteration || this.#lastShown() !== this.newestKnown) return;
    const text = event.data?.text ?? event.text ?? (typeof event.data === "string" ? event.data : event.kind);
    if (!text) return;
    const isAtEnd = this.#isAtEnd();
    let row = one(".now", this.list);
    if (!row) {
      row = h("li", { class: "now", "aria-hidden": "true" }, icon("running", "t-running"), h("span", { class: "line" }));
      this.list.append(row);
    }
    const line = one(".line", row);
    const isToken = event.kind === "token";
    setText(line, (isToken ? line.textContent + text : String(text)).slice(-240));
    if (isAtEnd) this.#stick();
  }

  /** Change what the running step says: it stands under the newest row, and is not shown without it. */
  showRunning(change = () => {}) {
    const isAtEnd = this.#isAtEnd();
    change();
    const { place, isEmpty: saysNothing } = this.running;
    place.hidden = saysNothing || this.#lastShown() !== this.newestKnown;
    if (isAtEnd && !place.hidden) this.#stick();
  }

  /** Show the newest steps and stay with them. */
  async toEnd() {
    if (this.#lastShown() !== this.newestKnown) await this.#load({ order: "desc", limit: PAGE }, (steps) => this.#replace(steps.reverse()));
    this.#stick();
    this.#showPill();
  }

  #append(steps, how) {
    const shown = steps.slice(1 - MAX_ROWS); // after a long absence only the newest are worth drawing
    if (shown.length < steps.length) this.list.replaceChildren();
    if (how?.isAfterAway) this.#countAway(steps.length);
    else this.away = 0;
    for (const step of shown) this.list.append(...this.#rows(step, this.#epochBefore()));
    this.#drawn("firstElementChild");
  }

  /** After rows were added: mark what is taken back, keep the window small at one end, offer what is before it. */
  #drawn(endToTrim) {
    this.showRunning();
    for (const row of all("[data-takes-back]", this.list)) {
      const [first, last] = row.dataset.takesBack.split(" ").map(Number);
      for (let iteration = first; iteration <= last; iteration += 1) markTakenBack(this.#rowOf(iteration));
    }
    if (endToTrim) this.#trim(endToTrim);
    this.#showEarlierButton();
  }

  /** A line over the first of the steps that came while nobody looked; they come in pages. */
  #countAway(count) {
    this.away += count;
    const known = this.away > count ? one("[data-away]", this.list) : null;
    const line = divider(`${this.away} ${this.away === 1 ? "step" : "steps"} while you were away`);
    line.dataset.away = "";
    if (known) known.replaceWith(line);
    else this.list.append(line);
  }

  #rows(step, epochBefore) {
    this.steps.set(step.iteration, step);
    const row = rowOf(step);
    const isTakenOver = epochBefore !== null && step.epoch > epochBefore;
    return isTakenOver ? [takeover(step.iteration), row] : [row];
  }

  #epochBefore() {
    const epoch = all("[data-epoch]", this.list).at(-1)?.dataset.epoch;
    return epoch ? Number(epoch) : null;
  }

  /** Draw the lines between steps of different owners that the server rendered. */
  #markTakeovers() {
    let before = null;
    for (const row of all("[data-iteration]", this.list)) {
      const epoch = row.dataset.epoch ? Number(row.dataset.epoch) : null;
      if (before !== null && epoch > before) row.before(takeover(Number(row.dataset.iteration)));
      before = epoch ?? before;
    }
  }

  #replace(steps) {
    this.steps.clear();
    this.list.replaceChildren();
    let epoch = null;
    for (const step of steps) {
      this.list.append(...this.#rows(step, epoch));
      epoch = step.epoch ?? epoch;
    }
    if (steps.length) this.newestKnown = Math.max(this.newestKnown, steps.at(-1).iteration);
    this.#drawn();
  }

  async #showEarlier() {
    const first = this.#firstShown();
    const isFocused = document.activeElement === this.earlier;
    await this.#load({ max_iteration: first - 1, order: "desc", limit: PAGE }, (steps) => {
      const height = this.scroll.scrollHeight;
      const fragment = document.createDocumentFragment();
      for (const step of steps.reverse()) fragment.append(...this.#rows(step, null));
      this.list.prepend(fragment);
      this.scroll.scrollTop += this.scroll.scrollHeight - height;
      this.#drawn("lastElementChild");
      if (isFocused && !this.earlier.hidden) this.earlier.focus({ preventScroll: true });
    });
  }

  /** The reader reached the end of a window that does not end at the newest step: go on below. */
  async #showLater() {
    await this.#load({ min_iteration: this.#lastShown() + 1, order: "asc", limit: PAGE }, (steps) => {
      for (const step of steps) this.list.append(...this.#rows(step, this.#epochBefore()));
      const top = this.scroll.scrollHeight;
      this.#drawn("firstElementChild");
      this.scroll.scrollTop -= top - this.scroll.scrollHeight;
    });
  }

  async #showStep(iteration) {
    if (!this.#rowOf(iteration) && iteration <= this.newestKnown) {
      const from = Math.max(0, iteration - PAGE / 2);
      await this.#load({ min_iteration: from, max_iteration: from + PAGE - 1, order: "asc", limit: PAGE }, (steps) => this.#replace(steps));
    }
    const row = this.#rowOf(iteration);
    if (!row) return this.#stick();
    row.classList.add("ringed");
    row.scrollIntoView({ block: "center" });
    this.isFollowing = false;
    return this.#toggle(one(".step-row", row));
  }

  async #load(query, use) {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      use(await this.fetchSteps(query));
    } catch (problem) {
      setText(this.earlier, `Could not load: ${problem.message}`);
    } finally {
      this.isLoading = false;
    }
  }

  #trim(end) {
    while (this.list.children.length > MAX_ROWS) {
      const row = this.list[end];
      this.steps.delete(Number(row.dataset.iteration));
      row.remove();
    }
  }

  // --- following -------------------------------------------------------------------------------------------------------

  #isAtEnd() {
    return this.isFollowing || this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR_PX;
  }

  #stick() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.isFollowing = true;
    this.unseen = 0;
  }

  #scrolled() {
    const isNear = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR_PX;
    const isNewest = this.#lastShown() === this.newestKnown;
    this.isFollowing = isNear && isNewest;
    if (this.isFollowing) this.unseen = 0;
    else if (isNear) this.#showLater();
    this.#showPill();
  }

  #showPill() {
    const isBehind = !this.isFollowing && (this.unseen > 0 || this.#lastShown() !== this.newestKnown);
    this.pill.hidden = !isBehind;
    setText(this.pill, this.unseen ? `${this.unseen} new ↓` : "Newest ↓");
  }

  #showEarlierButton() {
    const first = this.#firstShown();
    this.earlier.hidden = first === null || first === 0;
    setText(this.earlier, "Show earlier");
  }

  #rowOf(iteration) {
    return one(`[data-iteration="${iteration}"]`, this.list);
  }

  #firstShown() {
    const row = one("[data-iteration]", this.list);
    return row ? Number(row.dataset.iteration) : null;
  }

  #lastShown() {
    let row = this.list.lastElementChild;
    while (row && row.dataset.iteration === undefined) row = row.previousElementSibling;
    return row ? Number(row.dataset.iteration) : -1;
  }

  // --- details ---------------------------------------------------------------------------------------------------------

  async #toggle(button) {
    const row = button.closest("li");
    const isOpen = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!isOpen));
    one(".detail", row)?.remove();
    if (isOpen) return;
    const detail = h("div", { class: "detail", id: `detail-${row.dataset.iteration}` }, h("p", { class: "muted" }, "Loading…"));
    button.setAttribute("aria-controls", detail.id);
    row.append(detail);
    try {
      const step = await this.#stepOf(Number(row.dataset.iteration));
      detail.replaceChildren(...partsOf(step), ...(step ? [this.#forkButton(step.iteration)] : []));
    } catch (problem) {
      detail.replaceChildren(h("p", { class: "t-failed" }, problem.message));
    }
    this.isFollowing = false; // who opens a step reads it
    row.scrollIntoView({ block: "nearest" });
  }

  /** Begins a session of its own with what this one had after the step. */
  #forkButton(iteration) {
    const button = h("button", { type: "button", title: "Begins a session with what this one had after the step", "data-fork": iteration, "data-action": `Fork from step ${iteration}` }, "Fork from here");
    const error = h("p", { class: "field-error", role: "alert" });
    allow(button);
    const key = newKey(); // asked again after a lost answer, it is the same fork
    button.addEventListener("click", () => this.fork(iteration, key, button, error));
    return h("div", { class: "fork" }, button, error);
  }

  async #stepOf(iteration) {
    const known = this.steps.get(iteration);
    if (known) return known;
    const [step] = await this.fetchSteps({ min_iteration: iteration, max_iteration: iteration, limit: 1 });
    this.steps.set(iteration, step);
    return step;
  }
}

const hasFailed = (step) => !isEmpty(step.error) || step.status === "error";

function glyphOf(step) {
  if (hasFailed(step)) return icon("cross", "t-failed");
  if (QUIET_STATUSES.includes(step.status)) return icon("dot", "t-quiet");
  const { tone, glyph } = stateOf(step);
  return icon(glyph, tone === "waiting" ? "t-waiting" : "t-quiet");
}

function rowOf(step) {
  const failed = hasFailed(step);
  const row = h("li", { class: failed ? "step failed fresh" : "step fresh", id: `step-${step.iteration}`, "data-iteration": step.iteration, "data-epoch": step.epoch, "data-takes-back": spanTakenBack(step)?.join(" ") });
  const tokens = h("span", { class: "tokens" }, `${step.step_token ?? ""} `, h("span", { class: "to" }, `→ ${step.next_step_token || "end"}`));
  const took = step.latency_ms === null || step.latency_ms === undefined ? "" : `${Math.round(step.latency_ms)} ms`;
  row.append(
    h(
      "button",
      { type: "button", class: "step-row", "aria-expanded": "false" },
      h("span", { class: "num at" }, String(step.iteration)),
      glyphOf(step),
      tokens,
      h("span", { class: "line" }, h("span", { class: "said" }, stepLine(step))),
      h("span", { class: "num took" }, took),
      ageOf(step.created_at, "num age"),
    ),
  );
  return row;
}

function divider(text) {
  return h("li", { class: "divider" }, h("span", {}, text));
}

function markTakenBack(row) {
  if (!row || row.classList.contains("taken-back")) return;
  row.classList.add("taken-back");
  one(".line", row).prepend(h("span", { class: "sr" }, "Taken back: "));
}

const takeover = (finished) => divider(`Another worker took over · ${finished} finished ${finished === 1 ? "step" : "steps"} not run again`);

function partsOf(step) {
  if (!step) return [h("p", { class: "muted" }, "The store does not hold this step any more.")];
  const alone = step.usage?.step;
  const used = [tokensOf(alone) && `${tokensOf(alone)} tokens`, costOf(alone) && `cost ${costOf(alone)}`];
  const facts = [`Step ${step.iteration}`, step.status, exact(step.created_at), ...used, !isEmpty(step.guidance) && step.action_id ? `read action ${step.action_id}` : null];
  const parts = [h("p", { class: "muted" }, facts.filter(Boolean).join(" · "))];
  if (step.text) parts.push(h("p", { class: "text" }, step.text));
  return [...parts, jsonParts(step, PARTS)];
}
