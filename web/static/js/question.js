// One question to a person as a card: what is asked, what it is about, what may be changed or has to be filled in, and
// the buttons that answer it. Used by the inbox and by the session's page. Whatever it says is text, never HTML.

import { allow, ask, all, h, icon, newKey, one, onceAtATime, pretty, sessionName, sessionPath, setText } from "./dom.js";
import { check, schemaFields, showErrors } from "./forms.js";
import { ageOf, clock, exact, today } from "./time.js";

const KINDS = {
  tool_call: ["Tool call", "bolt"],
  concern: ["Concern", "warn"],
  plan: ["Plan", "sessions"],
  budget: ["Budget", "clock"],
  form: ["Form", "keyboard"],
  unsafe_call: ["Call in doubt", "warn"],
};
const BY_TIME = { approve: "it is approved", reject: "it is rejected", retry: "it is sent back" };
const LONG_TEXT = 60;
const FOLDED_CHARS = 600;
const STORED = "Stored. The session goes on as soon as a worker has taken the answer up.";

/** The words and the icon of a kind; one that nobody knows here is shown as it is. */
export const kindOf = (item) => KINDS[item.kind] ?? [String(item.kind || "Question").replaceAll("_", " "), "hand"];

/** The card of a question of any kind but that of a call in doubt. `isAlone` leaves out whose question it is. */
export function questionCard(item, { isAlone = false } = {}) {
  const parts = { item, key: newKey(), editor: editorOf(item), form: formOf(item) };
  const [word, glyph] = kindOf(item);
  const id = `ask-${item.approval_id}`;
  const who = isAlone ? null : h("a", { class: "name", href: sessionPath(item.session_id), title: item.session_id }, sessionName(item.session_id));
  const card = h(
    "li",
    { class: "ask", "data-approval-id": item.approval_id, "data-kind": item.kind, "aria-labelledby": id },
    h("div", { class: "ask-head" }, h("span", { class: "tag kind" }, icon(glyph), word), who, h("span", { class: "muted" }, item.moniker), ageOf(item.asked_at, "num age")),
    h("h2", { class: "ask-question", id }, item.question || word),
    ...aboutOf(item.about),
    parts.editor && changeable(parts.editor, isAlone),
    parts.form && h("div", { class: "ask-edit" }, parts.form.element),
    ...answersOf(parts),
    untilOf(item),
  );
  parts.card = card;
  card.addEventListener("input", () => nameApprove(parts));
  return card;
}

/** Answer a question with a key press: the button of that decision, or the first thing that may be changed. */
export function press(card, what) {
  const fold = one(".ask-fold", card);
  if (fold && what === "edit") fold.open = true;
  if (what === "edit") one(".ask-edit input, .ask-edit textarea, .ask-edit select, .ask-edit button", card)?.focus();
  else one(`[data-decision="${what}"]`, card)?.click();
}

// --- what it is about --------------------------------------------------------------------------------------------------------

function aboutOf(about) {
  const entries = Object.entries(about ?? {}).filter(([, value]) => value !== null && value !== "");
  if (!entries.length) return [];
  return [h("dl", { class: "ask-about" }, ...entries.map(([name, value]) => h("div", {}, h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, valueOf(name, value)))))];
}

function valueOf(name, value) {
  const text = pretty(value);
  const isLong = text.length > FOLDED_CHARS;
  const isShort = typeof value !== "object" && text.length <= LONG_TEXT && !text.includes("\n");
  if (isShort) return text;
  const whole = h("pre", { tabindex: "0", role: "group", "aria-label": name }, text);
  return isLong ? h("details", {}, h("summary", {}, `${text.slice(0, 120).replaceAll("\n", " ")}…`), whole) : whole;
}

function untilOf(item) {
  if (!item.expires_at) return null;
  const day = exact(item.expires_at).slice(0, 10);
  const moment = day === today() ? clock(item.expires_at) : exact(item.expires_at).slice(0, 16);
  return h("p", { class: "note muted until" }, icon("clock"), `Without an answer by ${moment} ${BY_TIME[item.default] ?? "its default counts"}.`);
}

// --- what may be changed, what has to be filled in -------------------------------------------------------------------------------

/** A JSON Schema that accepts what looks like a value: the form is made of it. */
function schemaOf(value) {
  if (typeof value === "string") return { type: "string", format: value.length > LONG_TEXT || value.includes("\n") ? "long" : "" };
  if (typeof value === "number") return { type: "number" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (Array.isArray(value)) return listSchemaOf(value);
  const inner = Object.entries(value ?? {}).map(([name, part]) => [name, schemaOf(part)]);
  const isPlain = inner.length > 0 && inner.every(([, schema]) => schema.type && !["array", "object"].includes(schema.type));
  return isPlain ? { type: "object", properties: Object.fromEntries(inner), required: inner.map(([name]) => name) } : {};
}

function listSchemaOf(values) {
  const kinds = new Set(values.map((value) => typeof value));
  const [kind] = kinds;
  if (kinds.size !== 1 || !["string", "number"].includes(kind)) return {};
  const schemas = values.map(schemaOf);
  return { type: "array", items: schemas.find(({ format }) => format === "long") ?? schemas[0] };
}

/** What may be changed; on a page with more to show it is folded. */
function changeable(editor, isFolded) {
  const place = h("div", { class: "ask-edit ask-change" }, editor.element);
  return isFolded ? h("details", { class: "ask-fold" }, h("summary", {}, "Change it before it goes on"), place) : place;
}

function editorOf({ editable, fields }) {
  if (editable === null || editable === undefined || fields.length) return null;
  const title = Array.isArray(editable) ? "Parts" : "May be changed";
  const form = schemaFields({ type: "object", properties: { value: { ...schemaOf(editable), title } }, required: ["value"] });
  form.write({ value: editable });
  const before = JSON.stringify(form.read().value);
  return { ...form, hasChanged: () => JSON.stringify(form.read().value) !== before };
}

const FIELD_SCHEMAS = {
  text: () => ({ type: "string" }),
  long_text: () => ({ type: "string", format: "long" }),
  number: () => ({ type: "number" }),
  yes_no: () => ({ type: "boolean" }),
  choice: ({ choices }) => ({ enum: choices }),
};

function formOf({ fields }) {
  if (!fields.length) return null;
  const schema = (field) => ({ ...(FIELD_SCHEMAS[field.kind ?? "text"] ?? FIELD_SCHEMAS.text)(field), title: field.label || undefined });
  return schemaFields({
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field.name, schema(field)])),
    required: fields.filter(({ required }) => required !== false).map(({ name }) => name),
  });
}

// --- the answer ------------------------------------------------------------------------------------------------------------------

function answersOf(parts) {
  const { item } = parts;
  const words = h("textarea", { rows: 1, class: "ask-feedback", "data-grow-here": true, "aria-label": "Why, or what to do better", placeholder: "Why, or what to do better (optional)" });
  words.addEventListener("input", () => {
    words.rows = Math.min(8, Math.max(1, words.value.split("\n").length));
  });
  const button = (decision, word, title, kind) => {
    const made = h("button", { type: "button", class: kind, title, "data-decision": decision, "data-action": `${word}: ${item.question.slice(0, 60)}` }, word);
    allow(made);
    made.addEventListener("click", () => onceAtATime(made, () => send(parts, decision)));
    return made;
  };
  parts.approve = button("approve", item.fields.length ? "Send answers" : "Approve", "It goes on (a)", "primary");
  const buttons = [
    parts.approve,
    item.decisions.includes("retry") && button("retry", "Try again", "Not so: it is done anew with what you write above", ""),
    item.decisions.includes("reject") && button("reject", "Reject", "It does not go on (r)", "danger"),
  ];
  parts.words = words;
  return [words, h("div", { class: "ask-answers" }, ...buttons.filter(Boolean)), h("p", { class: "note", role: "status" }), h("p", { class: "field-error", role: "alert" })];
}

function nameApprove({ editor, approve }) {
  if (editor) setText(approve, editor.hasChanged() ? "Approve with changes" : "Approve");
}

/** What is sent: nothing is changed by who only rejects. Null when a field has to be mended first. */
function bodyOf({ item, key, editor, form, words }, decision) {
  const feedback = words.value.trim();
  const body = { decision, digest: item.digest ?? undefined, feedback: feedback || undefined };
  if (decision === "approve" && form) {
    if (!check(form)) return null;
    body.value = form.read();
  } else if (decision === "approve" && editor?.hasChanged()) {
    if (!check(editor)) return null;
    Object.assign(body, { decision: "edit", value: editor.read().value });
  }
  return { ...body, idempotency_key: `${key}:${body.decision}` };
}

async function send(parts, decision) {
  const error = one(":scope > .field-error", parts.card);
  error.textContent = "";
  const body = bodyOf(parts, decision);
  if (!body) return;
  try {
    await ask("POST", `/api/approvals/${encodeURIComponent(parts.item.approval_id)}`, body);
  } catch (problem) {
    const field = parts.form ?? parts.editor;
    const left = field && problem.errors?.length ? showErrors(field, problem.errors, parts.form ? "value" : "") : (problem.errors ?? []);
    error.textContent = [problem.message, ...left.map(({ field: name, message }) => `${name}: ${message}`)].join(" ");
    return;
  }
  close(parts.card);
}

/** Answered, and not taken up yet: nothing can be pressed any more. */
export function close(card) {
  card.dataset.answered = "";
  setText(one(".note[role=status]", card), STORED);
  for (const field of all("input, textarea, select", card)) field.disabled = true;
  for (const button of all("button", card)) allow(button, "Answered; the worker has not taken it up yet.");
}
