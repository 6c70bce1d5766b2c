// The page's parts: legend, selectors, sorting, copying; everything is drawn again when the width changes.
const find = (id) => document.getElementById(id);

function legends() {
  document.querySelectorAll(".legend").forEach((list) => {
    list.replaceChildren();
    data.labels.forEach((label, place) => {
      const button = html("button", { type: "button", "aria-pressed": String(!hidden.has(label)), class: colour(place), title: "click: on or off; double click: only this one" }, html("li", {}, list));
      button.append(swatch(place), html("span", {}, null, label));
      button.addEventListener("click", () => { if (!hidden.delete(label)) hidden.add(label); update(); });
      button.addEventListener("dblclick", () => {
        hidden.clear();
        data.labels.filter((other) => other !== label).forEach((other) => hidden.add(other));
        update();
      });
    });
  });
}

function update() {
  document.querySelectorAll(".legend").forEach((list) => list.querySelectorAll("button").forEach((button, place) =>
    button.setAttribute("aria-pressed", String(!hidden.has(data.labels[place])))));
  redraws.forEach((redraw) => redraw());
}

function selector(select, options) {
  const groups = new Map();
  options.forEach(({ title, group }, index) => {
    const parent = group ? groups.get(group) || html("optgroup", { label: group }, select) : select;
    if (group) groups.set(group, parent);
    html("option", { value: index }, parent, title);
  });
}

function curvesPart() {
  if (!find("curves") || !data.metrics.length) return;
  const select = find("metric");
  selector(select, data.metrics);
  const draw = () => {
    const metric = named(data.metrics[Number(select.value)]);
    lines(find("curves"), metric);
    find("over-rounds").querySelectorAll(".legend button").forEach((button, place) => button.classList.toggle("absent", !metric.series[place]));
    const without = data.labels.filter((label, place) => !metric.series[place]);
    find("without").textContent = without.length ? `Not defined or not recorded for ${without.join("; ")}.` : "";
  };
  select.addEventListener("change", draw);
  find("each-seed").addEventListener("change", draw);
  redraws.push(draw);
}

function clientParts() {
  if (find("boxes")) redraws.push(() => boxes(find("boxes")));
  if (!find("tracks")) return;
  const select = find("which-partition");
  selector(select, data.partitions);
  const draw = () => tracks(find("tracks"), Number(select.value));
  select.addEventListener("change", draw);
  redraws.push(draw);
}

function smallParts() {
  Object.entries(data.apart).forEach(([what, metric]) => {
    const host = find(`chart-${what}`);
    if (host) redraws.push(() => lines(host, named(metric), { height: 280 }));
  });
  data.sites.forEach((sites, place) => {
    const host = find(`sites-${place}`);
    const series = sites.map((site) => ({ ...site, place }));
    const metric = { title: `Accuracy of each site, ${data.labels[place]}`, up: "accuracy (%)", factor: 100, series };
    if (host) redraws.push(() => lines(host, metric, { plain: true, height: 260 }));
  });
}

function sorting() {
  document.querySelectorAll("table[data-sortable]").forEach((table) => {
    table.querySelectorAll("thead th").forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && head.dataset.first === "up");
      table.querySelectorAll("thead th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
      const words = head.dataset.kind === "words";
      const missing = (row) => !words && value(row) === "";
      const order = (a, b) => (words ? value(a).localeCompare(value(b)) : Number(value(a)) - Number(value(b)));
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => missing(a) - missing(b) || (down ? 1 : -1) * order(a, b));
      table.tBodies[0].append(...rows);
    }));
  });
}

function copying() {
  document.querySelectorAll(".command button").forEach((button) => button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected";
    }
  }));
}

legends();
curvesPart();
clientParts();
smallParts();
sorting();
copying();
update();
let wide = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === wide) return;
  wide = document.documentElement.clientWidth;
  update();
});
document.documentElement.dataset.ready = "yes";
