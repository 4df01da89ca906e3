// The "Start an agent" sheet: which moniker, what task, what config, and the rest under "More".

import { ask, h, newKey, one, onceAtATime, sessionPath } from "./dom.js";
import { check, schemaFields, showErrors } from "./forms.js";

const START_PATIENCE_MS = 6_000;
const POLL_MS = 250;

const MORE = {
  type: "object",
  properties: {
    agent_id: { type: "string", title: "Agent", description: "Left empty: the moniker's name." },
    session_id: { type: "string", title: "Session id", description: "Left empty, one is made. An id in use is refused." },
    conversation_id: { type: "string", title: "Conversation id", description: "A thread to take part in." },
    max_steps: { type: "integer", title: "At most this many steps", minimum: 1 },
    max_runtime_s: { type: "number", title: "At most this many seconds", exclusiveMinimum: 0 },
    stop_on_done: { type: "boolean", title: "End the session when the task is done" },
    delivery: { enum: ["push", "pull"], title: "Messages of the thread", description: "push: each begins a turn. pull: read when a turn begins." },
  },
};

/** Post a create and open the session as soon as a worker has begun it; `onAccepted` hears when none does. */
export async function startAgent(request, onAccepted = () => {}) {
  const { session_id } = await ask("POST", "/api/agents", request);
  const deadline = Date.now() + START_PATIENCE_MS;
  while (Date.now() < deadline) {
    try {
      await ask("GET", `/api${sessionPath(session_id)}`);
      location.assign(sessionPath(session_id));
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }
  onAccepted(session_id);
}

/** Build the sheet's content once; it opens and closes with the dialog. `known` fills in fields under "More". */
export function buildStartSheet(dialog, monikers, known = {}) {
  const form = one("[data-start-form]", dialog);
  const submit = one("[data-submit]", dialog);
  const formError = one("[data-form-error]", dialog);
  const fieldsHere = h("div", { class: "group" });
  const more = schemaFields(MORE);
  let moniker = null;
  let task = null;
  let config = null;
  let key = newKey();

  const choose = (chosen) => {
    moniker = chosen;
    const schema = moniker.config_schema ?? {};
    const asked = schema.properties?.[moniker.task_field];
    task = schemaFields({ type: "object", properties: { task: taskSchema(moniker, asked) }, required: needsTask(schema, moniker) ? ["task"] : [] });
    config = schemaFields(schema, { skip: moniker.task_field ? [moniker.task_field] : [] });
    const example = h("button", { type: "button", class: "link", click: fillExample }, "Fill in an example");
    fieldsHere.replaceChildren(task.element, config.element, Object.keys(moniker.example ?? {}).length ? example : "");
    formError.textContent = "";
  };

  const fillExample = () => {
    const example = moniker.example ?? {};
    const values = example.config ?? example;
    config.write(values);
    task.write({ task: example.task ?? values[moniker.task_field] ?? one("textarea", task.element).value });
    key = newKey();
  };

  const picker = h("fieldset", { class: "picker" }, h("legend", {}, "What should it do?"), ...monikers.map((offered, index) => card(offered, index, choose)));
  one("[data-start-body]", dialog).append(picker, fieldsHere, h("details", { class: "more-fields", open: Object.keys(known).length > 0 }, h("summary", {}, "More"), more.element));
  more.write(known);
  if (monikers.length) choose(monikers[0]);
  else formError.textContent = "The server knows no moniker.";

  form.addEventListener("input", () => {
    key = newKey(); // another request than the one that may have been stored already
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    formError.textContent = "";
    const good = [more, config, task].map(check).every(Boolean); // the last one checked keeps the focus
    if (!good) return;
    const request = { moniker: moniker.name, ...task.read(), config: config.read(), ...more.read(), idempotency_key: key };
    onceAtATime(submit, () => post(request));
  });

  const post = async (request) => {
    try {
      await startAgent(request, (id) => {
        formError.textContent = `Accepted as ${id}. It begins as soon as a worker runs.`;
        key = newKey();
      });
    } catch (problem) {
      const left = showErrors(more, showErrors(task, showErrors(config, problem.errors ?? [], "config")));
      formError.textContent = [left.length || !problem.errors?.length ? problem.message : "", ...left.map(({ field, message }) => `${field}: ${message}`)].filter(Boolean).join(" ") || "Some fields need another look.";
    }
  };
}

function taskSchema(moniker, asked) {
  const description = asked?.description ?? (moniker.task_field ? `Fills in the ${moniker.task_field.replaceAll("_", " ")}.` : "What this session is for, in your words.");
  return { type: "string", title: "Task", description };
}

function needsTask(schema, moniker) {
  return Boolean(moniker.task_field && (schema.required ?? []).includes(moniker.task_field));
}

function card(moniker, index, choose) {
  const id = `moniker-${index}`;
  const radio = h("input", { type: "radio", name: "moniker", id, value: moniker.name, change: () => choose(moniker) });
  radio.checked = index === 0;
  return h("div", { class: "choice" }, radio, h("label", { for: id }, h("strong", {}, moniker.name), " ", h("span", { class: "muted" }, moniker.summary)));
}
