// The page of a server: one line above, and below it the view of the chosen model's task.

import { readAddress, writeAddress } from "./app/address.js";
import { Connection } from "./app/connection.js";
import { themeSelect } from "./app/theme.js";
import { AnswerView } from "./app/views/answer.js";
import { CaptionView } from "./app/views/caption.js";
import { FillView } from "./app/views/fill.js";
import { GenerateView } from "./app/views/generate.js";
import { LabelView, NumberView } from "./app/views/label.js";
import { ParseView } from "./app/views/parse.js";
import { TagView } from "./app/views/tag.js";
import { TranslateView } from "./app/views/translate.js";
import { element, shortened } from "./shared/elements.js";

const VIEWS = {
  translate: TranslateView, classify: LabelView, regress: NumberView, tag: TagView, parse: ParseView, generate: GenerateView,
  fill: FillView, answer: AnswerView, caption: CaptionView,
};
const MOST_SPOKEN = 300; // letters of a result that screen readers are given at once
const NOTHING = "This server has no models that the page can show.";

/** The view for a model; a question about an image is answered by a class. */
function viewOf({ verb, roles }) {
  return verb === "answer" && roles.includes("image") ? LabelView : VIEWS[verb];
}

/** The name of a language in English, if browsers know it. */
function nameOf(language) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(language);
  } catch {
    return language;
  }
}

const line = document.querySelector("#notice"), main = document.querySelector("main"), spoken = document.querySelector("#spoken");
const models = element("select", { id: "model", onchange: () => choose(models.value, app.view.fields.texts) });
const targets = element("select", { id: "to", onchange: () => retarget() });
const target = element("span", { class: "option", hidden: true }, element("label", { for: "to" }, "To"), targets);
const facts = element("span", { class: "facts" });
document.querySelector("#line").append(
  element("span", { class: "option" }, element("label", { for: "model" }, "Model"), models), target, facts,
  element("span", { class: "option last" }, element("label", { for: "theme" }, "Theme"), themeSelect()));

const app = {
  connection: new Connection(line),
  model: null,
  view: null,
  get to() { return targets.value; },
  announce(text) { spoken.textContent = shortened(text, MOST_SPOKEN); },
  changed() { writeAddress({ model: app.model.id, to: targets.value, ...app.view.state }); },
};

/** Ask again, for another language. */
function retarget() {
  app.view.age();
  app.view.start({ soon: true });
  app.changed();
}

/** Show a model, with texts and other things that the address may hold. */
function choose(id, state) {
  app.view?.remove();
  app.model = served.find((model) => model.id === id) ?? served[0];
  models.value = app.model.id;
  facts.textContent = app.model.size ?? "";
  targets.replaceChildren(...app.model.languages.map((language) => element("option", { value: language }, nameOf(language))));
  if (app.model.languages.includes(state.to)) targets.value = state.to;
  target.hidden = app.model.languages.length < 2;
  app.view = new (viewOf(app.model))(app);
  main.replaceChildren(app.view.root);
  app.view.restore(state);
}

const served = (await app.connection.json("v1/models")).data.filter(viewOf);
models.append(...served.map(({ id }) => element("option", { value: id }, id)));
if (served.length) {
  const state = readAddress();
  choose(state.model, state);
  if (!Object.keys(state).length) app.view.fields.focus();
  addEventListener("hashchange", () => choose(readAddress().model, readAddress()));
} else main.replaceChildren(element("p", { class: "note" }, NOTHING));
document.documentElement.dataset.ready = "true";
