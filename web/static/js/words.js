// What rows say in one line; `web/words.py` says the same on the server.

import { firstLine, isEmpty } from "./dom.js";
import { clock, exact, today } from "./time.js";

export const isOpen = ({ status }) => status === "pending" || status === "claimed";

/** How often an action was tried; once is what everybody expects, unless there will be another time. */
export const tries = (action) =>
  isOpen(action) && action.attempts ? `try ${action.attempts + 1}` : action.attempts > 1 ? `${action.attempts} tries` : "";

/** When an action that waits for a moment comes next, in this place's zone. */
export function nextMoment(action) {
  if (!isOpen(action) || !action.not_before) return "";
  const word = action.attempts ? "next try" : "not before";
  const isToday = exact(action.not_before).slice(0, 10) === today();
  return `${word} ${isToday ? clock(action.not_before) : exact(action.not_before).slice(0, 19)}`;
}

const isRollback = ({ guidance }) => typeof guidance === "object" && guidance !== null && "rolled_back" in guidance;

/** The first and the last iteration that a step took back; null for a step that took none back. */
export const spanTakenBack = (step) => (isRollback(step) ? step.guidance.rolled_back : null);

function tookBack(span) {
  if (!span) return "Took back a turn before its first step";
  const [first, last] = span;
  return first === last ? `Took back step ${first}` : `Took back steps ${first} to ${last}`;
}

const questionIn = (wait) => (wait?.kind === "approval" ? wait.items?.[0]?.question : null);

/** What a step says: its error, what it took back, its text, or what it asks a person. */
export function stepLine(step) {
  if (!isEmpty(step.error)) return firstLine(step.error);
  if (isRollback(step)) return tookBack(spanTakenBack(step));
  return firstLine(step.text) || firstLine(questionIn(step.wait));
}

/** How many tokens were used; nothing for none. */
export function tokensOf(usage) {
  const tokens = (usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0);
  return tokens ? tokens.toLocaleString("en") : "";
}

/** What calls cost, in the currency of models.toml; nothing when they were free or there was none. */
export function costOf(usage) {
  const { cost = "0", unpriced_calls: unpriced = 0, calls = 0 } = usage ?? {};
  if (unpriced && unpriced >= calls) return "price not known";
  if (unpriced) return `${cost} and more`;
  return Number(cost) ? cost : "";
}
