// Clients: box plots of their accuracies, and the tracks of who holds what and weighs how much.
const LONGEST = 16;
const cut = (label) => (label.length > LONGEST ? `${label.slice(0, LONGEST - 1)}…` : label);

function boxes(host) {
  const tip = tips(host);
  host.replaceChildren(tip);
  const shown = data.boxes.map((one, place) => ({ one, place, label: data.labels[place] })).filter(({ one, label }) => one && !hidden.has(label));
  if (!shown.length) { html("p", { class: "pale" }, host, "No method to show: switch one on in the legend."); return; }
  const width = Math.max(host.clientWidth, 240);
  const row = 62;
  const tall = shown.length * row + 34;
  const low = Math.min(...shown.map(({ one }) => one.quartiles[0]));
  const high = Math.max(...shown.map(({ one }) => one.quartiles[4]));
  const room = (high - low || 0.02) * 0.03;
  const across = scale(Math.max(0, low - room), Math.min(1, high + room), 16, width - 24);
  const drawn = svg("svg", { width, height: tall, role: "img", "aria-label": "Box plots of the clients' accuracies" }, host);
  ticks(100 * Math.max(0, low - room), 100 * Math.min(1, high + room), Math.round(width / 90)).forEach((mark) => {
    svg("line", { x1: across(mark / 100), x2: across(mark / 100), y1: 0, y2: tall - 28, class: "grid" }, drawn);
    svg("text", { x: across(mark / 100), y: tall - 12, "text-anchor": "middle" }, drawn, `${Number(mark.toPrecision(6))} %`);
  });
  shown.forEach(({ one, place, label }, index) => box(svg("g", { class: colour(place) }, drawn), one, label, across, index * row, width));
}

function box(group, one, label, across, top, width) {
  const [least, first, middle, third, most] = one.quartiles;
  const y = top + 42;
  const dots = one.seeds.flatMap(([seed, clients, values]) => clients.map((client, i) => ({ seed, client, value: values[i] })));
  const worst = dots.reduce((a, b) => (b.value < a.value ? b : a));
  const title = svg("text", { x: 8, y: top + 20, class: "ink", "font-weight": 600 }, group, label);
  const who = width > 520 ? ` (client ${worst.client}, seed ${worst.seed})` : "";
  const note = `median ${written(middle, 100)}, worst ${written(worst.value, 100)}${who}`;
  svg("tspan", { "font-weight": 400, style: "fill: var(--pale)", dx: 8 }, title, note);
  svg("line", { x1: across(least), x2: across(most), y1: y, y2: y, class: "whisker" }, group);
  svg("rect", { x: across(first), y: y - 11, width: Math.max(1, across(third) - across(first)), height: 22, rx: 4, class: "box" }, group);
  svg("line", { x1: across(middle), x2: across(middle), y1: y - 11, y2: y + 11, class: "median" }, group);
  dots.forEach(({ seed, client, value }, i) => svg("circle", {
    cx: across(value), cy: y + ((i % 5) - 2) * 4, r: dots.length > 150 ? 2 : 3, class: "scatter",
    "data-tip": `${label}: client ${client}, seed ${seed}: ${written(value, 100)} %`,
  }, group));
  const spot = ((dots.indexOf(worst) % 5) - 2) * 4;
  svg("circle", { cx: across(worst.value), cy: y + spot, r: 5.5, class: "worst" }, group);
}

function tracks(host, chosen) {
  const own = data.partitions[chosen];
  const keep = host.scrollLeft;
  const tip = tips(host.parentElement);
  host.parentElement.querySelectorAll(".tip").forEach((old) => old !== tip && old.remove());
  host.replaceChildren();
  const longest = Math.max(6, ...[...own.classes, ...data.labels].map((text) => Math.min(text.length, LONGEST)));
  const names = 16 + 7.2 * longest;
  const cell = bound(9, (host.clientWidth - names - 14) / own.clients.length, 110);
  const tall = own.classes.length > 30 ? 11 : bound(16, cell, 30);
  const bars = 54;
  const weighted = data.weights.map((seeds, place) => ({ weights: seeds[own.seed], place, label: data.labels[place] }))
    .filter(({ weights, place, label }) => weights && own.runs.includes(place) && !hidden.has(label));
  const bottom = bars + 14 + own.classes.length * tall;
  const strip = 52;
  const width = names + cell * own.clients.length + 14;
  const height = bottom + 34 + (weighted.length ? 26 + weighted.length * strip : 0);
  const drawn = svg("svg", { width, height, role: "img", "aria-label": `Rows of each class at each of ${own.clients.length} clients` }, host);
  const middle = (k) => names + (k + 0.5) * cell;
  rowBars(drawn, own, { bars, cell, middle, names });
  matrix(drawn, own, { top: bars + 14, tall, cell, middle, names });
  const skip = Math.ceil(26 / cell);
  own.clients.forEach((client, k) => k % skip === 0 && svg("text", { x: middle(k), y: bottom + 16, "text-anchor": "middle" }, drawn, client));
  svg("text", { x: names - 10, y: bottom + 16, "text-anchor": "end" }, drawn, "client");
  if (weighted.length) {
    svg("text", { x: names, y: bottom + 46, class: "ink", "font-weight": 600 }, drawn, "Mean weight in the aggregation");
    weightStrips(drawn, own, weighted, { top: bottom + 50, strip, cell, middle, names });
  }
  host.scrollLeft = keep;
}

function rowBars(drawn, own, { bars, cell, middle, names }) {
  const sums = own.counts.map((row) => row.reduce((a, b) => a + b, 0));
  const most = Math.max(...sums, 1);
  const wide = Math.min(cell * 0.72, 40);
  svg("text", { x: names - 10, y: bars, "text-anchor": "end" }, drawn, "rows");
  svg("text", { x: names - 10, y: 14, "text-anchor": "end" }, drawn, most.toLocaleString("en-GB"));
  sums.forEach((sum, k) => {
    const high = Math.max(1, (bars - 4) * (sum / most));
    svg("rect", { x: middle(k) - wide / 2, y: bars - high, width: wide, height: high, rx: 2, class: "rowbar",
      "data-tip": `client ${own.clients[k]}: ${sum.toLocaleString("en-GB")} rows` }, drawn);
  });
}

function matrix(drawn, own, { top, tall, cell, middle, names }) {
  const most = Math.max(...own.counts.flat(), 1);
  const round = Math.min(cell, tall) >= 14;
  const skip = Math.ceil(13 / tall);
  own.classes.forEach((label, row) => {
    const y = top + (row + 0.5) * tall;
    if (round) svg("line", { x1: names, x2: middle(own.clients.length - 0.5), y1: y, y2: y, class: "grid" }, drawn);
    if (row % skip === 0) svg("text", { x: names - 10, y: y + 4, "text-anchor": "end" }, drawn, cut(label));
    own.counts.forEach((counts, k) => {
      const share = counts[row] / most;
      if (!share) return;
      const mark = { class: "cell", "data-tip": `client ${own.clients[k]}, ${label}: ${counts[row].toLocaleString("en-GB")} rows` };
      if (round) svg("circle", { ...mark, cx: middle(k), cy: y, r: Math.max(1, Math.sqrt(share) * Math.min(cell, tall) * 0.5) }, drawn);
      else svg("rect", { ...mark, x: middle(k) - cell * 0.46, y: y - tall * 0.46, width: cell * 0.92, height: tall * 0.92, opacity: (0.06 + 0.94 * Math.sqrt(share)).toFixed(3) }, drawn);
    });
  });
}

function weightStrips(drawn, own, weighted, { top, strip, cell, middle, names }) {
  const most = Math.max(...weighted.flatMap(({ weights }) => Object.values(weights)).filter(present), 1e-12);
  const wide = Math.min(cell * 0.72, 40);
  weighted.forEach(({ weights, place, label }, index) => {
    const base = top + (index + 1) * strip;
    const group = svg("g", { class: colour(place) }, drawn);
    svg("line", { x1: names, x2: middle(own.clients.length - 0.5), y1: base, y2: base, class: "grid" }, group);
    svg("text", { x: names - 10, y: base - 2, "text-anchor": "end", class: "ink" }, group, cut(label));
    own.clients.forEach((client, k) => {
      const weight = weights[client];
      if (!present(weight)) return;
      const high = Math.max(1, (strip - 16) * (weight / most));
      svg("rect", { x: middle(k) - wide / 2, y: base - high, width: wide, height: high, rx: 2, class: "dot",
        "data-tip": `${label}: client ${client} weighs ${(100 * weight).toFixed(2)} % on average` }, group);
    });
  });
}
