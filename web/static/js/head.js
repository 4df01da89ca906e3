// What the head of a session's page says of it: its state, how long it has been going, what it has used.

import { h, icon, isFinal, one, setText, stateOf } from "./dom.js";
import { elapsed } from "./time.js";
import { costOf, tokensOf } from "./words.js";

export class Head {
  constructor(root) {
    this.root = root;
  }

  show(session) {
    this.#showPill(session);
    this.#showElapsed(session);
    this.#showFact("usage", tokensOf(session.usage));
    this.#showFact("cost", costOf(session.usage));
  }

  #showPill(session) {
    const { word, tone, glyph } = stateOf(session);
    const pill = one("[data-pill]", this.root);
    if (pill.dataset.status === session.status && one(".word", pill).textContent === word) return;
    pill.className = `pill-state t-${tone}`;
    pill.dataset.status = session.status;
    pill.replaceChildren(icon(glyph), h("span", { class: "word" }, word));
  }

  #showElapsed(session) {
    const place = one("[data-elapsed]", this.root);
    const isOver = isFinal(session.status);
    if (isOver) {
      place.dataset.until = session.updated_at;
      setText(place, elapsed(session.created_at, session.updated_at));
    } else delete place.dataset.until; // it may have been resumed after an error
    setText(place.previousElementSibling, isOver ? "Took" : "Elapsed");
  }

  #showFact(name, words) {
    one(`[data-${name}-fact]`, this.root).hidden = !words;
    setText(one(`[data-${name}]`, this.root), words);
  }
}
