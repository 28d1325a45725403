// The explorer: one text at a time, its result, its attention and its alignment.

import { mountExplorer } from "./explorer/view.js";
import { element, shortened } from "./shared/elements.js";

const data = JSON.parse(document.getElementById("data").textContent);
const explorer = (window.explorer = mountExplorer(document.querySelector("main"), data.items[0]));

if (data.items.length > 1) {
  const select = element("select", { id: "texts", onchange: (event) => explorer.update(data.items[Number(event.target.value)]) },
    data.items.map((item, index) => element("option", { value: index }, shortened(item.text, 90) + (item.change ? ` (${item.change})` : ""))));
  document.querySelector("header.page").append(element("div", { class: "picker" }, element("label", { for: "texts" }, "Text"), select));
}
await explorer.ready;
document.documentElement.dataset.readyMs = Math.round(performance.now());
