// What is said, as it is said: a window over a list that may be long. It sticks to the newest only while its reader is
// there; otherwise a button counts what is new below. An unfinished segment makes way for what its speaker says next.

import { h, one, setText } from "./dom.js";
import { heardIn } from "./saying.js";
import { sinceStart } from "./copilotwords.js";

const MAX_ROWS = 120; // with five elements a row this leaves room for the other parts of the page
const PAGE = 60;
const NEAR_PX = 40;
const VOICES = 6;

export class Transcript {
  /** `fetchSteps(query)` answers steps; `said` is what the server has drawn. */
  constructor({ root, said, first, fetchSteps }) {
    Object.assign(this, { said, first, fetchSteps });
    this.list = one("[data-said]", root);
    this.scroll = one("[data-scroll]", root);
    this.pill = one("[data-follow]", root);
    this.earlier = one("[data-earlier]", root);
    this.empty = one("[data-said-empty]", root);
    this.from = 0; // the window: rows from here ...
    this.to = said.length; // ... to before here
    this.voices = new Map(said.map(({ speaker, voice }) => [speaker, voice]));
    this.outdated = new Set(); // keys of unfinished segments that made way, and may still be heard
    this.unseen = 0;
    this.isFollowing = true;
    this.isLoading = false;
  }

  get speakers() {
    return [...this.voices.keys()];
  }

  start() {
    this.scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.scroll.addEventListener("follow", () => this.toEnd());
    this.pill.addEventListener("click", () => this.toEnd());
    this.earlier.addEventListener("click", () => this.#showEarlier());
    new ResizeObserver(() => this.isFollowing && this.#stick()).observe(this.scroll);
    this.#stick();
  }

  /** Steps that are stored: what they have heard, and what was taken for a segment and is none. */
  hear(steps, key) {
    for (const step of steps) {
      const heard = heardIn(step);
      if (heard) this.put(heard);
      else this.drop(key(step));
    }
  }

  /** Show a segment. One that is known, or that its speaker has finished meanwhile, changes in its place. */
  put(row) {
    if (this.outdated.has(row.key)) return;
    const known = this.said.findLastIndex(({ key }) => key === row.key);
    if (known >= 0 && row.iteration === null) return; // and perhaps heard
    const at = known >= 0 ? known : this.said.findLastIndex(({ speaker, is_final: isFinal }) => speaker === row.speaker && !isFinal);
    if (at < 0) this.#push(row);
    else this.#replace(at, row);
    this.empty.hidden = true;
  }

  /** Take a segment away that turned out to be none. */
  drop(key) {
    const at = this.said.findLastIndex((row) => row.key === key && row.iteration === null);
    if (at < 0) return;
    if (at >= this.from && at < this.to) {
      this.list.children[at - this.from].remove();
      this.to -= 1;
    } else if (at < this.from) {
      this.from -= 1;
      this.to -= 1;
    }
    this.said.splice(at, 1);
  }

  /** Run several changes; the reader's place stays, or the end stays in view. */
  change(work) {
    const before = this.said.length;
    work();
    if (this.isFollowing) this.#stick();
    else this.unseen += Math.max(0, this.said.length - before);
    this.#showPill();
  }

  /** Show the newest and stay with it. */
  toEnd() {
    if (this.to < this.said.length) this.#show(Math.max(0, this.said.length - PAGE), this.said.length);
    this.#stick();
    this.#showPill();
  }

  #push(row) {
    const isWindowAtEnd = this.to === this.said.length;
    this.said.push(row);
    if (!isWindowAtEnd || (!this.isFollowing && this.to - this.from >= MAX_ROWS)) return;
    this.list.append(this.#rowOf(this.said.length - 1));
    this.to += 1;
    while (this.to - this.from > MAX_ROWS) {
      this.list.firstElementChild.remove();
      this.from += 1;
    }
    this.#showEarlierButton();
  }

  #replace(at, row) {
    if (this.said[at].key !== row.key) this.outdated.add(this.said[at].key);
    this.said[at] = row;
    if (at >= this.from && at < this.to) this.list.children[at - this.from].replaceWith(this.#rowOf(at));
  }

  #rowOf(index) {
    const row = this.said[index];
    const classes = ["said-row", `voice-${this.#voiceOf(row.speaker)}`];
    if (this.said[index - 1]?.speaker === row.speaker && index > this.from) classes.push("goes-on");
    if (!row.is_final) classes.push("unfinished");
    if (row.iteration === null) classes.push("unheard");
    const at = h("span", { class: "num at", title: "Since the conversation began" }, sinceStart(row.timestamp));
    const attributes = { class: classes.join(" "), "data-key": row.key, "data-speaker": row.speaker, "data-iteration": row.iteration, "data-open": !row.is_final };
    return h("li", attributes, h("p", { class: "by" }, h("strong", {}, row.speaker), at), h("p", { class: "text" }, row.text));
  }

  #voiceOf(speaker) {
    if (!this.voices.has(speaker)) this.voices.set(speaker, (this.voices.size % VOICES) + 1);
    return this.voices.get(speaker);
  }

  #show(from, to) {
    this.from = from;
    this.to = to;
    const rows = document.createDocumentFragment();
    for (let index = from; index < to; index += 1) rows.append(this.#rowOf(index));
    this.list.replaceChildren(rows);
    this.#showEarlierButton();
  }

  async #showEarlier() {
    if (this.isLoading) return;
    this.isLoading = true;
    try {
      if (this.from === 0) await this.#loadEarlier();
      const top = this.list.firstElementChild;
      const before = top?.getBoundingClientRect().top ?? 0;
      const key = top?.dataset.key;
      const from = Math.max(0, this.from - PAGE);
      this.#show(from, Math.min(this.to, from + MAX_ROWS));
      const same = [...this.list.children].find((row) => row.dataset.key === key);
      if (same) this.scroll.scrollTop += same.getBoundingClientRect().top - before;
      this.isFollowing = false;
    } catch (problem) {
      setText(this.earlier, `Could not load: ${problem.message}`);
    } finally {
      this.isLoading = false;
    }
    this.#showPill();
  }

  async #loadEarlier() {
    const steps = await this.fetchSteps({ max_iteration: this.first - 1, order: "desc", limit: PAGE });
    this.first = steps.at(-1)?.iteration ?? 0;
    const rows = steps.reverse().map(heardIn).filter(Boolean);
    this.said.unshift(...rows);
    this.from += rows.length;
    this.to += rows.length;
  }

  #stick() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.isFollowing = true;
    this.unseen = 0;
  }

  #scrolled() {
    const isNear = this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight < NEAR_PX;
    const isWindowAtEnd = this.to === this.said.length;
    this.isFollowing = isNear && isWindowAtEnd;
    if (this.isFollowing) this.unseen = 0;
    else if (isNear && !isWindowAtEnd) this.#showLater();
    this.#showPill();
  }

  /** The reader reached the end of a window that does not end at the newest: go on below. */
  #showLater() {
    const last = this.list.lastElementChild;
    const before = last?.getBoundingClientRect().bottom ?? 0;
    const key = last?.dataset.key;
    const to = Math.min(this.said.length, this.to + PAGE);
    this.#show(Math.max(this.from, to - MAX_ROWS), to);
    const same = [...this.list.children].find((row) => row.dataset.key === key);
    if (same) this.scroll.scrollTop += same.getBoundingClientRect().bottom - before;
  }

  #showPill() {
    this.pill.hidden = this.isFollowing || (this.unseen === 0 && this.to === this.said.length);
    setText(this.pill, this.unseen ? `${this.unseen} new ↓` : "Newest ↓");
  }

  #showEarlierButton() {
    this.earlier.hidden = this.from === 0 && this.first === 0;
    setText(this.earlier, "Show earlier");
  }
}
