// The running steps of a thread's sessions: what each says grows under the transcript until its message is there.

import { h, sessionName, sessionPath } from "./dom.js";
import { LiveText } from "./stream.js";

export class Speakers {
  /** `stored`: the last stored step of each session. */
  constructor(place, stored) {
    this.place = place;
    this.stored = new Map(Object.entries(stored));
    this.speaking = new Map(); // session id -> its block and its text
  }

  /** Put a piece where it belongs. */
  take(piece) {
    const id = piece.session_id;
    const speaker = this.speaking.get(id) ?? this.#begin(id);
    speaker.text.take(piece);
    if (speaker.text.isEmpty) this.#end(id); // of a step that is stored
  }

  /** A session's steps up to `iteration` are stored. */
  drop(id, iteration) {
    if (!Number.isInteger(iteration)) return;
    this.stored.set(id, Math.max(this.stored.get(id) ?? -1, iteration));
    const speaker = this.speaking.get(id);
    speaker?.text.drop(iteration);
    if (speaker?.text.isEmpty) this.#end(id);
  }

  /** A session has ended: its running step never will. */
  clear(id) {
    this.#end(id);
  }

  #begin(id) {
    const words = h("div", { class: "live-text" });
    const by = h("p", { class: "by" }, h("a", { href: sessionPath(id) }, sessionName(id)), h("span", { class: "role" }, "is writing"));
    const block = h("div", { class: "message from-agent" }, by, words);
    const speaker = { block, text: new LiveText(words) };
    speaker.text.drop(this.stored.get(id) ?? -1);
    this.speaking.set(id, speaker);
    this.place.append(block);
    return speaker;
  }

  #end(id) {
    this.speaking.get(id)?.block.remove();
    this.speaking.delete(id);
  }
}
