// Reports of runs: the values under the pointer, or where arrow keys lead, and every chart as a file.
import { element, saveButton } from "./shared/elements.js";

const data = JSON.parse(document.getElementById("data").textContent);

/** Return a value as people read it. */
function shown(value) {
  return value === null || value === undefined ? "–" : String(Number(value.toPrecision(6)));
}

/** Let a chart show its values at a step. */
function attend(figure, { name, series }) {
  const svg = figure.querySelector("svg"), plot = svg.querySelector(".plot"), readout = figure.querySelector(".readout");
  const [low, high, left, right] = plot.dataset.x.split(" ").map(Number), [top, bottom] = plot.dataset.y.split(" ").map(Number);
  const steps = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  line.setAttribute("class", "cursor");
  for (const [key, value] of Object.entries({ y1: top, y2: bottom, visibility: "hidden" })) line.setAttribute(key, value);
  plot.append(line);
  let at = -1;

  function show(index) {
    at = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[at], x = left + ((right - left) * (step - low)) / (high - low);
    for (const [key, value] of Object.entries({ x1: x, x2: x, visibility: "visible" })) line.setAttribute(key, value);
    const said = series.map((one) => [one.name, one.y[one.x.indexOf(step)]]).filter(([, value]) => value !== undefined);
    readout.replaceChildren(`step ${step.toLocaleString("en")}`, ...said.flatMap(([label, value]) => [
      series.length > 1 ? `, ${label} ` : ", ", element("b", { "data-series": label, "data-value": value }, shown(value))]));
  }

  function hide() {
    line.setAttribute("visibility", "hidden");
    readout.replaceChildren();
  }

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const step = low + ((high - low) * (x - left)) / (right - left);
    let nearest = 0;
    for (let index = 1; index < steps.length; index++) if (Math.abs(steps[index] - step) < Math.abs(steps[nearest] - step)) nearest = index;
    show(nearest);
  });
  svg.addEventListener("pointerleave", hide);
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: steps.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    show(next);
  });
  svg.addEventListener("blur", hide);
  figure.querySelector(".tools").append(saveButton(name, () => {
    const copy = svg.cloneNode(true);
    copy.querySelector(".cursor").remove();
    return new XMLSerializer().serializeToString(copy);
  }));
}

for (const one of data.figures) attend(document.getElementById(`figure-${one.name}`), one);
document.documentElement.dataset.ready = "true";
