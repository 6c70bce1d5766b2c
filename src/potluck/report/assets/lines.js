// Curves over rounds: bands, seeds, a cursor that reads every method off, by pointer, touch and arrow keys.
function path(xs, ys, across, up) {
  let drawn = "";
  let pen = false;
  xs.forEach((x, index) => {
    if (!present(ys[index])) { pen = false; return; }
    drawn += `${pen ? "L" : "M"}${across(x).toFixed(1)} ${up(ys[index]).toFixed(1)}`;
    pen = true;
  });
  return drawn;
}

function band(series, across, up) {
  const there = series.x.map((x, index) => index).filter((index) => present(series.mean[index]));
  const point = (index, sign) =>
    `${across(series.x[index]).toFixed(1)} ${up(series.mean[index] + sign * series.std[index]).toFixed(1)}`;
  return `M${[...there.map((i) => point(i, 1)), ...there.reverse().map((i) => point(i, -1))].join("L")}Z`;
}

function extent(shown, bands) {
  const values = shown.flatMap((one) => bands
    ? [...one.mean.flatMap((mean, i) => (present(mean) ? [mean - one.std[i], mean + one.std[i]] : [])),
      ...Object.values(one.seeds).flat().filter(present)]
    : one.mean.filter(present));
  const low = Math.min(...values);
  const high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

// `metric.series[i]` has x, mean and, unless `plain`, std and seeds; `place` is its pen, `label` its name.
function lines(host, metric, { plain = false, height = null } = {}) {
  host.replaceChildren();
  const shown = metric.series.filter((one) => one && (plain || !hidden.has(one.label)));
  if (!shown.length) { html("p", { class: "pale" }, host, "No method to show: switch one on in the legend."); return; }
  const width = Math.max(host.clientWidth, 240);
  const tall = height || Math.round(bound(250, width * 0.46, 430));
  const [low, high] = extent(shown, !plain);
  const xs = [...new Set(shown.flatMap((one) => one.x))].sort((a, b) => a - b);
  const marks = ticks(low * metric.factor, high * metric.factor, Math.round(tall / 62));
  const labels = marks.map((mark) => Number(mark.toPrecision(6)).toLocaleString("en-GB", { maximumSignificantDigits: 4 }));
  const left = 14 + 7.2 * Math.max(...labels.map((text) => text.length));
  const across = scale(xs[0], xs.at(-1) === xs[0] ? xs[0] + 1 : xs.at(-1), left + 6, width - 12);
  const up = scale(low, high, tall - 40, 30);
  const name = `${metric.title} over rounds: ${shown.map((one) => `${one.label} ends at ${written(one.mean.filter(present).at(-1), metric.factor)}`).join(", ")}`;
  const drawn = svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", tabindex: 0, class: "read", "aria-label": name }, host);
  marks.forEach((mark, index) => {
    const y = up(mark / metric.factor);
    svg("line", { x1: left, x2: width - 6, y1: y, y2: y, class: "grid" }, drawn);
    svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, drawn, labels[index]);
  });
  ticks(xs[0], xs.at(-1), Math.round(width / 90)).filter(Number.isInteger).forEach((mark) =>
    svg("text", { x: across(mark), y: tall - 20, "text-anchor": "middle" }, drawn, mark));
  svg("text", { x: 0, y: 14 }, drawn, metric.up);
  svg("text", { x: width - 8, y: tall - 3, "text-anchor": "end" }, drawn, "round");
  const group = (one) => svg("g", { class: colour(one.place) }, drawn);
  if (!plain) shown.forEach((one) => Object.keys(one.seeds).length > 1 && svg("path", { d: band(one, across, up), class: "band" }, group(one)));
  shown.forEach((one) => {
    const mine = group(one);
    const several = !plain && Object.keys(one.seeds).length > 1;
    if (several && eachSeed()) Object.values(one.seeds).forEach((ys) => svg("path", { d: path(one.x, ys, across, up), class: "seed" }, mine));
    svg("path", { d: path(one.x, one.mean, across, up), class: plain ? "site" : "mean", "stroke-dasharray": dash(one.place) }, mine);
    if (one.x.length <= 3) one.x.forEach((x, i) => present(one.mean[i]) && svg("circle", { cx: across(x), cy: up(one.mean[i]), r: 4, class: "dot" }, mine));
  });
  reading(host, drawn, { shown, metric, xs, across, up, tall, plain });
}

function eachSeed() {
  const box = document.getElementById("each-seed");
  return !box || box.checked;
}

function reading(host, drawn, { shown, metric, xs, across, up, tall, plain }) {
  const shownTip = tooltip(host);
  const mark = svg("g", {}, drawn);
  let at = -1;
  const clear = () => { at = -1; mark.replaceChildren(); shownTip.hide(); };
  const show = (index) => {
    at = bound(0, index, xs.length - 1);
    const x = xs[at];
    mark.replaceChildren();
    svg("line", { x1: across(x), x2: across(x), y1: 24, y2: tall - 38, class: "cursor" }, mark);
    const there = shown.map((one) => ({ one, i: one.x.indexOf(x) })).filter(({ one, i }) => i >= 0 && present(one.mean[i]));
    there.sort((a, b) => b.one.mean[b.i] - a.one.mean[a.i]);
    shownTip.tip.replaceChildren(html("b", {}, null, `round ${x}`));
    const rows = html("table", {}, shownTip.tip);
    there.slice(0, 16).forEach(({ one, i }) => {
      const row = html("tr", { class: colour(one.place) }, rows);
      const cell = html("td", {}, row);
      cell.append(swatch(one.place), one.label);
      html("td", {}, row, written(one.mean[i], metric.factor));
      const seeds = plain ? 0 : Object.values(one.seeds).filter((ys) => present(ys[i])).length;
      html("td", { class: "pale" }, row, seeds > 1 ? `± ${written(one.std[i], metric.factor)}` : "");
    });
    there.forEach(({ one, i }) => svg("circle", { cx: across(x), cy: up(one.mean[i]), r: 4.2, class: `ring ${colour(one.place)}` }, mark));
    shownTip.place(across(x), host.clientWidth < 520 ? tall + 4 : 30);
  };
  const nearest = (event) => {
    const x = event.clientX - drawn.getBoundingClientRect().left;
    return xs.reduce((best, value, index) => (Math.abs(across(value) - x) < Math.abs(across(xs[best]) - x) ? index : best), 0);
  };
  drawn.addEventListener("pointermove", (event) => show(nearest(event)));
  drawn.addEventListener("pointerdown", (event) => show(nearest(event)));
  drawn.addEventListener("pointerleave", clear);
  drawn.addEventListener("blur", clear);
  drawn.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") clear();
    if (!step) return;
    event.preventDefault();
    show(at < 0 ? (step > 0 ? 0 : xs.length - 1) : at + step);
  });
}

function named(metric) {
  return { ...metric, series: metric.series.map((one, place) => one && { ...one, place, label: data.labels[place] }) };
}
