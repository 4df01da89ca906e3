// What a session asks a person before it goes on: each question with its answers as buttons.

import { all, allow, ask, h, icon, newKey, one, onceAtATime, say, sessionName, sessionPath } from "./dom.js";
import { close, kindOf, questionCard } from "./question.js";
import { ageOf } from "./time.js";

const MAY_ASK = ["waiting", "paused"];
const RETRY_MS = 2_000;
const ANSWERS = [
  { decision: "repeat", word: "Repeat the call", title: "Nothing was done: the call is made again" },
  { decision: "done", word: "It was done", title: "The call is not made; what is typed is its result" },
  { decision: "fail", word: "Give up", title: "The step fails" },
];

/** The open questions of one session; asked for again when the session changes. A row stays while its question does. */
export class Questions {
  #list;
  #sessionId;
  #onChange;
  #seen = null;
  #items = [];

  constructor(list, sessionId, onChange) {
    this.#list = list;
    this.#sessionId = sessionId;
    this.#onChange = onChange;
  }

  /** Whether anything is asked. */
  get isAsking() {
    return this.#items.length > 0;
  }

  /** Whether these words are one of the questions, or the beginning of a long one. */
  asks(words) {
    const isPart = (question) => words?.endsWith("…") && question.startsWith(words.slice(0, -1));
    const isReason = (question) => words && question.toLowerCase().startsWith(words.toLowerCase());
    return this.#items.some(({ question }) => question && (isReason(question) || isPart(question)));
  }

  /** Show what a session asks now. */
  async follow(session) {
    const mark = `${session.status} ${session.updated_at}`;
    if (mark === this.#seen) return;
    this.#seen = mark;
    let items = [];
    try {
      if (MAY_ASK.includes(session.status)) items = await this.#open();
    } catch {
      this.#seen = null;
      setTimeout(() => this.#seen ?? this.follow(session), RETRY_MS);
      return; // what is shown stays: nobody has said that it was answered
    }
    if (mark === this.#seen) this.#show(items); // else the session has changed meanwhile
  }

  async #open() {
    return (await ask("GET", `/api/approvals?session_id=${encodeURIComponent(this.#sessionId)}`)).items;
  }

  #show(items) {
    const before = new Map(all("[data-approval-id]", this.#list).map((row) => [row.dataset.approvalId, row]));
    const fresh = items.filter(({ approval_id: id }) => !before.has(id));
    for (const [id, row] of before) if (!items.some((item) => item.approval_id === id)) row.remove();
    this.#list.append(...fresh.map((item) => (item.kind === "unsafe_call" ? doubtCard(item, { isAlone: true }) : questionCard(item, { isAlone: true }))));
    this.#list.hidden = items.length === 0;
    this.#items = items;
    if (fresh.length) say(`A question: ${fresh[0].question || fresh[0].kind}`);
    this.#onChange();
  }
}

/** The card of a question about a call which may have been made. `isAlone` leaves out whose question it is. */
export function doubtCard(item, { isAlone = false } = {}) {
  const [word, glyph] = kindOf(item);
  const who = isAlone ? null : h("a", { class: "name", href: sessionPath(item.session_id), title: item.session_id }, sessionName(item.session_id));
  const head = isAlone ? null : h("div", { class: "ask-head" }, h("span", { class: "tag kind" }, icon(glyph), word), who, h("span", { class: "muted" }, item.moniker), ageOf(item.asked_at, "num age"));
  const line = h("p", { class: isAlone ? "panel-line" : "panel-line ask-question" }, item.question || item.kind);
  const row = h("li", { class: isAlone ? "panel waiting" : "ask", "data-approval-id": item.approval_id, "data-kind": item.kind }, head, line);
  row.append(...answers(item, row));
  return row;
}

function answers(item, row) {
  const result = h("input", { type: "text", autocomplete: "off", "aria-label": `Result of ${item.key}`, placeholder: "Result, if it was done" });
  const key = newKey();
  const buttons = ANSWERS.map(({ decision, word, title }) => {
    const button = h("button", { type: "button", title, "data-decision": decision, "data-action": `${word}: ${item.key}` }, word);
    allow(button);
    button.addEventListener("click", () => onceAtATime(button, () => answer(item, row, decision, result.value.trim(), key)));
    return button;
  });
  const error = h("p", { class: "field-error", role: "alert" });
  return [h("div", { class: "dock-row" }, result, ...buttons), h("p", { class: "note muted", role: "status" }), error];
}

async function answer(item, row, decision, text, key) {
  const error = one(".field-error", row);
  error.textContent = "";
  const result = decision === "done" && text ? { result: text } : {};
  try {
    const body = { decision, ...result, digest: item.digest ?? undefined, idempotency_key: `${key}:${decision}` };
    await ask("POST", `/api/approvals/${encodeURIComponent(item.approval_id)}`, body);
  } catch (problem) {
    error.textContent = problem.message;
    return;
  }
  close(row);
}
