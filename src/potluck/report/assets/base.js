// Small helpers: elements, scales, numbers, and the one tooltip of each chart.
const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
const redraws = [];
const DASHES = ["", "7 4", "2 4", "10 4 2 4"];
const COLOURS = 8;

const colour = (place) => `m${place % COLOURS}`;
const dash = (place) => DASHES[Math.floor(place / COLOURS) % DASHES.length];
const present = (value) => value !== null && value !== undefined;
const bound = (low, value, high) => Math.max(low, Math.min(high, value));

function svg(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function html(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function scale(low, high, from, to) {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
}

function ticks(low, high, count) {
  const rough = (high - low || 1) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((part) => part >= rough * 0.999);
  const found = [];
  for (let turn = Math.ceil(low / step - 1e-9); turn * step <= high + step * 1e-9; turn += 1) found.push(turn * step);
  return found;
}

function written(value, factor) {
  if (!present(value)) return "–";
  const shown = value * factor;
  if (factor === 100) return shown.toFixed(1);
  const size = Math.abs(shown);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) return shown.toExponential(2);
  return Number(shown.toPrecision(4)).toLocaleString("en-GB", { maximumFractionDigits: 4 });
}

function tooltip(host) {
  const tip = html("div", { class: "tip", hidden: "" }, host);
  return {
    tip,
    hide() { tip.hidden = true; },
    place(x, y) {
      tip.hidden = false;
      const wide = host.clientWidth;
      const left = x + 16 + tip.offsetWidth < wide ? x + 16 : x - 16 - tip.offsetWidth;
      tip.style.left = `${bound(0, left, Math.max(0, wide - tip.offsetWidth))}px`;
      tip.style.top = `${Math.max(0, y)}px`;
    },
  };
}

// Marks that carry `data-tip` show it under the pointer and under a finger.
function tips(host) {
  const shown = tooltip(host);
  const show = (event) => {
    const text = event.target.getAttribute && event.target.getAttribute("data-tip");
    if (!text) { shown.hide(); return; }
    const box = host.getBoundingClientRect();
    shown.tip.textContent = text;
    shown.place(event.clientX - box.left, event.clientY - box.top + 14);
  };
  host.addEventListener("pointermove", show);
  host.addEventListener("pointerdown", show);
  host.addEventListener("pointerleave", () => shown.hide());
  return shown.tip;
}

function swatch(place) {
  const mark = svg("svg", { width: 22, height: 10, "aria-hidden": "true", class: colour(place) });
  svg("line", { x1: 1, x2: 21, y1: 5, y2: 5, class: "mean", "stroke-dasharray": dash(place) }, mark);
  return mark;
}
