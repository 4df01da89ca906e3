// The list of conversations and the sheet that begins one.

import { startFrame } from "./banner.js";
import { all, allow, ask, growList, one, onceAtATime } from "./dom.js";

const sheet = one("[data-create-sheet]");
const form = one("[data-create-form]");
const submit = one("[data-submit]", form);

function requestOf() {
  const values = Object.entries(Object.fromEntries(new FormData(form))).map(([name, value]) => [name, value.trim()]);
  const request = Object.fromEntries(values.filter(([, value]) => value));
  if (request.tags) request.tags = request.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
  return request;
}

function showErrors(problem) {
  const placed = problem.errors.filter(({ field, message }) => {
    const place = one(`[data-field="${CSS.escape(String(field).split(".")[0])}"] [data-field-error]`, form);
    if (place) place.textContent = message;
    return place;
  });
  if (!placed.length) one("[data-form-error]", form).textContent = problem.message;
}

async function create() {
  for (const place of all("[data-field-error], [data-form-error]", form)) place.textContent = "";
  try {
    const { conversation_id } = await ask("POST", "/api/conversations", requestOf());
    location.assign(`/conversations/${encodeURIComponent(conversation_id)}`);
  } catch (problem) {
    showErrors(problem);
  }
}

startFrame();
for (const button of all("[data-create]")) {
  allow(button);
  button.addEventListener("click", () => sheet.showModal());
}
allow(submit);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  onceAtATime(submit, create);
});
one("[data-close]", sheet).addEventListener("click", () => sheet.close());
sheet.addEventListener("click", (event) => {
  if (event.target === sheet) sheet.close();
});
const rows = one("[data-rows]");
if (rows) growList(rows);
