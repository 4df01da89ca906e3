// The turns of a copilot, newest first: why each came, who was asked and what came of it, who was not and why.

import { h, icon, one, sessionPath } from "./dom.js";
import { agentName, counted, didWords, listIn, objectOf, objectsIn, skipWords, stepPath, studioPath, tookWords, triggerWords, turnWords } from "./copilotwords.js";
import { keyOf } from "./saying.js";
import { ageOf } from "./time.js";
import { costOf, tokensOf } from "./words.js";

export const MAX_TURNS = 30;

/** What the page shows of a step; null for one that is no turn. */
export function turnOf(step) {
  const data = objectOf(step.data);
  const hasDone = data.problem || listIn(data.turns).length || listIn(data.insights).length;
  if (!("turn" in data) || !hasDone) return null;
  const turns = objectsIn(data.turns).map((turn) => ({ ...turn, phases: objectsIn(turn.phases).map(phaseOf) }));
  const phases = turns.flatMap((turn) => turn.phases);
  const runs = phases.flatMap(({ ran }) => ran);
  return {
    iteration: step.iteration,
    turn: data.turn,
    key: keyOf(step),
    created_at: step.created_at,
    turns,
    ran: runs.length,
    failed: runs.filter(({ failed }) => failed).length,
    insights: runs.reduce((sum, run) => sum + listIn(run.insights).length, 0),
    latency_ms: step.latency_ms,
    usage: objectOf(objectOf(step.usage).step),
    problem: String(data.problem ?? "") || step.error,
  };
}

const phaseOf = (phase) => ({ ...phase, ran: objectsIn(phase.ran), skipped: objectsIn(phase.skipped), events: listIn(phase.events).map(String) });

export class Turns {
  /** `turns`: what the server has drawn, newest first; the newest of them is open. */
  constructor({ root, session, turns }) {
    Object.assign(this, { session, turns });
    this.list = one("[data-turn-rows]", root);
    this.empty = one("[data-turns-empty]", root);
  }

  start() {
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest(".turn-row");
      if (row) this.#toggle(row.closest("li"), row.getAttribute("aria-expanded") !== "true");
    });
  }

  /** A turn that is stored. The newest one opens while nobody reads another. */
  add(turn) {
    const before = this.list.firstElementChild;
    const isReading = this.list.contains(document.activeElement);
    const openRows = this.list.querySelectorAll('[aria-expanded="true"]').length;
    const isNewestOpen = !before || (one(".turn-detail", before) !== null && openRows === 1);
    this.turns.unshift(turn);
    const row = rowOf(turn);
    this.list.prepend(row);
    if (!isReading && isNewestOpen) {
      if (before) this.#toggle(before, false);
      this.#toggle(row, true);
    }
    while (this.turns.length > MAX_TURNS) {
      this.turns.pop();
      this.list.lastElementChild.remove();
    }
    this.empty.hidden = true;
  }

  #toggle(item, isOpen) {
    one(".turn-row", item).setAttribute("aria-expanded", String(isOpen));
    one(".turn-detail", item)?.remove();
    const turn = this.turns.find(({ iteration }) => String(iteration) === item.dataset.iteration);
    if (isOpen) item.append(detailOf(turn, this.session));
  }
}

function rowOf(turn) {
  const failed = Boolean(turn.failed || turn.problem);
  const button = h(
    "button",
    { type: "button", class: "turn-row", "aria-expanded": "false" },
    h("span", { class: "num at" }, String(turn.turn)),
    h("span", { class: "why" }, turnWords(turn)),
    h("span", { class: "num ran" }, `${turn.ran ? `${turn.ran} ran` : ""}${turn.failed ? `, ${turn.failed} failed` : ""}`),
    h("span", { class: "num found" }, turn.insights ? counted(turn.insights, "insight") : ""),
    ageOf(turn.created_at, "num age"),
  );
  return h("li", { class: failed ? "turn failed fresh" : "turn fresh", "data-iteration": turn.iteration }, button);
}

function detailOf(turn, session) {
  const tokens = tokensOf(turn.usage);
  const cost = costOf(turn.usage);
  const sums = [tookWords(turn.latency_ms), tokens && `${tokens} tokens`, cost && `cost ${cost}`].filter(Boolean).join(" · ");
  const trace = `${sessionPath(session.session_id)}#trace:${encodeURIComponent(turn.key)}`;
  const links = h("p", { class: "muted facts-line" }, `${sums} `, h("a", { href: trace }, "Waterfall"), " ", h("a", { href: stepPath(session, turn.iteration) }, `Step ${turn.iteration}`));
  const titleOf = (one) => (turn.turns.length > 1 ? [h("h3", {}, triggerWords(one))] : []);
  const parts = turn.turns.flatMap((one) => [...titleOf(one), ...one.phases.flatMap((phase) => phaseParts(phase, session))]);
  const problem = turn.problem ? h("p", { class: "t-failed" }, turn.problem) : null;
  return h("div", { class: "turn-detail" }, links, problem, ...parts);
}

function phaseParts({ phase, events, ran, skipped }, session) {
  const woken = events.length ? `, woken by ${events.join(", ")}` : "";
  const rows = [...ran.map((run) => ranRow(run, session)), ...skipped.map((one) => skippedRow(one, session))];
  return [h("p", { class: "muted phase" }, `Phase ${phase}${woken}`), h("ul", { class: "runs", role: "list" }, ...rows)];
}

function ranRow(run, session) {
  return runRow({ look: run.failed ? "run failed" : "run", mark: icon(run.failed ? "cross" : "check", run.failed ? "t-failed" : "t-quiet"), who: run, took: tookWords(run.ms), did: didWords(run) }, session);
}

const skippedRow = (one, session) => runRow({ look: "run skipped", mark: icon("dot", "t-quiet"), who: one, took: "", did: skipWords(one.reason) }, session);

function runRow({ look, mark, who, took, did }, session) {
  const link = h("a", { href: studioPath(session, who.agent_id), title: "Open in the studio" }, who.name || agentName(who.agent_id));
  return h("li", { class: look }, mark, h("span", { class: "who" }, link), h("span", { class: "num ms" }, took), h("span", { class: "did" }, did));
}
