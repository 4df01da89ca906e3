// The insights of a session, as cards by how soon they matter.
//
// An insight may be told early, before its step is stored. Its stored self takes its place; when the step is stored
// without it, it was void and goes. The one of the later step counts, however often each comes.

import { all, allow, ask, newKey, one, onceAtATime, say, setText } from "./dom.js";
import { cardOf, markOf } from "./card.js";
import { Choices } from "./choices.js";
import { counted, zoneOf } from "./copilotwords.js";
import { now } from "./time.js";

const ZONE_CARDS = 12; // beside those that are kept
const TICK_MS = 1_000;

export class Insights {
  /** `known`: what the server has drawn; `last`: the newest step that is stored. */
  constructor({ root, session, known, last }) {
    Object.assign(this, { root, session, lastStored: last });
    this.choices = new Choices(session.session_id);
    this.told = new Map(known.map((insight) => [insight.insight_id, insight.stored ? { stored: insight, early: null } : { stored: null, early: insight }]));
    this.cards = new Map(all("[data-insight-id]", root).map((card) => [card.dataset.insightId, card]));
    this.decided = new Map(); // id -> what was asked for and is not stored yet
    this.announced = new Set(); // what was said aloud: an id with its status
  }

  start() {
    for (const [id, insight] of this.choices.kept) if (insight.stored && !this.told.has(id)) this.told.set(id, { stored: insight, early: null });
    for (const id of this.told.keys()) this.#draw(id);
    this.root.addEventListener("click", (event) => this.#clicked(event));
    this.root.addEventListener("keydown", (event) => this.#pressed(event));
    setInterval(() => this.#age(), TICK_MS);
    this.#age();
  }

  /** Insights that were told, in the order in which they came. Answers how many were new. */
  take(insights) {
    const fresh = insights.filter((insight) => this.#accept(insight));
    for (const { insight_id: id } of fresh) this.#draw(id);
    if (fresh.length) {
      this.#trim();
      this.#age();
      this.#announce(fresh);
    }
    return fresh.length;
  }

  /** The steps up to `iteration` are stored, with all the insights that they have. */
  stored(iteration) {
    this.lastStored = Math.max(this.lastStored, iteration);
    for (const [id, entry] of this.told) {
      if (!entry.early || entry.early.iteration > this.lastStored) continue;
      entry.early = null;
      if (!entry.stored) this.#forget(id);
      this.#draw(id);
    }
    this.#age();
  }

  /** Steps were taken back: what they told is shown as such. */
  takenBack([first, last]) {
    for (const [id, { stored }] of this.told) {
      if (!stored || stored.iteration < first || stored.iteration > last) continue;
      stored.taken_back = true;
      this.#draw(id);
    }
    this.#age();
  }

  #accept(insight) {
    const id = insight.insight_id;
    const entry = this.told.get(id);
    if (!insight.stored && insight.iteration <= this.lastStored) return false; // its step is stored: it is known or void
    const before = insight.stored ? entry?.stored : this.#shown(id);
    if (before && !isLater(insight, before)) return false;
    this.told.set(id, insight.stored ? { stored: insight, early: null } : { stored: entry?.stored ?? null, early: insight });
    if (insight.stored) this.decided.delete(id);
    if (this.choices.kept.has(id)) this.choices.keep(insight);
    return true;
  }

  #forget(id) {
    this.told.delete(id);
    this.choices.letGo(id);
  }

  #shown(id) {
    const entry = this.told.get(id);
    return entry ? (entry.early ?? entry.stored) : null;
  }

  // --- drawing -----------------------------------------------------------------------------------------------------------

  #draw(id) {
    const insight = this.#shown(id);
    const before = this.cards.get(id);
    if (!insight || this.choices.dismissed.has(id)) {
      before?.remove();
      this.cards.delete(id);
      return;
    }
    const control = before?.contains(document.activeElement) ? nameOf(document.activeElement) : null;
    const card = cardOf(insight, this.session);
    this.cards.set(id, card);
    before?.remove();
    this.#place(card, insight);
    this.#dress(card, insight);
    if (!before) card.classList.add("fresh");
    if (control) (one(control, card) ?? one("[data-keep]", card)).focus({ preventScroll: true });
  }

  /** What is kept stands on top, then the newest. */
  #place(card, insight) {
    const list = one(`[data-zone="${zoneOf(insight)}"] [data-cards]`, this.root);
    const isBehind = (other) => this.#rank(this.#shown(other.dataset.insightId)) < this.#rank(insight);
    list.insertBefore(card, [...list.children].find(isBehind) ?? null);
  }

  #rank(insight) {
    return `${this.choices.kept.has(insight.insight_id) ? 1 : 0} ${insight.created_at}`;
  }

  #dress(card, insight) {
    const isKept = this.choices.kept.has(insight.insight_id);
    const isExpired = !isKept && insight.status !== "held" && Date.parse(insight.expires_at) <= now();
    card.classList.toggle("kept", isKept);
    card.classList.toggle("expired", isExpired);
    const keep = one("[data-keep]", card);
    keep.setAttribute("aria-pressed", String(isKept));
    setText(one("span", keep), isKept ? "Kept" : "Keep");
    const wanted = this.decided.get(insight.insight_id);
    setText(one("[data-mark]", card), wanted ?? markOf(insight, { isKept, isExpired }));
    for (const button of all("[data-decide]", card)) allow(button, wanted ? "It is decided; the session has not taken it up yet." : "");
    return isExpired;
  }

  /** Bring all cards to the present: what has expired fades in its place. */
  #age() {
    let current = 0;
    for (const zone of all("[data-zone]", this.root)) {
      let here = 0;
      for (const card of all("[data-insight-id]", zone)) {
        const insight = this.#shown(card.dataset.insightId);
        if (!this.#dress(card, insight) && insight.status !== "refused" && !insight.taken_back) here += 1;
      }
      count(one("[data-count]", zone), here);
      one("[data-nothing]", zone).hidden = one("[data-insight-id]", zone) !== null;
      zone.classList.toggle("busy", here > 0);
      current += here;
    }
    count(one('[data-zone-count="all"]'), current);
  }

  #trim() {
    for (const list of all("[data-cards]", this.root)) {
      const rest = [...list.children].filter((card) => !card.matches(".kept, [data-status='held']"));
      for (const card of rest.slice(ZONE_CARDS)) {
        this.told.delete(card.dataset.insightId);
        this.cards.delete(card.dataset.insightId);
        card.remove();
      }
    }
  }

  /** Tell who cannot see it: at once what cannot wait, the rest when there is a pause. What is over is not told. */
  #announce(fresh) {
    const shown = fresh.filter((insight) => this.cards.has(insight.insight_id) && !this.cards.get(insight.insight_id).matches(".expired, .taken-back"));
    const mark = ({ insight_id: id, status }) => `${status} ${id}`;
    const untold = shown.filter((insight) => !this.announced.has(mark(insight)));
    for (const insight of untold) this.announced.add(mark(insight));
    const isUrgent = (insight) => zoneOf(insight) === "A" && insight.status === "shown";
    const urgent = untold.filter(isUrgent);
    const rest = untold.filter((insight) => !isUrgent(insight));
    if (urgent.length) setText(one("[data-say-now]"), `${urgent.at(-1).content}${urgent.length > 1 ? ` And ${urgent.length - 1} more.` : ""}`);
    if (rest.length) say(rest.at(-1).status === "held" ? "An insight waits for you." : `${counted(rest.length, "new insight")}: ${rest.at(-1).content}`);
  }

  // --- what a reader does ------------------------------------------------------------------------------------------------

  #clicked(event) {
    const card = event.target.closest("[data-insight-id]");
    const button = event.target.closest("button");
    if (!card || !button) return;
    const insight = this.#shown(card.dataset.insightId);
    if (button.matches("[data-keep]")) this.#keep(insight);
    else if (button.matches("[data-dismiss]")) this.#dismiss(card, insight);
    else if (button.matches("[data-copy-line]")) copy(button, one("p", button.parentElement).textContent);
    else if (button.matches("[data-decide]")) this.#decide(card, insight, button);
  }

  #pressed(event) {
    const card = event.target.closest("[data-insight-id]");
    if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { p: "[data-keep]", d: "[data-dismiss]", c: "[data-copy-line]", a: '[data-decide="true"]', r: '[data-decide="false"]' };
    const button = Object.hasOwn(keys, event.key) ? one(keys[event.key], card) : null;
    button?.click();
  }

  #keep(insight) {
    if (this.choices.kept.has(insight.insight_id)) this.choices.letGo(insight.insight_id);
    else this.choices.keep(insight);
    this.#draw(insight.insight_id);
    this.#age();
  }

  #dismiss(card, insight) {
    const list = card.parentElement;
    const next = card.nextElementSibling ?? card.previousElementSibling;
    this.choices.dismiss(insight.insight_id);
    this.#draw(insight.insight_id);
    this.#age();
    one("[data-keep]", next ?? list)?.focus();
    say("Dismissed");
  }

  async #decide(card, insight, button) {
    const error = one("[data-error]", card);
    const agreed = button.dataset.decide === "true";
    const path = `/api/copilot/sessions/${encodeURIComponent(this.session.session_id)}/insights/${encodeURIComponent(insight.insight_id)}`;
    error.textContent = "";
    await onceAtATime(button, async () => {
      try {
        await ask("POST", path, { agreed, idempotency_key: newKey() });
        if (this.#shown(insight.insight_id)?.status === "held") this.decided.set(insight.insight_id, agreed ? "will be shown" : "will be dropped");
      } catch (problem) {
        error.textContent = problem.message;
      }
    });
    this.#age();
  }
}

/** Whether an insight takes the place of what was told of it before: by a later step, by the step itself, or anew. */
function isLater(insight, before) {
  if (insight.iteration !== before.iteration) return insight.iteration > before.iteration;
  return !before.stored && (insight.stored || insight.created_at !== before.created_at);
}

const nameOf = (element) => ["data-keep", "data-dismiss", "data-copy-line"].filter((name) => element.hasAttribute(name)).map((name) => `[${name}]`)[0] ?? "[data-keep]";

function count(place, number) {
  setText(place, String(number));
  place.classList.toggle("zero", number === 0);
}

async function copy(button, text) {
  await navigator.clipboard?.writeText(text).catch(() => {});
  button.classList.add("copied");
  say("Copied");
  setTimeout(() => button.classList.remove("copied"), 1200);
}
