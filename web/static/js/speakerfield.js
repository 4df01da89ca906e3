// Who speaks: a field that knows who has spoken, remembers the last choice, and steps through them with Alt and arrows.

import { h, one } from "./dom.js";

export class SpeakerField {
  constructor(input, list, sessionId) {
    Object.assign(this, { input, list, names: [], place: `stepwell.speaker.${sessionId}` });
  }

  start(names) {
    this.offer(names);
    this.input.value = remembered(this.place) ?? names[0] ?? "";
    const step = (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.#turn(event.key === "ArrowDown" ? 1 : -1);
    };
    one(".dock").addEventListener("keydown", step);
  }

  /** Names to choose from, in the order in which they first spoke. */
  offer(names) {
    if (names.length === this.names.length) return;
    this.names = names;
    this.list.replaceChildren(...names.map((name) => h("option", { value: name })));
  }

  /** The speaker that is chosen; remembered for the next time. */
  use() {
    const name = this.input.value.trim() || "USER";
    this.input.value = name;
    try {
      localStorage.setItem(this.place, name);
    } catch {
      // nothing is lost but the memory of the choice
    }
    return name;
  }

  #turn(by) {
    if (!this.names.length) return;
    const at = this.names.indexOf(this.input.value.trim());
    this.input.value = this.names[(at + by + this.names.length) % this.names.length];
  }
}

function remembered(place) {
  try {
    return localStorage.getItem(place);
  } catch {
    return null;
  }
}
