// What may be done to a session: the buttons of its page, each allowed in some states, and what becomes of a click.

import { all, allow, ask, doUnlessUndone, isFinal, onceAtATime, setText, stateOf } from "./dom.js";

const SETTLE_MS = 8_000;
const LIVE = ["created", "running", "waiting", "paused"];
const KINDS = {
  pause: { from: ["created", "running", "waiting"], done: ["paused", "stopping"], doing: "Pausing…" },
  resume: { from: ["paused", "error"], done: ["running", "waiting", "created"], doing: "Resuming…" },
  interrupt: { from: LIVE, doing: "Sending…" },
  input: { from: LIVE, doing: "Sending…" },
  destroy: { from: LIVE, done: ["stopping", "stopped"], doing: "Stopping…" },
};

export class Controls {
  /** `record` is marked while an effect is awaited; `onSent(action_id, kind)` hears what was stored for a step to read. */
  constructor({ api, record, error, onSent = () => {}, onShown = () => {} }) {
    Object.assign(this, { api, record, error, onSent, onShown });
    this.buttons = new Map(all("[data-control]").map((button) => [button.dataset.control, button]));
    this.words = new Map([...this.buttons].map(([kind, button]) => [kind, button.textContent]));
    this.session = null;
    this.pending = null; // the control whose effect is awaited
  }

  button(kind) {
    return this.buttons.get(kind);
  }

  /** Wire the buttons that need nothing but a click. */
  start() {
    for (const kind of ["pause", "resume"]) this.button(kind).addEventListener("click", () => this.post(kind, {}));
    this.button("destroy").addEventListener("click", () => this.#stop());
  }

  /** The session is in this state now. */
  follow(session) {
    this.session = session;
    const { pending } = this;
    if (pending && (isFinal(session.status) || KINDS[pending].done?.includes(session.status))) this.pending = null;
    this.#show();
  }

  /** Post one control action; its effect arrives as a `state` event. Answers whether it is stored. */
  async post(kind, body) {
    const control = this.button(kind);
    const word = this.words.get(kind);
    this.error.textContent = "";
    let isSent = false;
    const hasRun = await onceAtATime(control, async () => {
      try {
        const { action_id } = await ask("POST", `${this.api}/${kind}`, body, { keepalive: true });
        isSent = true;
        if (kind === "input" || kind === "interrupt") this.onSent(action_id, kind);
        else this.#awaitEffect(kind);
      } catch (problem) {
        this.error.textContent = `${word}: ${problem.message}`;
      }
    });
    if (!hasRun && control.disabled) this.error.textContent = `${word} was not sent: ${control.title}`;
    this.#show();
    return isSent;
  }

  #show() {
    for (const [kind, control] of this.buttons) {
      setText(control, this.pending === kind ? KINDS[kind].doing : this.words.get(kind));
      if (kind === "resume") control.dataset.hint = this.session.status === "error" ? "Tries the failed step again" : "";
      allow(control, this.#barredBecause(kind));
    }
    this.record.classList.toggle("pending", this.pending !== null);
    this.onShown();
  }

  #barredBecause(kind) {
    if (this.pending === kind) return "Asked for; the worker has not answered yet.";
    if (KINDS[kind].from.includes(this.session.status)) return "";
    const { word } = stateOf(this.session);
    return isFinal(this.session.status) ? `The session has ended: ${word}.` : `Not while the session is ${word}.`;
  }

  #awaitEffect(kind) {
    if (KINDS[kind].done.includes(this.session.status)) return;
    this.pending = kind;
    setTimeout(() => {
      if (this.pending !== kind) return;
      this.pending = null;
      this.error.textContent = `${this.words.get(kind)} is stored, but no worker has taken it up yet.`;
      this.#show();
    }, SETTLE_MS);
  }

  #stop() {
    const control = this.button("destroy");
    allow(control, "It stops when the bar below runs out.");
    setText(control, KINDS.destroy.doing);
    doUnlessUndone(
      (seconds) => `Stopping ${this.session.name} in ${seconds} s.`,
      () => {
        allow(control, "");
        this.post("destroy", {});
      },
      () => this.#show(),
    );
  }
}
