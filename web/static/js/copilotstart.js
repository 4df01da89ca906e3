// The "Start a copilot" sheet: which set of agents listens, and under what title.

import { all, allow, ask, h, newKey, one, onceAtATime } from "./dom.js";
import { copilotPath } from "./copilotwords.js";

let isWired = false;
let key = newKey();

/** Open the sheet with the sets that there are. */
export function openSets(sheet) {
  if (!isWired) wire(sheet);
  isWired = true;
  if (!sheet.open) sheet.showModal();
  showSets(one("[data-sets]", sheet), one("[data-form-error]", sheet));
}

function wire(sheet) {
  const submit = one("[data-submit]", sheet);
  const form = one("[data-start-form]", sheet);
  allow(submit);
  form.addEventListener("input", () => {
    key = newKey(); // another request than the one that may have been stored already
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onceAtATime(submit, () => start(sheet));
  });
}

async function showSets(place, error) {
  if (one("input", place)) return;
  error.textContent = "";
  try {
    const { items } = await ask("GET", "/api/copilot/sets");
    place.replaceChildren(...items.map(choice));
    one("input", place)?.focus();
  } catch (problem) {
    place.replaceChildren();
    error.textContent = `The sets could not be loaded. ${problem.message}`;
  }
}

function choice(set, index) {
  const id = `set-${index}`;
  const radio = h("input", { type: "radio", name: "agent_set", id, value: set.name });
  radio.checked = index === 0;
  const agents = set.agents.map(({ name }) => name).join(", ");
  const words = h("span", { class: "muted" }, set.description);
  return h("div", { class: "choice" }, radio, h("label", { for: id }, h("strong", {}, set.title), " ", words, h("span", { class: "set-agents" }, agents)));
}

async function start(sheet) {
  const formError = one("[data-form-error]", sheet);
  for (const place of [formError, ...all("[data-field-error]", sheet)]) place.textContent = "";
  const chosen = one("[name=agent_set]:checked", sheet);
  if (!chosen) return;
  const title = one("[name=title]", sheet).value.trim();
  try {
    const { session_id } = await ask("POST", "/api/copilot/sessions", { agent_set: chosen.value, title, idempotency_key: key });
    location.assign(copilotPath(session_id));
  } catch (problem) {
    const left = (problem.errors ?? []).filter((error) => !showAt(sheet, error));
    formError.textContent = [problem.errors?.length && !left.length ? "" : problem.message, ...left.map(({ field, message }) => `${field}: ${message}`)].filter(Boolean).join(" ");
  }
}

function showAt(sheet, { field, message }) {
  const place = one(`[data-field="${CSS.escape(field)}"] [data-field-error]`, sheet);
  if (place) place.textContent = message;
  return Boolean(place);
}
