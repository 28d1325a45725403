// A page of drawings alone, such as the map of texts.

import { drawingPart } from "./shared/drawings.js";

const { drawings } = JSON.parse(document.getElementById("data").textContent);
document.querySelector("main").append(...drawings.map(drawingPart));
document.documentElement.dataset.readyMs = Math.round(performance.now());
